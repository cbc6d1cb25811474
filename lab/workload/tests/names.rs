//! Directories of many names: what a name costs, whatever the order in which they come and go.
//!
//! `FLASHKIT_NAMES=300000` (or up to 1000000) has so many of them, on `slc-8g`, and prints the costs.

mod common;

use common::{Fs, NOW, clean, cost, cut, on_preset, remount};
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

/// Does something with each of some names. Reads and programs a name of the thousand that cost the most;
/// the cost of all is printed.
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
        Err(_) => fill_and_empty(on_preset("slc-256m"), &[10_000, 40_000]),
    }
}
