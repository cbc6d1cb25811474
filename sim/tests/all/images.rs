//! Chips in image files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::common::{self, at, blank, block, chip, dump, holds, lost, spec, write};
use flashkit_nand::{Geometry, Nand, OpStatus, PageAddr};
use flashkit_sim::{
    Access, ChipSpec, EraseTear, Faults, ImageError, Metered, SimError, SimNand, Tear, Tearable,
    preset,
};
use tempfile::TempDir;

fn dir() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.img");
    (dir, path)
}

fn open(path: &Path) -> SimNand {
    SimNand::open(path, Access::ReadWrite).unwrap()
}

/// Something of everything that a chip can hold, after which `check` holds.
fn exercise(nand: &mut SimNand) {
    for b in 0..3 {
        (0..8).for_each(|index| write(nand, at(b, index)));
    }
    nand.erase(block(1)).unwrap();
    nand.erase(block(1)).unwrap();
    write(nand, at(1, 3));
    nand.mark_bad(block(9)).unwrap();
    nand.program(at(4, 0), b"short", b"s").unwrap();
    nand.program_torn(at(5, 0), b"x", &[], Tear::LooksBlank, 0)
        .unwrap();
    nand.program_torn(at(5, 1), b"x", &[], Tear::Garbage, 0)
        .unwrap();
    let page = at(5, 2);
    let (data, spare) = (common::content(page), page.0.to_le_bytes());
    nand.program_torn(page, &data, &spare, Tear::Unstable { reads: 2 }, 0)
        .unwrap();
    write(nand, at(6, 0));
    nand.erase_torn(block(6), EraseTear::LooksErased, 0)
        .unwrap();
}

/// Reads unstable pages once.
fn check(nand: &mut SimNand) {
    for index in 0..8 {
        assert!(holds(nand, at(0, index)) && holds(nand, at(2, index)));
        assert_eq!(holds(nand, at(1, index)), index == 3);
        assert_eq!(blank(nand, at(1, index)), index != 3);
    }
    assert_eq!(nand.erase_counts()[..7], [0, 2, 0, 0, 0, 0, 1]);
    assert_eq!(nand.bad_blocks(), [block(9)]);
    let (_, data, spare) = common::read(nand, at(4, 0));
    assert_eq!(
        (&data[..6], &spare[..2]),
        (&b"short\xFF"[..], &b"s\xFF"[..])
    );
    assert!(blank(nand, at(5, 0)) && lost(nand, at(5, 1)));
    assert!(holds(nand, at(5, 2)));
}

#[test]
fn round_trip() {
    let (_dir, path) = dir();
    let mut nand = SimNand::create(&path, spec()).unwrap();
    exercise(&mut nand);
    let expected = nand.clone();
    drop(nand);

    let mut nand = open(&path);
    assert_eq!((nand.spec(), nand.counters().page_programs), (&spec(), 0));
    check(&mut nand);
    check(&mut expected.clone());
    assert_eq!(nand.erase_counts(), expected.erase_counts());
    drop(nand);

    // The second read of the unstable page was clean, too; the third is not.
    let mut nand = open(&path);
    assert!(holds(&mut nand, at(5, 2)));
    drop(nand);
    let mut nand = open(&path);
    assert!(lost(&mut nand, at(5, 2)));
    write(&mut nand, at(1, 4));
    nand.erase(block(6)).unwrap();
    write(&mut nand, at(6, 0));
    drop(nand);
    assert!(holds(&mut open(&path), at(1, 4)));
}

/// A random run on a file, reopened now and then, is the same as in RAM.
#[test]
fn behaves_as_in_ram() {
    let (_dir, path) = dir();
    let mut ram = chip();
    let mut file = SimNand::create(&path, spec()).unwrap();
    let mut rng = flashkit_sim::Rng::new(1);
    let mut next = [0; 16];
    for step in 0..2000 {
        let b = rng.below(16) as u32;
        let n = &mut next[b as usize];
        if *n < 8 {
            *n += 1;
            let tears = [
                Tear::Complete,
                Tear::Random,
                Tear::Prefix(40),
                Tear::LooksBlank,
            ];
            let (tear, page) = (tears[rng.below(4) as usize], at(b, *n - 1));
            let data = common::content(page);
            for nand in [&mut ram, &mut file] {
                nand.program_torn(page, &data, b"ab", tear, step).unwrap();
            }
        } else {
            *n = 0;
            for nand in [&mut ram, &mut file] {
                nand.erase_torn(block(b), EraseTear::Partial, step).unwrap();
                if rng.clone().one_in(2) {
                    nand.erase(block(b)).unwrap();
                }
                nand.erase(block(b)).unwrap();
            }
            rng.next_u64();
        }
        if step % 100 == 0 {
            drop(file);
            file = open(&path);
            assert_eq!(dump(&mut file), dump(&mut ram), "step {step}");
            assert_eq!(file.erase_counts(), ram.erase_counts());
        }
    }
}

/// A process that is killed neither flushes nor drops: the file holds all the same.
#[test]
fn survives_a_kill() {
    let (dir, path) = dir();
    let mut nand = SimNand::create(&path, spec()).unwrap();
    exercise(&mut nand);
    std::mem::forget(nand);
    // The leaked handle still has its lock, which a kill would release; a copy has none.
    assert!(matches!(
        SimNand::open(&path, Access::ReadWrite),
        Err(ImageError::InUse)
    ));
    let copy = dir.path().join("copy.img");
    std::fs::copy(&path, &copy).unwrap();
    check(&mut open(&copy));
}

#[test]
#[should_panic(expected = "page 0 of the block was already attempted")]
fn attempts_are_remembered() {
    let (_dir, path) = dir();
    let mut nand = SimNand::create(&path, spec()).unwrap();
    nand.program_torn(at(5, 0), b"x", &[], Tear::LooksBlank, 0)
        .unwrap();
    drop(nand);
    write(&mut open(&path), at(5, 0));
}

#[test]
#[should_panic(expected = "the block's last erase did not complete")]
fn torn_erases_are_remembered() {
    let (_dir, path) = dir();
    let mut nand = SimNand::create(&path, spec()).unwrap();
    nand.erase_torn(block(5), EraseTear::Partial, 0).unwrap();
    drop(nand);
    write(&mut open(&path), at(5, 7));
}

#[test]
fn failing_blocks_are_remembered() {
    let (_dir, path) = dir();
    let mut nand = SimNand::create(&path, spec()).unwrap();
    nand.set_faults(Faults::parse("badblocks=3;weakpages=8:0;seed=10").unwrap())
        .unwrap();
    assert_eq!(
        nand.program(PageAddr(8), b"x", &[]).unwrap(),
        OpStatus::Failed
    );
    drop(nand);
    let mut nand = open(&path);
    assert_eq!(nand.bad_blocks(), [block(3)]);
    assert!(lost(&mut nand, at(3, 0)) && lost(&mut nand, PageAddr(8)));
    assert_eq!(nand.erase(block(1)).unwrap(), OpStatus::Failed);
}

#[test]
fn copy_on_write_leaves_the_file_alone() {
    let (_dir, path) = dir();
    exercise(&mut SimNand::create(&path, spec()).unwrap());
    let before = std::fs::read(&path).unwrap();

    let mut nand = SimNand::open(&path, Access::ReadOnlyCow).unwrap();
    let mut snapshot = nand.clone();
    check(&mut nand);
    nand.erase(block(0)).unwrap();
    write(&mut nand, at(0, 5));
    write(&mut nand, at(1, 4));
    nand.mark_bad(block(2)).unwrap();
    nand.program_torn(at(7, 0), b"x", &[], Tear::Random, 0)
        .unwrap();
    nand.erase_torn(block(7), EraseTear::Partial, 0).unwrap();
    nand.set_faults(Faults::parse("badblocks=11").unwrap())
        .unwrap();
    nand.flush().unwrap();
    assert!(blank(&mut nand, at(0, 0)) && holds(&mut nand, at(0, 5)) && holds(&mut nand, at(1, 4)));
    check(&mut snapshot);
    drop(nand);
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn a_snapshot_of_a_written_image_stands_still() {
    let (_dir, path) = dir();
    let mut nand = SimNand::create(&path, spec()).unwrap();
    exercise(&mut nand);
    drop(nand);
    let mut nand = open(&path);
    let mut snapshot = nand.clone();
    nand.erase(block(0)).unwrap();
    write(&mut nand, at(0, 1));
    check(&mut snapshot);
    write(&mut snapshot, at(1, 7));
    assert!(blank(&mut nand, at(1, 7)) && blank(&mut nand, at(0, 0)));
}

#[test]
fn one_writer_or_many_readers() {
    let (_dir, path) = dir();
    let writer = SimNand::create(&path, spec()).unwrap();
    let in_use = |result: Result<SimNand, ImageError>| {
        let error = result.unwrap_err();
        assert!(matches!(error, ImageError::InUse));
        assert_eq!(error.to_string(), "image is in use");
    };
    in_use(SimNand::open(&path, Access::ReadWrite));
    in_use(SimNand::open(&path, Access::ReadOnlyCow));
    in_use(SimNand::create(&path, spec()));
    drop(writer);
    let reader = SimNand::open(&path, Access::ReadOnlyCow).unwrap();
    let other = SimNand::open(&path, Access::ReadOnlyCow).unwrap();
    in_use(SimNand::open(&path, Access::ReadWrite));
    drop((reader, other));
    open(&path);
}

#[test]
fn what_is_not_an_image_is_refused_in_one_line() {
    let (_dir, path) = dir();
    let refuse = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = SimNand::open(&path, Access::ReadWrite)
            .unwrap_err()
            .to_string();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        error
    };
    assert_eq!(refuse(b""), "not a flashkit image");
    assert_eq!(refuse(&[0xFF; 10_000]), "not a flashkit image");

    let missing = SimNand::open(path.with_extension("no"), Access::ReadWrite).unwrap_err();
    assert!(missing.to_string().starts_with("No such file or directory"));

    drop(SimNand::create(&path, spec()).unwrap());
    let good = std::fs::read(&path).unwrap();
    let need = good.len();
    assert_eq!(
        refuse(&good[..need - 1]),
        format!("image is too short: {} bytes of {need}", need - 1)
    );
    assert_eq!(refuse(&good[..100]), "image is too short: 100 bytes of 128");
    let mut damaged = good.clone();
    damaged[20] ^= 1;
    assert_eq!(refuse(&damaged), "image header is damaged");
    let mut newer = good;
    newer[8] = 9;
    assert_eq!(
        refuse(&newer),
        "unsupported image version 9 (this program reads up to 2)"
    );
}

#[test]
fn damage_behind_the_header_does_no_harm() {
    let (_dir, path) = dir();
    exercise(&mut SimNand::create(&path, spec()).unwrap());
    let good = std::fs::read(&path).unwrap();
    let mut rng = flashkit_sim::Rng::new(9);
    for _ in 0..30 {
        let mut bytes = good.clone();
        rng.fill(&mut bytes[4096..4096 + 24 * 16]);
        std::fs::write(&path, &bytes).unwrap();
        let mut nand = SimNand::open(&path, Access::ReadOnlyCow).unwrap();
        dump(&mut nand);
        nand.bad_blocks();
    }
}

/// Closed, an image is what programs know that know of no journal.
#[test]
fn an_image_has_a_journal_while_it_is_open() {
    let (dir, path) = dir();
    let mut nand = SimNand::create(&path, spec()).unwrap();
    let read = |path: &Path| std::fs::read(path).unwrap();
    let len = read(&path).len();
    assert_eq!(read(&path)[8], 1);
    exercise(&mut nand);
    let open_now = read(&path);
    assert_eq!(open_now[8], 2);
    assert!(open_now.len() > len);
    let copy = dir.path().join("copy.img");
    std::fs::write(&copy, &open_now).unwrap();
    drop(nand);
    assert_eq!((read(&path)[8], read(&path).len()), (1, len));
    // Read alone, a journal stays; the next that may write ends it.
    check(&mut SimNand::open(&copy, Access::ReadOnlyCow).unwrap());
    assert!(read(&copy) == open_now);
    drop(open(&copy));
    assert!(read(&copy) == read(&path));
    // What changes nothing writes nothing.
    let before = std::fs::metadata(&copy).unwrap().modified().unwrap();
    drop(open(&copy));
    assert_eq!(
        std::fs::metadata(&copy).unwrap().modified().unwrap(),
        before
    );
}

#[test]
fn a_journal_ends_where_it_is_damaged() {
    let (dir, path) = dir();
    let mut nand = SimNand::create(&path, spec()).unwrap();
    let len = std::fs::read(&path).unwrap().len();
    (0..8).for_each(|index| write(&mut nand, at(3, index)));
    let good = std::fs::read(&path).unwrap();
    let copy = dir.path().join("copy.img");
    let mut rng = flashkit_sim::Rng::new(4);
    let mut most = 0;
    for round in 0..200 {
        let mut bytes = good.clone();
        let from = len + rng.below((good.len() - len) as u64) as usize;
        match round % 3 {
            0 => bytes.truncate(from),
            1 => bytes[from] ^= 1 << rng.below(8),
            _ => rng.fill(&mut bytes[from..]),
        }
        std::fs::write(&copy, &bytes).unwrap();
        let mut nand = SimNand::open(&copy, Access::ReadOnlyCow).unwrap();
        let there = (0..8).map(|index| holds(&mut nand, at(3, index)));
        let there: Vec<bool> = there.collect();
        let first = there.iter().filter(|there| **there).count();
        assert!(there[..first].iter().all(|there| *there), "{there:?}");
        most = most.max(first);
        assert!(first < 8, "round {round}");
        drop(nand);
        let mut nand = open(&copy);
        assert_eq!(
            first,
            (0..8).filter(|i| holds(&mut nand, at(3, *i))).count()
        );
    }
    assert_eq!(most, 7);
}

#[test]
fn large_images_are_sparse_and_open_at_once() {
    use std::os::unix::fs::MetadataExt;
    let (_dir, path) = dir();
    let mut nand = SimNand::create(&path, preset("slc-8g").unwrap()).unwrap();
    nand.program(PageAddr(4_000_000), b"far", &[]).unwrap();
    drop(nand);
    let metadata = std::fs::metadata(&path).unwrap();
    assert!(metadata.len() > 8 << 30);
    assert!(metadata.blocks() * 512 < 1 << 20);
    let mut nand = open(&path);
    assert_eq!(nand.spec().name(), "slc-8g");
    let mut data = [0; 3];
    nand.read(PageAddr(4_000_000), 0, &mut data, &mut [])
        .unwrap();
    assert_eq!(&data, b"far");
}

#[test]
fn raw_export_and_import() {
    let (dir, path) = dir();
    let mut nand = chip();
    (0..8).for_each(|index| write(&mut nand, at(1, index)));
    write(&mut nand, at(3, 2));
    nand.program_torn(at(4, 0), b"x", &[], Tear::Garbage, 0)
        .unwrap();
    nand.mark_bad(block(9)).unwrap();
    nand.mark_bad(block(1)).unwrap();

    let raw = dir.path().join("raw");
    nand.export_raw(&raw, true).unwrap();
    let bytes = std::fs::read(&raw).unwrap();
    assert_eq!(bytes.len(), 128 * 528);
    let page = |page: PageAddr| &bytes[page.0 as usize * 528..][..528];
    assert!(page(at(0, 0)).iter().all(|byte| *byte == 0xFF));
    assert_eq!(page(at(3, 2))[..512], common::content(at(3, 2)));
    assert_eq!(
        page(at(3, 2))[512..520],
        [0xFF, 0xFF, 26, 0, 0, 0, 0xFF, 0xFF]
    );
    assert_eq!(page(at(9, 0))[511..515], [0xFF, 0, 0, 0xFF]);
    assert_eq!(page(at(1, 1))[512..515], [0, 0, 9]);
    assert_eq!(page(at(9, 2))[512], 0xFF);
    assert_eq!(
        page(at(4, 0))[..514],
        [[0; 512].as_slice(), &[0xFF; 2]].concat()
    );

    let mut back = SimNand::create(&path, spec()).unwrap();
    write(&mut back, at(15, 0));
    back.mark_bad(block(12)).unwrap();
    back.import_raw(&raw, true).unwrap();
    assert_eq!(back.bad_blocks(), [block(1), block(9)]);
    assert!((0..8).all(|index| holds(&mut back, at(1, index))));
    assert!(holds(&mut back, at(3, 2)) && blank(&mut back, at(15, 0)));
    write(&mut back, at(3, 3));
    drop(back);
    assert!(holds(&mut open(&path), at(3, 2)));

    nand.export_raw(&raw, false).unwrap();
    assert_eq!(std::fs::metadata(&raw).unwrap().len(), 128 * 512);
    let mut back = chip();
    back.mark_bad(block(12)).unwrap();
    back.import_raw(&raw, false).unwrap();
    assert_eq!(
        common::read(&mut back, at(3, 2)).1,
        common::content(at(3, 2))
    );
    assert_eq!(back.bad_blocks(), [block(12)]);
}

/// A chip by the name of a SPI NAND has its spare bytes where that has them, not where its parity
/// is.
#[test]
fn raw_images_have_the_layout_of_the_chip() {
    let (dir, _) = dir();
    let raw = dir.path().join("raw");
    let spec = |name: &str, spare, raw_spare| {
        let geometry = Geometry::new(2048, spare, 64, 8).unwrap();
        let timing = preset("w25n01gv").unwrap().timing;
        let spec = ChipSpec::new(geometry, timing).with_name(name).unwrap();
        spec.with_raw_spare(raw_spare).unwrap()
    };
    let tag: Vec<u8> = (1..=24).collect();
    for (name, given, raw_spare, runs) in [
        ("w25n01gv", 24, 64, &[2..8, 18..24, 34..40, 50..56][..]),
        ("W25N01GV", 20, 64, &[2..8, 18..24, 34..40, 50..52]),
        ("gd5f1gq4ua", 24, 64, &[1..8, 16..24, 32..40, 48..49]),
        ("mt29f1g01abafd", 24, 128, &[2..14, 14..26]),
        ("slc-256m", 24, 64, &[2..14, 14..26]),
    ] {
        let mut nand = SimNand::new(spec(name, given, raw_spare));
        let tag = &tag[..given as usize];
        nand.program(PageAddr(0), b"data", tag).unwrap();
        nand.export_raw(&raw, true).unwrap();
        let bytes = std::fs::read(&raw).unwrap();
        let spare = &bytes[2048..2048 + raw_spare as usize];
        let is_usable = |at: &usize| runs.iter().any(|run| run.contains(at));
        let (usable, rest): (Vec<_>, Vec<_>) = (0..spare.len()).partition(is_usable);
        let of = |all: &[usize]| all.iter().map(|at| spare[*at]).collect::<Vec<u8>>();
        assert_eq!(of(&usable), tag, "{name}");
        assert!(of(&rest).iter().all(|byte| *byte == 0xFF), "{name}");
        let mut back = SimNand::new(spec(name, given, raw_spare));
        back.import_raw(&raw, true).unwrap();
        let (mut data, mut found) = ([0; 4], vec![0; given as usize]);
        back.read(PageAddr(0), 0, &mut data, &mut found).unwrap();
        assert_eq!((&data, &found[..]), (b"data", tag), "{name}");
    }
    // As an image may say that it is, which is older or was made by another program.
    for (name, given, raw_spare) in [("w25n01gv", 25, 64), ("w25n01gv", 24, 128)] {
        let mut nand = SimNand::new(spec(name, given, raw_spare));
        let refused = |result: Result<(), SimError>| {
            let kind = ErrorKind::InvalidInput;
            assert!(matches!(result, Err(SimError::Io { kind: k, .. }) if k == kind));
        };
        refused(nand.export_raw(&raw, true));
        refused(nand.import_raw(&raw, true));
        nand.export_raw(&raw, false).unwrap();
        nand.import_raw(&raw, false).unwrap();
    }
}

#[test]
fn every_preset_has_spare_bytes_where_its_chip_has_them() {
    for preset in flashkit_sim::presets() {
        assert!(
            ChipSpec::from(preset).spare_map().is_some(),
            "{}",
            preset.name
        );
    }
}

#[test]
fn raw_files_of_the_wrong_size_are_refused() {
    let (_dir, path) = dir();
    for (len, ok) in [
        (0, true),
        (528, true),
        (100, false),
        (128 * 528, true),
        (129 * 528, false),
    ] {
        std::fs::write(&path, vec![7; len]).unwrap();
        let result = chip().import_raw(&path, true);
        assert_eq!(result.is_ok(), ok, "{len}");
        if let Err(error) = result {
            assert!(matches!(error, SimError::Io { .. }));
            assert_eq!(
                error.to_string(),
                format!("{len} bytes are not up to 67584 in pages of 528")
            );
        }
    }
}
