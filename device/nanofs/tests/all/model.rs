//! Random operations against a reference in memory, with mounts in between.
//!
//! A failure prints its seed; `NANOFS_SEED=n cargo test -p flashkit-nanofs model` replays
//! it. `NANOFS_RUNS=n` runs more seeds.

use std::collections::BTreeMap;

use crate::common::{KEY, assert_sound, content, formatted, mounted, read_tree, some_len};
use flashkit_nanofs::{Error, Handle, NanoFs};
use flashkit_sim::{Rng, SimCard};

type Tree = BTreeMap<String, Vec<u8>>;

struct Model<const N: usize> {
    fs: NanoFs<SimCard, N>,
    rng: Rng,
    tree: Tree,
    open: Vec<(Handle, String)>,
    files: u32,
    tag: u32,
}

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn run<const N: usize>(seed: u64) {
    let mut rng = Rng::new(seed);
    let files = 1 + rng.below(9) as u32;
    let blocks = 4 * files + 16 + rng.below(500) as u32;
    let mut model = Model::<N> {
        fs: mounted(formatted(blocks, files)),
        rng,
        tree: Tree::new(),
        open: Vec::new(),
        files,
        tag: 0,
    };
    for _ in 0..250 {
        model.step();
    }
    model.remount();
}

#[test]
fn random_operations_do_what_the_reference_does() {
    let seeds = match env("NANOFS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..env("NANOFS_RUNS").unwrap_or(120),
    };
    for seed in seeds {
        let run = match seed % 3 {
            0 => run::<3>,
            1 => run::<4>,
            _ => run::<6>,
        };
        if std::panic::catch_unwind(|| run(seed)).is_err() {
            panic!("NANOFS_SEED={seed}");
        }
    }
}

impl<const N: usize> Model<N> {
    fn step(&mut self) {
        let what = self.rng.below(25);
        if std::env::var_os("NANOFS_TRACE").is_some() {
            let sizes: Vec<_> = self.tree.iter().map(|(n, d)| (&n[..2], d.len())).collect();
            eprintln!("{what} {sizes:?}");
        }
        match what {
            0..=2 => self.create(),
            3 => self.delete(),
            4 => self.rename(),
            5..=9 => self.append(),
            10..=12 => self.overwrite(),
            13 => self.truncate(),
            14..=17 => self.read(),
            18 => self.open_again(),
            19 => self.close(),
            20 => self.stop(),
            21 | 22 => {
                self.fs.clean(self.rng.below(400) as u32).unwrap();
            }
            23 => self.mistakes(),
            _ => match self.rng.one_in(4) {
                true => self.remount(),
                false => self.compare(),
            },
        }
    }

    fn name(&mut self) -> String {
        let n = self.rng.below(u64::from(self.files) + 2);
        format!("f{n}{}", "x".repeat(n as usize * 6))
    }

    fn create(&mut self) {
        let name = self.name();
        match self.fs.create(name.as_bytes()) {
            Ok(handle) => {
                assert!(self.tree.insert(name.clone(), Vec::new()).is_none());
                self.open.push((handle, name));
            }
            Err(Error::Exists) => assert!(self.tree.contains_key(&name)),
            Err(Error::TooManyFiles) => {
                // Deleted files count until they are cleaned.
                while self.fs.clean(1_000).unwrap() {}
                if self.tree.len() < self.files as usize {
                    let handle = self.fs.create(name.as_bytes()).unwrap();
                    self.tree.insert(name.clone(), Vec::new());
                    self.open.push((handle, name));
                }
            }
            Err(e) => panic!("{e:?}"),
        }
    }

    fn delete(&mut self) {
        let name = self.name();
        let is_open = self.open.iter().any(|(_, n)| *n == name);
        match self.fs.delete(name.as_bytes()) {
            Ok(()) => {
                assert!(!is_open);
                assert!(self.tree.remove(&name).is_some());
            }
            Err(Error::Busy) => assert!(is_open),
            Err(Error::NotFound) => assert!(!self.tree.contains_key(&name)),
            Err(e) => panic!("{e:?}"),
        }
    }

    fn rename(&mut self) {
        let (from, to) = (self.name(), self.name());
        match self.fs.rename(from.as_bytes(), to.as_bytes()) {
            Ok(()) => {
                let data = self.tree.remove(&from).unwrap();
                assert!(self.tree.insert(to.clone(), data).is_none());
                for (_, name) in &mut self.open {
                    if *name == from {
                        *name = to.clone();
                    }
                }
            }
            Err(Error::Exists) => assert!(self.tree.contains_key(&to)),
            Err(Error::NotFound) => assert!(!self.tree.contains_key(&from)),
            Err(e) => panic!("{e:?}"),
        }
    }

    fn pick(&mut self) -> Option<(Handle, String)> {
        let n = self.open.len() as u64;
        (n > 0).then(|| self.open[self.rng.below(n) as usize].clone())
    }

    fn append(&mut self) {
        let Some((handle, name)) = self.pick() else {
            return;
        };
        self.tag += 1;
        let data = content(self.tag, 0, some_len(&mut self.rng, 6_000));
        let held = self.tree.get_mut(&name).unwrap();
        let before = held.len();
        match self.fs.append(handle, &data) {
            Ok(()) => held.extend(&data),
            Err(Error::Full) => {
                let size = self.fs.size(handle).unwrap() as usize;
                assert_eq!(self.fs.position(handle).unwrap() as usize, size);
                held.extend(&data[..size - before]);
            }
            Err(e) => panic!("{e:?}"),
        }
    }

    fn overwrite(&mut self) {
        let Some((handle, name)) = self.pick() else {
            return;
        };
        self.tag += 1;
        let held = self.tree.get_mut(&name).unwrap();
        let at = self.rng.below(held.len() as u64 + 1) as usize;
        let max = if self.rng.one_in(10) { 20_000 } else { 2_500 };
        let data = content(self.tag, at, some_len(&mut self.rng, max));
        self.fs.seek(handle, at as u32).unwrap();
        let done = match self.fs.write(handle, &data) {
            Ok(()) => data.len(),
            Err(Error::Full) => self.fs.position(handle).unwrap() as usize - at,
            Err(e) => panic!("{e:?}"),
        };
        let end = held.len().max(at + done);
        held.resize(end, 0);
        held[at..at + done].copy_from_slice(&data[..done]);
    }

    fn truncate(&mut self) {
        let Some((handle, name)) = self.pick() else {
            return;
        };
        let held = self.tree.get_mut(&name).unwrap();
        let size = match self.rng.below(4) {
            0 => 0,
            1 => self.rng.below(held.len() as u64 / 500 + 1) as usize * 500,
            _ => self.rng.below(held.len() as u64 + 1) as usize,
        };
        self.fs.truncate(handle, size as u32).unwrap();
        held.truncate(size);
    }

    fn read(&mut self) {
        let Some((handle, name)) = self.pick() else {
            return;
        };
        let held = &self.tree[&name];
        let at = self.rng.below(held.len() as u64 + 1) as usize;
        let mut data = vec![0xee; some_len(&mut self.rng, 8_000)];
        self.fs.seek(handle, at as u32).unwrap();
        let n = self.fs.read(handle, &mut data).unwrap() as usize;
        assert_eq!(n, data.len().min(held.len() - at), "{name} at {at}");
        assert!(data[..n] == held[at..at + n], "{name} at {at}, {n} bytes");
    }

    fn open_again(&mut self) {
        let name = self.name();
        match self.fs.open(name.as_bytes()) {
            Ok(handle) => {
                assert!(self.tree.contains_key(&name));
                self.open.push((handle, name));
            }
            Err(Error::NotFound) => assert!(!self.tree.contains_key(&name)),
            Err(e) => panic!("{e:?}"),
        }
    }

    /// Calls that fail change nothing.
    fn mistakes(&mut self) {
        let fs = &mut self.fs;
        let bad = [
            Handle(u32::MAX),
            Handle(64),
            Handle(63 - self.rng.below(3) as u32),
        ];
        for handle in bad {
            if self.open.iter().any(|(h, _)| *h == handle) {
                continue;
            }
            assert_eq!(fs.read(handle, &mut [0; 9]), Err(Error::BadHandle));
            assert_eq!(fs.write(handle, b"x"), Err(Error::BadHandle));
            assert_eq!(fs.append(handle, b"x"), Err(Error::BadHandle));
            assert_eq!(fs.truncate(handle, 1), Err(Error::BadHandle));
            assert_eq!(fs.close(handle), Err(Error::BadHandle));
            assert_eq!(fs.size(handle), Err(Error::BadHandle));
        }
        assert_eq!(fs.create(b""), Err(Error::BadName));
        assert_eq!(fs.open(&[b'x'; 65]), Err(Error::NameTooLong));
        assert_eq!(fs.delete(b"no such file"), Err(Error::NotFound));
        let Some((handle, name)) = self.pick() else {
            return;
        };
        let beyond = (self.tree[&name].len() as u64 + 1 + self.rng.below(2_000)) as u32;
        let fs = &mut self.fs;
        assert_eq!(fs.truncate(handle, beyond), Err(Error::BeyondEnd));
        fs.seek(handle, beyond).unwrap();
        assert_eq!(fs.write(handle, b"x"), Err(Error::BeyondEnd));
        assert_eq!(fs.read(handle, &mut [0; 9]), Ok(0));
        fs.rename(name.as_bytes(), name.as_bytes()).unwrap_err();
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            let i = self.rng.below(self.open.len() as u64) as usize;
            let (handle, _) = self.open.swap_remove(i);
            self.fs.close(handle).unwrap();
        }
    }

    fn compare(&mut self) {
        let tree = read_tree(&mut self.fs).unwrap();
        self.same(&tree);
    }

    fn same(&self, tree: &Tree) {
        assert!(tree.keys().eq(self.tree.keys()), "{:?}", tree.keys());
        for (name, held) in &self.tree {
            let found = &tree[name];
            let same = found.iter().zip(held).take_while(|(a, b)| a == b).count();
            let (n, m) = (found.len(), held.len());
            assert!(
                found == held,
                "{name}: {n} bytes, not {m}; equal up to {same}"
            );
        }
    }

    /// What is synced is there after a stop.
    fn stop(&mut self) {
        self.fs.sync().unwrap();
        let mut fs: NanoFs<SimCard, N> = mounted(self.fs.device().clone());
        assert_sound(fs.device(), "stopped");
        self.same(&read_tree(&mut fs).unwrap());
    }

    /// Closes all files, or leaves them open and syncs, and mounts again.
    fn remount(&mut self) {
        match self.rng.one_in(2) {
            true => {
                while !self.open.is_empty() {
                    self.close();
                }
            }
            false => self.fs.sync().unwrap(),
        }
        self.open.clear();
        let card = std::mem::replace(&mut self.fs, NanoFs::new(formatted(64, 1))).into_device();
        self.fs = NanoFs::new(card);
        self.fs.mount(KEY).unwrap();
        assert_sound(self.fs.device(), "mounted");
        self.compare();
        assert_sound(self.fs.device(), "read");
    }
}
