//! File systems in images when the host crashes: what an fsync has answered for is there, what was
//! there before is too, and the volume is whole.

use std::collections::BTreeMap;
use std::path::Path;

use flashkit_flashlight::{Config, New, ram_needed};
use flashkit_nand::Geometry;
use flashkit_nanofs::NanoFs;
use flashkit_sim::{Access, CardFile, ChipSpec, Rng, SimNand, TestHost, Timing};
use flashkit_vfs::any::{self, AnyNand};
use flashkit_vfs::nanofs::NanoFsFs;
use flashkit_vfs::{Error, FileSystem, Ino, NewInode, Time, check, nanofs, path};
use tempfile::TempDir;

const NOW: Time = Time { secs: 9, nanos: 7 };
const KEY: u32 = 7;
/// Files that are synced, and how long they grow.
const FILES: u64 = 12;
const LENGTH: u64 = 12_000;

/// Crashes that each test makes: `FLASHKIT_CRASHES`, or 500. What fails names the crash, from 0 on;
/// that many and one come to it again.
fn crashes() -> u64 {
    std::env::var("FLASHKIT_CRASHES").map_or(500, |n| n.parse().expect("a number"))
}

type Work<'a> = &'a mut dyn FnMut(&mut dyn FileSystem) -> Result<(), String>;

/// A file system in an image.
trait Kind {
    fn make(image: &Path);
    /// Mounts it, on a host that may crash, for some work; it is not unmounted.
    fn mounted(image: &Path, host: &TestHost, barrier: bool, work: Work<'_>) -> Result<(), String>;
    /// What is wrong with it.
    fn fsck(image: &Path) -> Result<(), String>;
    /// Whether a rename replaces a file at once.
    const REPLACES: bool;
}

struct FlashLight;

impl Kind for FlashLight {
    const REPLACES: bool = true;

    fn make(image: &Path) {
        let geometry = Geometry::new(1024, 40, 16, 64).unwrap();
        let timing = Timing {
            read_ns: 1,
            program_ns: 10,
            erase_ns: 100,
        };
        let chip = SimNand::create(image, ChipSpec::new(geometry, timing)).unwrap();
        let mut ram = vec![0; ram_needed(&geometry)];
        any::format(
            AnyNand::new(chip),
            &mut ram,
            1,
            &New::default(),
            Config::default(),
        )
        .unwrap();
    }

    fn mounted(image: &Path, host: &TestHost, barrier: bool, work: Work<'_>) -> Result<(), String> {
        let chip = SimNand::open_on(image, Access::ReadWrite, Some(host));
        let mut chip = chip.map_err(|e| e.to_string())?;
        chip.set_barrier(barrier);
        let mut ram = vec![0; ram_needed(&flashkit_nand::Nand::geometry(&chip))];
        let fs = any::mount(AnyNand::new(chip), &mut ram, Config::default());
        work(&mut fs.map_err(|e| format!("mount: {e}"))?)
    }

    fn fsck(image: &Path) -> Result<(), String> {
        let mut chip = SimNand::open(image, Access::ReadOnlyCow).map_err(|e| e.to_string())?;
        chip.distrust();
        let mut ram = vec![0; ram_needed(&flashkit_nand::Nand::geometry(&chip))];
        let fs = any::mount(AnyNand::new(chip), &mut ram, Config::default());
        let mut fs = fs.map_err(|e| format!("mount: {e}"))?;
        let found = check::check(fs.volume())?.findings;
        match found.first() {
            Some(finding) => Err(format!("fsck: {finding:?}")),
            None => Ok(()),
        }
    }
}

struct Nano;

impl Nano {
    fn mount(card: CardFile) -> Result<NanoFsFs<CardFile>, String> {
        let mut fs = NanoFs::<_, 6>::new(card);
        fs.mount(KEY).map_err(|e| format!("mount: {e:?}"))?;
        NanoFsFs::new(fs, (0, 0), false).map_err(|e| e.to_string())
    }
}

impl Kind for Nano {
    const REPLACES: bool = false;

    fn make(image: &Path) {
        let card = CardFile::create(image, 1_200).unwrap();
        NanoFs::<_, 6>::new(card).format(KEY, 40, 3).unwrap();
    }

    fn mounted(image: &Path, host: &TestHost, barrier: bool, work: Work<'_>) -> Result<(), String> {
        let card = CardFile::open_on(image, false, Some(host));
        let mut card = card.map_err(|e| e.to_string())?;
        card.set_barrier(barrier);
        work(&mut Nano::mount(card)?)
    }

    fn fsck(image: &Path) -> Result<(), String> {
        let card = CardFile::open(image, true).map_err(|e| e.to_string())?;
        let mut fs = Nano::mount(card)?;
        let card = fs.volume().device_ref();
        let found = nanofs::check::check(&mut |block| card.block(block))?.findings;
        match found.first() {
            Some(finding) => Err(format!("fsck: {finding:?}")),
            None => Ok(()),
        }
    }
}

/// What a file may be after a change that was not synced yet.
struct Change {
    name: String,
    /// Before and after; none: there is no such file.
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
    /// There may be no file between the two.
    gone_between: bool,
}

impl Change {
    fn allows(&self, found: Option<&[u8]>) -> bool {
        let Some(found) = found else {
            return self.old.is_none() || self.new.is_none() || self.gone_between;
        };
        let byte = |side: &Option<Vec<u8>>, at: usize| {
            let side = side.as_ref()?;
            side.get(at).copied()
        };
        let lens = [&self.old, &self.new].map(|side| side.as_ref().map_or(0, Vec::len));
        // Each page is old or new, in a file that may have grown.
        (lens[0].min(lens[1])..=lens[0].max(lens[1])).contains(&found.len())
            && (0..found.len())
                .all(|at| [byte(&self.old, at), byte(&self.new, at)].contains(&Some(found[at])))
    }
}

struct Life<'a> {
    fs: &'a mut dyn FileSystem,
    host: &'a TestHost,
    rng: &'a mut Rng,
    /// The files that are durable.
    files: &'a mut BTreeMap<String, Vec<u8>>,
    replaces: bool,
}

/// How a step ended.
enum Ended {
    Well,
    /// The host has crashed meanwhile: the image, and what was under way.
    Crashed(Vec<u8>, Option<Change>),
}

impl Life<'_> {
    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let mut bytes = vec![0; 1 + self.rng.below(most) as usize];
        self.rng.fill(&mut bytes);
        bytes
    }

    /// Writes a piece of a file, new or not; gives what is in it then.
    fn write(&mut self, name: &str, append: bool) -> Result<(Ino, Vec<u8>), Error> {
        let (root, new) = (self.fs.root(), NewInode::default());
        let old = self.files.get(name).cloned();
        let attr = match &old {
            Some(_) => self.fs.lookup(root, name.as_bytes())?,
            None => self.fs.create(root, name.as_bytes(), &new)?,
        };
        let mut bytes = old.unwrap_or_default();
        let piece = self.bytes(3_000);
        let mut at = self.rng.below(bytes.len() as u64 + 1) as usize;
        if append || at + piece.len() > LENGTH as usize {
            at = bytes.len();
        }
        if at + piece.len() <= 2 * LENGTH as usize {
            bytes.resize(bytes.len().max(at + piece.len()), 0);
            bytes[at..at + piece.len()].copy_from_slice(&piece);
            self.fs.write(attr.ino, at as u64, &piece, NOW)?;
        }
        Ok((attr.ino, bytes))
    }

    /// A change, of files whose names begin with `f`, made and synced.
    fn change(&mut self) -> Result<Ended, Error> {
        let name = format!("f{}", self.rng.below(FILES));
        let old = self.files.get(&name).cloned();
        let root = self.fs.root();
        let what = self.rng.below(6);
        let new;
        let mut gone_between = false;
        match (what, &old) {
            (0, Some(_)) => {
                new = None;
                self.fs.unlink(root, name.as_bytes(), NOW)?;
                self.fs.fsync(root)?;
            }
            (1, _) => {
                new = Some(self.bytes(LENGTH));
                let attr = path::write_file(
                    self.fs,
                    b"/temporary",
                    new.as_deref().unwrap_or_default(),
                    0,
                    &NewInode::default(),
                )?;
                self.fs.fsync(attr.ino)?;
                let to = name.as_bytes();
                gone_between = !self.replaces;
                self.fs.rename(root, b"temporary", root, to, false, NOW)?;
                self.fs.fsync(root)?;
            }
            _ => {
                let (ino, bytes) = self.write(&name, what > 3)?;
                new = Some(bytes);
                if what == 2 {
                    self.fs.sync()?;
                } else {
                    self.fs.fsync(ino)?;
                }
            }
        }
        let change = Change {
            name,
            old,
            new,
            gone_between,
        };
        if let Some(left) = self.host.left() {
            return Ok(Ended::Crashed(left, Some(change)));
        }
        match change.new {
            Some(bytes) => self.files.insert(change.name, bytes),
            None => self.files.remove(&change.name),
        };
        Ok(Ended::Well)
    }

    /// Something that nobody syncs.
    fn other(&mut self) -> Result<Ended, Error> {
        let root = self.fs.root();
        let name = format!("/s{}", self.rng.below(4));
        match self.rng.below(4) {
            0 => drop(self.fs.unlink(root, &name.as_bytes()[1..], NOW)),
            1 => drop(self.fs.gc(8)?),
            _ => {
                let bytes = self.bytes(LENGTH);
                path::write_file(self.fs, name.as_bytes(), &bytes, 0, &NewInode::default())?;
            }
        }
        Ok(match self.host.left() {
            Some(left) => Ended::Crashed(left, None),
            None => Ended::Well,
        })
    }

    /// Compares what is there with what is durable, and takes what was under way as it is found.
    fn compare(&mut self, change: Option<&Change>) -> Result<(), String> {
        for n in 0..FILES {
            let name = format!("f{n}");
            let found = match path::read_file(self.fs, format!("/{name}").as_bytes()) {
                Ok(found) => Some(found),
                Err(Error::NotFound) => None,
                Err(e) => return Err(format!("{name}: {e}")),
            };
            match change.filter(|change| change.name == name) {
                Some(change) if change.allows(found.as_deref()) => {
                    match found {
                        Some(found) => self.files.insert(name, found),
                        None => self.files.remove(&name),
                    };
                }
                None if found.as_ref() == self.files.get(&name) => {}
                _ => {
                    let told = |bytes: Option<&Vec<u8>>| bytes.map_or(-1, |b| b.len() as i64);
                    let is = told(self.files.get(&name));
                    return Err(format!("{name}: found {}, is {is}", told(found.as_ref())));
                }
            }
        }
        Ok(())
    }
}

/// Makes crash after crash, each in the life that follows the last. Gives the first violation.
fn search<K: Kind>(barrier: bool, crashes: u64) -> Result<(), String> {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("x.img");
    K::make(&image);
    let mut files = BTreeMap::new();
    let mut change: Option<Change> = None;
    for seed in 0..crashes {
        let mut rng = Rng::keyed(seed, 2);
        let host = TestHost::default();
        let most = rng.one_of(&[30, 300, 3_000]);
        host.crash_after(rng.below(most), seed);
        let mut left = None;
        while left.is_none() {
            let lived = K::mounted(&image, &host, barrier, &mut |fs| {
                let mut life = Life {
                    fs,
                    host: &host,
                    rng: &mut rng,
                    files: &mut files,
                    replaces: K::REPLACES,
                };
                life.compare(change.as_ref())?;
                loop {
                    if let Some(crashed) = host.left() {
                        // It came while this was mounted, or compared.
                        left = Some((crashed, None));
                        return Ok(());
                    }
                    let ended = match life.rng.below(3) {
                        0 => life.other(),
                        _ => life.change(),
                    };
                    match ended.map_err(|e| format!("work: {e}"))? {
                        Ended::Well => {}
                        Ended::Crashed(crashed, change) => {
                            left = Some((crashed, change));
                            return Ok(());
                        }
                    }
                    if life.rng.one_in(60) {
                        // And it is mounted again.
                        return life.fs.unmount().map_err(|e| e.to_string());
                    }
                }
            });
            lived.map_err(|e| format!("crash {seed}: {e}"))?;
            if let Some((_, now)) = &mut left {
                change = now.take();
            } else {
                change = None;
            }
        }
        let (bytes, _) = left.unwrap_or_default();
        std::fs::write(&image, bytes).unwrap();
        K::fsck(&image).map_err(|e| format!("crash {seed}: {e}"))?;
    }
    Ok(())
}

#[test]
fn flashlight_keeps_what_was_synced() {
    search::<FlashLight>(true, crashes()).unwrap();
}

#[test]
fn nanofs_keeps_what_was_synced() {
    search::<Nano>(true, crashes()).unwrap();
}

/// These tests can fail.
#[test]
fn without_barriers_much_is_lost() {
    search::<FlashLight>(false, 100).unwrap_err();
    search::<Nano>(false, 100).unwrap_err();
}
