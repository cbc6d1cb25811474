//! Directories of many names: what a name costs, whatever the order in which they come and go.
//!
//! `FLASHKIT_NAMES=300000` (or up to 1000000) has so many of them, on
//! `slc-8g`, and prints the costs.

use crate::common::{Fs, NOW, chip, clean, cost, cut, formatted, on_preset, remount};
use flashkit_sim::Rng;
use flashkit_vfs::{FileSystem, NewInode};

fn name(n: u64) -> Vec<u8> {
    format!("name {n}").into_bytes()
}

fn create(fs: &mut Fs, n: u64) {
    let root = fs.root();
    fs.create(root, &name(n), &NewInode::default()).unwrap();
}

fn unlink(fs: &mut Fs, n: u64) {
    let root = fs.root();
    fs.unlink(root, &name(n), NOW).unwrap();
}

fn shuffled(from: u64, to: u64) -> Vec<u64> {
    let (mut names, mut rng): (Vec<_>, _) = ((from..to).collect(), Rng::new(5));
    for i in (1..names.len()).rev() {
        names.swap(i, rng.below(i as u64 + 1) as usize);
    }
    names
}

/// Does something with each of some names. Reads and programs a name of the thousand that cost the
/// most; the cost of all is printed.
fn each(fs: &mut Fs, what: &str, names: &[u64], act: impl Fn(&mut Fs, u64)) -> (f64, f64) {
    let (mut most, mut all) = ((0.0f64, 0.0f64), (0, 0));
    for some in names.chunks(1_000) {
        let (reads, programs) = cost(fs, |fs| some.iter().for_each(|&n| act(fs, n)));
        all = (all.0 + reads, all.1 + programs);
        if some.len() == 1_000 {
            let (reads, programs) = (reads as f64 / 1e3, programs as f64 / 1e3);
            most = (most.0.max(reads), most.1.max(programs));
        }
    }
    let n = names.len() as f64;
    println!(
        "{what} {n}: {:.2} reads, {:.2} programs a name; at most {most:.2?}",
        all.0 as f64 / n,
        all.1 as f64 / n
    );
    most
}

/// Fills a directory to some sizes, and empties it again.
fn fill_and_empty(mut fs: Fs, sizes: &[u64]) {
    let mut made = 0;
    for &size in sizes {
        let names: Vec<_> = (made..size).collect();
        let most = each(&mut fs, "create to", &names, create);
        assert!(most.1 < 4.5, "{most:?} for a new name at {size}");
        made = size;
        let some = &shuffled(0, size)[..3_000];
        let most = each(&mut fs, "look up", some, |fs, n| {
            let root = fs.root();
            fs.lookup(root, &name(n)).unwrap();
        });
        assert!(most.0 < 5.0, "{most:?} for a lookup at {size}");
        // There and back: the same names, at another place of the log.
        let most = each(&mut fs, "unlink", some, unlink);
        assert!(most.1 < 4.5, "{most:?} for a removal at {size}");
        each(&mut fs, "create again", some, create);
    }
    fs.sync().unwrap();
    let mut fs = cut(fs);
    let (size, part) = (made, made / 3);
    let orders = [
        (0..part).collect(),
        (part..2 * part).rev().collect(),
        shuffled(2 * part, size),
    ];
    for names in &orders {
        let most = each(&mut fs, "unlink", names, unlink);
        assert!(most.1 < 4.5, "{most:?} for a removal");
    }
    let mut fs = remount(fs);
    assert_eq!(fs.getattr(fs.root()).unwrap().size, 0);
    let mut left = 0;
    fs.readdir(fs.root(), 0, &mut |_| {
        left += 1;
        true
    })
    .unwrap();
    assert_eq!(left, 0);
    each(&mut fs, "create anew", &shuffled(0, 2_000), create);
    clean(&mut fs);
}

#[test]
#[cfg_attr(feature = "few-hashes", ignore = "too many names of each hash")]
fn names_come_and_go_in_any_order() {
    match std::env::var("FLASHKIT_NAMES").map(|n| n.parse().unwrap()) {
        Ok(most) => {
            let sizes = [10_000, 100_000, 300_000, 1_000_000];
            let below = sizes.into_iter().filter(|&n| n < most);
            fill_and_empty(
                on_preset("slc-8g"),
                &below.chain([most]).collect::<Vec<_>>(),
            );
        }
        Err(_) => fill_and_empty(on_preset("slc-256m"), &[10_000, 60_000]),
    }
}

/// What each durable name must lead to.
type Due = std::collections::BTreeMap<Vec<u8>, u64>;

/// One durable change of a directory's names.
fn change(fs: &mut Fs, due: &mut Due, rng: &mut Rng, step: u64) {
    let root = fs.root();
    let (some, fresh) = (rng.below(due.len() as u64) as usize, name(step));
    let (is, size) = due.iter().nth(some).map(|(n, s)| (n.clone(), *s)).unwrap();
    let ino = fs.lookup(root, &is).unwrap().ino;
    match rng.below(6) {
        0 => {
            let new = fs.create(root, &fresh, &NewInode::default()).unwrap().ino;
            fs.fsync(new).unwrap();
            due.insert(fresh, 0);
        }
        1 => {
            fs.unlink(root, &is, NOW).unwrap();
            fs.fsync(root).unwrap();
            due.remove(&is);
        }
        2 => {
            fs.rename(root, &is, root, &fresh, false, NOW).unwrap();
            due.remove(&is);
            due.insert(fresh, size);
        }
        3 => {
            let (other, _) = due.iter().nth(some / 2).unwrap();
            let other = other.clone();
            fs.rename(root, &is, root, &other, false, NOW).unwrap();
            if other != is {
                due.remove(&is);
                due.insert(other, size);
            }
        }
        4 => {
            let (other, other_size) = due.iter().nth(some / 2).unwrap();
            let (other, other_size) = (other.clone(), *other_size);
            fs.exchange(root, &is, root, &other, NOW).unwrap();
            due.insert(is, other_size);
            due.insert(other, size);
        }
        _ => {
            fs.write(ino, size, &[1; 9], NOW).unwrap();
            fs.fsync(ino).unwrap();
            due.insert(is, size + 9);
        }
    }
}

/// With few hashes most of the names share theirs with some dozen others.
#[test]
fn names_stay_when_the_power_goes() {
    for seed in 0..3 {
        let mut fs = formatted(chip(1024, 40, 32, 512));
        let (mut due, mut rng) = (Due::new(), Rng::new(seed));
        for n in 0..1_200 {
            create(&mut fs, n);
            due.insert(name(n), 0);
        }
        fs.sync().unwrap();
        for step in 0..1_500 {
            change(&mut fs, &mut due, &mut rng, 1_000_000 + step);
            if rng.below(12) == 0 {
                fs = cut(fs);
            }
            if step % 100 == 99 {
                let mut is = Due::new();
                let mut names = Vec::new();
                fs.readdir(fs.root(), 0, &mut |e| {
                    names.push(e.name.to_vec());
                    true
                })
                .unwrap();
                assert_eq!(names.len(), due.len(), "seed {seed}, step {step}");
                for name in names {
                    let size = fs.lookup(fs.root(), &name).unwrap().size;
                    is.insert(name, size);
                }
                assert_eq!(is, due, "seed {seed}, step {step}");
                clean(&mut fs);
            }
        }
    }
}
