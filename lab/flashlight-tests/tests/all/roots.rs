//! Root blocks that are erased by recoveries that are cut in a row: one of them
//! always leads to the volume.
//!
//! A failure names the seed and the round.

use crate::common::{
    LentFs, NOW, Volume, chip, clean, cut, file, format_with, formatted, mount, try_mount,
    try_mount_lent, try_unmount, write_and_remove,
};
use crate::failures::fail_at::FailAt;
use flashkit_flashlight::boot::{Boot, Error as BootError, ram_needed as boot_ram_needed};
use flashkit_flashlight::{Config, Error, FlashLight, New, Patrol, ram_needed_for};
use flashkit_nand::{BlockAddr, Nand};
use flashkit_sim::{
    Cut, EraseTear, Faults, OpKind, PowerCut, Rate, Rng, SimNand, Tear, Trace, Weak,
};
use flashkit_vfs::any::{AnyError, AnyNand, Chip};
use flashkit_vfs::{FileSystem, NewInode};
use flashkit_workload::model::Target;

fn any_cut(rng: &mut Rng, ops: u64) -> Cut {
    Cut {
        after: rng.below(ops),
        program: match rng.below(5) {
            0 => Tear::LooksBlank,
            1 => Tear::Garbage,
            2 => Tear::Complete,
            3 => Tear::Prefix(1 + rng.below(1000) as u32),
            _ => Tear::Unstable {
                reads: 1 + rng.below(8) as u32,
            },
        },
        erase: match rng.below(4) {
            0 => EraseTear::NotBegun,
            1 => EraseTear::LooksErased,
            2 => EraseTear::Complete,
            _ => EraseTear::Partial,
        },
        seed: rng.below(u64::MAX),
    }
}

/// Cuts recoveries, each of which erases both root blocks. One in four comes to its end.
fn cut_recoveries(mut chip: SimNand, seed: u64, after_transfer: bool) {
    let config = Config {
        after_transfer,
        ..Config::default()
    };
    let mut rng = Rng::new(seed);
    for round in 0..100 {
        let ends = rng.one_in(4);
        let cut = any_cut(&mut rng, 24);
        let mut cut_chip = if ends {
            PowerCut::never(chip)
        } else {
            PowerCut::new(chip, cut)
        };
        let mounted = try_mount_lent(&mut cut_chip, config);
        match mounted {
            Ok(mut fs) => {
                let found = fs.lookup(fs.root(), b"f");
                assert!(
                    found.is_ok_and(|f| f.size == 5000),
                    "seed {seed}, round {round}"
                );
            }
            Err(e) => assert!(
                e.contains("PowerOff"),
                "seed {seed}, round {round}, {cut:?}: {e}"
            ),
        }
        chip = cut_chip.into_inner();
    }
    clean(&mut try_mount(chip, config).unwrap());
}

#[test]
fn a_root_is_left_whichever_recovery_is_cut() {
    for seed in 0..400 {
        let mut fs = formatted(chip(1024, 40, 8, 64));
        let root = fs.root();
        file(&mut fs, root, b"f", 5000);
        cut_recoveries(
            fs.volume().nand().get::<SimNand>().clone(),
            seed,
            seed % 2 == 0,
        );
    }
}

/// Says what was tried, if that panics.
struct Said(String);

impl Drop for Said {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// Three recoveries in a row are cut, each in one of its first operations. What one of them has
/// claimed and not written is claimed for the next, whichever copies of the checkpoint can be read
/// when; and what one that came to its end has made durable is found again, though a copy of before
/// can be read later that it could not read.
#[test]
fn what_three_cut_recoveries_leave_costs_nothing_later() {
    let unstable = |reads| Tear::Unstable { reads };
    let late = |reads| Tear::Late { reads };
    let tears = [
        Tear::LooksBlank,
        Tear::Garbage,
        unstable(2),
        unstable(4),
        unstable(6),
        late(2),
        late(4),
    ];
    let cuts = |seed: u64| {
        let each = (0..6).flat_map(|after| tears.map(|program| (after, program)));
        each.map(move |(after, program)| Cut {
            after,
            program,
            erase: [EraseTear::Partial, EraseTear::Mixed][seed as usize % 2],
            seed,
        })
    };
    let recovers = |chip: &SimNand, cut| {
        let mut chip = PowerCut::new(chip.clone(), cut);
        drop(try_mount_lent(&mut chip, Config::default()));
        chip.into_inner()
    };
    let mut fs = formatted(chip(1024, 40, 8, 64));
    let root = fs.root();
    file(&mut fs, root, b"f", 5000);
    let begin = fs.volume().nand().get::<SimNand>().clone();
    for first in cuts(1) {
        let chip = recovers(&begin, first);
        for second in cuts(2) {
            let chip = recovers(&chip, second);
            for third in cuts(4) {
                let _said = Said(format!("{first:?}, {second:?}, {third:?}"));
                let chip = recovers(&chip, third);
                let mut fs = mount(chip);
                assert!(fs.lookup(root, b"f").is_ok_and(|f| f.size == 5000));
                file(&mut fs, root, b"g", 100);
                let mut fs = cut(fs);
                assert!(fs.lookup(root, b"g").is_ok_and(|f| f.size == 100));
            }
        }
    }
}

/// One that leaves what one mount can read and the next cannot, or the other way round, more often.
fn treacherous_cut(rng: &mut Rng, ops: u64) -> Cut {
    let mut cut = any_cut(rng, ops);
    if rng.one_in(3) {
        let reads = 1 + rng.below(12) as u32;
        cut.program = one_of(rng, [Tear::Late { reads }, Tear::UnstableBlank { reads }]);
    }
    if rng.one_in(4) {
        cut.erase = EraseTear::Mixed;
    }
    cut
}

/// Some recoveries in a row are cut in their first operations, then one comes to its end and a file
/// is made durable; over and over on one chip, so that second-level and root blocks fill.
fn cut_runs(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut fs = formatted(chip(1024, 40, 8, 64));
    let root = fs.root();
    let mut chip = fs.volume().nand().get::<SimNand>().clone();
    let mut said = Said(format!("seed {seed}"));
    for round in 0..40u64 {
        for n in 0..rng.below(6) {
            let cut = treacherous_cut(&mut rng, 10);
            let mut cut_chip = PowerCut::new(chip, cut);
            said.0 = format!("seed {seed}, round {round}.{n}: {cut:?}");
            match try_mount_lent(&mut cut_chip, Config::default()) {
                Ok(mut fs) => all_there(&mut fs, round),
                Err(e) => assert!(e.contains("PowerOff"), "{e}"),
            }
            chip = cut_chip.into_inner();
        }
        let mut fs = mount(chip);
        all_there(&mut fs, round);
        file(&mut fs, root, round.to_string().as_bytes(), 100);
        chip = match rng.one_in(4) {
            true => try_unmount(fs).unwrap(),
            false => fs.volume().nand().get::<SimNand>().clone(),
        };
    }
    clean(&mut mount(chip));
}

fn one_of<T: Copy, const N: usize>(rng: &mut Rng, all: [T; N]) -> T {
    all[rng.below(N as u64) as usize]
}

fn all_there(fs: &mut LentFs<'_>, files: u64) {
    for n in 0..files {
        let found = fs.lookup(fs.root(), n.to_string().as_bytes());
        // What a mount that is not durable has changed may go to flash now.
        if matches!(&found, Err(flashkit_vfs::Error::Io(e)) if e.contains("PowerOff")) {
            return;
        }
        assert!(found.is_ok_and(|f| f.size == 100), "file {n}");
    }
}

#[test]
fn recoveries_cut_in_runs_lose_nothing() {
    seeds(60, 10_000).for_each(cut_runs);
}

/// A few, or with `FLASHKIT_ROOTS` many from that one on.
fn seeds(few: u64, many: u64) -> std::ops::Range<u64> {
    std::env::var("FLASHKIT_ROOTS").map_or(0..few, |s| {
        let from = s.parse().unwrap();
        from..from + many
    })
}

/// No recovery comes to its end: each is cut in one of a few operations, always the same.
/// None of them keeps a block.
fn cut_for_ever(seed: u64, config: Config, from: u64, ops: u64) {
    let blocks = if config.table_page > 0 { 256 } else { 64 };
    let chip = format_with(chip(1024, 40, 8, blocks), 1, config);
    let mut fs = try_mount(chip, config).unwrap();
    let root = fs.root();
    file(&mut fs, root, b"f", 5000);
    let mut chip = fs.volume().nand().get::<SimNand>().clone();
    let mut ram = vec![0; ram_needed_for(&chip.geometry(), config.table_page)];
    let mut rng = Rng::new(seed << 8 | from << 4 | ops);
    for round in 0..400 {
        let mut cut = treacherous_cut(&mut rng, ops);
        cut.after += from;
        let _said = Said(format!(
            "seed {seed}, operations {from} and {ops} more, round {round}, {cut:?}"
        ));
        let mut cut_chip = PowerCut::new(chip, cut);
        let mounted = FlashLight::mount(AnyNand::lent(&mut cut_chip), &mut ram, config).map(drop);
        assert!(
            matches!(mounted, Ok(()) | Err(Error::Driver(_))),
            "{mounted:?}"
        );
        chip = cut_chip.into_inner();
    }
    let mut fs = try_mount(chip, config).unwrap();
    assert!(fs.lookup(root, b"f").is_ok_and(|f| f.size == 5000));
    clean(&mut fs);
}

#[test]
fn recoveries_that_are_cut_for_ever_keep_no_blocks() {
    let on_flash = Config {
        table_page: 64,
        ..Config::default()
    };
    for seed in seeds(1, 100) {
        for from in 0..12 {
            for ops in 1..10 {
                cut_for_ever(seed, Config::default(), from, ops);
                cut_for_ever(seed, on_flash, from, ops);
            }
        }
    }
}

/// All root blocks but one can be erased no more; mounts, and what follows them, are cut all the
/// time. What has been synced can be read for ever, in the end without a change of the chip.
fn root_blocks_wear_out(seed: u64, mut chip: SimNand, config: Config, ops: u64) {
    let mut rng = Rng::new(seed);
    let left = rng.below(4) as u32;
    let worn = (0..4).filter(|&block| block != left);
    let weak_blocks = worn.map(|at| Weak {
        at,
        good: rng.below(3) as u32,
    });
    let faults = Faults {
        weak_blocks: weak_blocks.collect(),
        ..Faults::default()
    };
    chip.set_faults(faults).unwrap();
    let mut said = Said(format!("seed {seed}"));
    let mut files = 0;
    for round in 0..200 {
        let cut = treacherous_cut(&mut rng, ops);
        said.0 = format!("seed {seed}, {config:?}, round {round}, {cut:?}");
        let mut cut_chip = PowerCut::new(chip, cut);
        match try_mount_lent(&mut cut_chip, config) {
            Ok(mut fs) => {
                all_there(&mut fs, files);
                let root = fs.root();
                let new = fs.create(root, files.to_string().as_bytes(), &NewInode::default());
                let written = new.and_then(|new| {
                    fs.write(new.ino, 0, &[0x5a; 100], NOW)?;
                    fs.fsync(new.ino)
                });
                files += u64::from(written.is_ok());
            }
            Err(e) => assert!(e.contains("PowerOff"), "{e}"),
        }
        chip = cut_chip.into_inner();
    }
    for _ in 0..3 {
        let mut fs = try_mount(chip, config).unwrap();
        all_there(&mut fs, files);
        assert!(fs.volume().is_worn(), "seed {seed}: {files} files");
        assert!(fs.lookup(fs.root(), b"f").is_ok_and(|f| f.size == 5000));
        chip = fs.volume().nand().get::<SimNand>().clone();
    }
}

#[test]
fn the_last_root_block_is_not_erased() {
    let mut fs = formatted(chip(1024, 40, 8, 64));
    let root = fs.root();
    file(&mut fs, root, b"f", 5000);
    let chip = fs.volume().nand().get::<SimNand>().clone();
    for seed in seeds(60, 10_000) {
        root_blocks_wear_out(seed, chip.clone(), Config::default(), 60);
    }
}

/// The same where the free blocks hold what files were, with the block table on flash and in RAM.
#[test]
fn the_last_root_block_of_a_chip_in_use() {
    for (blocks, table_page) in [(300, 32), (300, 0), (600, 64)] {
        let config = Config {
            table_page,
            ..Config::default()
        };
        let mut fs = try_mount(format_with(chip(1024, 40, 8, blocks), 1, config), config).unwrap();
        let root = fs.root();
        let bytes = fs.statfs().unwrap().blocks_free * 1024 / 100 * 85;
        write_and_remove(&mut fs, bytes, &[0xaa; 16 << 10]);
        file(&mut fs, root, b"f", 5000);
        let chip = try_unmount(fs).unwrap();
        for seed in seeds(6, 1000) {
            root_blocks_wear_out(seed, chip.clone(), config, 20);
        }
    }
}

/// What a cut erase of a block may leave: its first pages, and the others read as erased.
fn torn_erase(before: &SimNand, block: BlockAddr, pages: u32) -> SimNand {
    let (geo, mut before) = (before.geometry(), before.clone());
    before.set_faults(Faults::default()).unwrap();
    let mut torn = before.clone();
    torn.erase(block).unwrap();
    let mut data = vec![0; geo.page_size() as usize];
    for page in (0..pages).map(|page| geo.page(block, page)) {
        before.read(page, 0, &mut data, &mut []).unwrap();
        torn.program(page, &data, &[]).unwrap();
    }
    torn
}

/// A mount after a cut, scrubs, overwrites and a file more.
fn session(chip: &mut impl Chip, files: u64, overwrites: u64) -> Result<(), String> {
    let says = |e: &dyn std::fmt::Display| e.to_string();
    let mut fs = try_mount_lent(chip, Config::default())?;
    all_there(&mut fs, files);
    for _ in 0..2 {
        fs.volume().scrub(1).map_err(|e| says(&e))?;
    }
    let root = fs.root();
    let big = fs.create(root, b"big", &NewInode::default());
    let big = big.or_else(|_| fs.lookup(root, b"big"));
    let big = big.map_err(|e| says(&e))?.ino;
    for _ in 0..overwrites {
        fs.write(big, 0, &[1; 40 << 10], NOW)
            .map_err(|e| says(&e))?;
    }
    let new = fs.create(root, files.to_string().as_bytes(), &NewInode::default());
    let new = new.map_err(|e| says(&e))?.ino;
    let written = fs.write(new, 0, &[0x5a; 100], NOW);
    written.and_then(|_| fs.fsync(new)).map_err(|e| says(&e))
}

/// Sessions that all end in a cut; in some of them bits have to be corrected, so that a scrub
/// writes the root blocks anew, as soon as a recovery has programmed their last pages. Where the
/// erase is cut, the other root block counts.
fn roots_are_written_anew(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut fs = formatted(chip(1024, 40, 8, 64 + rng.below(65) as u32));
    let mut chip = fs.volume().nand().get::<SimNand>().clone();
    for round in 0..60 {
        let flips = Faults {
            bitflips: 8,
            bitflip_rate: Rate(if rng.one_in(3) { 1 } else { 0 }),
            ..Faults::default()
        };
        chip.set_faults(flips).unwrap();
        let overwrites = rng.below(6).saturating_sub(3);
        let mut whole = Trace::new(chip.clone(), usize::MAX);
        session(&mut whole, round, overwrites).unwrap();
        let changes = whole.take().into_iter().filter(|op| {
            matches!(
                op.kind,
                OpKind::Program { .. } | OpKind::Erase(_) | OpKind::MarkBad(_)
            )
        });
        for (op, after) in changes.zip(0..) {
            let OpKind::Erase(block @ BlockAddr(0..2)) = op.kind else {
                continue;
            };
            let cut = Cut {
                after,
                program: Tear::NotBegun,
                erase: EraseTear::NotBegun,
                seed: 0,
            };
            let mut before = PowerCut::new(chip.clone(), cut);
            assert!(session(&mut before, round, overwrites).is_err());
            for pages in 1..8 {
                let _said = Said(format!(
                    "seed {seed}, round {round}, operation {after}, {pages} pages left"
                ));
                all_there(&mut mount(torn_erase(before.inner(), block, pages)), round);
            }
        }
        chip = whole.into_inner();
    }
}

#[test]
fn the_erase_of_a_root_block_to_be_written_anew_is_cut() {
    // In the second the block before that which is lost leads to an old second-level block.
    seeds(10, 10_000)
        .chain([825])
        .for_each(roots_are_written_anew);
}

/// Root blocks are among the first 64. Where four of these are not good there is no
/// volume, and formatting says so.
#[test]
fn a_chip_without_blocks_for_roots_is_refused() {
    for (bad, fits) in [(60, true), (61, false)] {
        let mut chip = chip(1024, 40, 8, 160);
        let faults = Faults {
            bad_blocks: (1..=bad).collect(),
            ..Faults::default()
        };
        chip.set_faults(faults).unwrap();
        let mut ram = vec![0; ram_needed_for(&chip.geometry(), 0)];
        let formatted = FlashLight::format(AnyNand::new(chip), &mut ram, 1, &New::default());
        match formatted {
            Ok(chip) if fits => clean(&mut mount(chip.take())),
            Err(Error::Geometry) if !fits => {}
            r => panic!("{bad} bad: {:?}", r.map(drop)),
        }
    }
}

/// Many small blocks, and a table of them that is in RAM: a checkpoint would be more blocks of the
/// allocation log than it can list, and the volume would be lost.
#[test]
fn a_chip_with_too_many_small_blocks_is_refused() {
    for (blocks, fits) in [(20_000, true), (21_000, false)] {
        let chip = chip(1024, 40, 8, blocks);
        let mut ram = vec![0; ram_needed_for(&chip.geometry(), 0)];
        let formatted = FlashLight::format(AnyNand::new(chip), &mut ram, 1, &New::default());
        match formatted {
            Ok(_) if fits => {}
            Err(Error::Geometry) if !fits => {}
            r => panic!("{blocks} blocks: {:?}", r.map(drop)),
        }
    }
}

/// All root blocks but one fail in a change; bits of the last have to be corrected right after
/// that. It is not written anew, and the change can be made durable in it.
#[test]
fn the_last_root_block_has_to_be_corrected() {
    let chip = FailAt::new(chip(1024, 40, 8, 160), u64::MAX);
    let mut volume = Volume::new(chip, Config::default());
    let weak_blocks = (0..3).map(|at| Weak { at, good: 0 }).collect();
    let faults = Faults {
        weak_blocks,
        ..Faults::default()
    };
    volume.chip().chip.set_faults(faults).unwrap();
    let root = volume.fs().root();
    let new = NewInode::default();
    let ino = volume.fs().create(root, b"f", &new).unwrap().ino;
    let mut n = 0_u32;
    while !volume.flashlight().is_worn() {
        n += 1;
        volume.fs().write(ino, 0, &n.to_le_bytes(), NOW).unwrap();
        if n.is_multiple_of(4) && !volume.flashlight().is_worn() {
            volume.fs().fsync(ino).unwrap();
        }
    }
    volume.chip().weak = true;
    assert_eq!(volume.flashlight().patrol().unwrap(), Patrol::Noted);
    volume.chip().weak = false;
    volume.flashlight().gc(16).unwrap();
    volume.remount().unwrap();
    let mut read = [0; 4];
    let ino = volume.fs().lookup(root, b"f").unwrap().ino;
    volume.fs().read(ino, 0, &mut read).unwrap();
    assert_eq!(u32::from_le_bytes(read), n);
}

/// What a mount and a boot reader say of a chip, and whether they agree that there is no volume.
fn says(chip: &mut SimNand) -> Result<(), Error<AnyError>> {
    let mut ram = vec![0; boot_ram_needed(&chip.geometry())];
    let booted = Boot::open(AnyNand::lent(chip), &mut ram).map(drop);
    let mut ram = vec![0; ram_needed_for(&chip.geometry(), 0)];
    let mounted = FlashLight::mount(AnyNand::lent(chip), &mut ram, Config::default()).map(drop);
    match (&mounted, booted) {
        (Ok(()), Ok(()))
        | (Err(Error::NotFormatted), Err(BootError::NotFormatted))
        | (Err(Error::Corrupt(..)), Err(BootError::Damaged)) => mounted,
        other => panic!("{other:?}"),
    }
}

/// No page can be read for a while, as with a supply too low or the wrong ECC: who is told then
/// that there is no volume formats the chip, and everything is lost.
#[test]
fn a_chip_that_cannot_be_read_is_not_called_unformatted() {
    let mut fs = formatted(chip(1024, 24, 8, 64));
    let root = fs.root();
    file(&mut fs, root, b"f", 5000);
    let mut chip = try_unmount(fs).unwrap();
    let unreadable = Faults {
        uncorrectable: Rate(1),
        ..Faults::default()
    };
    chip.set_faults(unreadable).unwrap();
    assert!(matches!(says(&mut chip), Err(Error::Corrupt(..))));
    chip.set_faults(Faults::default()).unwrap();
    let mut fs = mount(chip);
    assert_eq!(fs.lookup(root, b"f").unwrap().size, 5000);
}

/// Power goes in the first format of a chip, at any operation: it can be formatted still, by who
/// does that when there is no volume.
#[test]
fn a_first_format_that_is_cut_leaves_no_volume_or_a_whole_one() {
    let blank = chip(1024, 24, 8, 64);
    for after in 0.. {
        for seed in 0..4 {
            let cut = Cut {
                after,
                program: Tear::Garbage,
                erase: EraseTear::Partial,
                seed,
            };
            let mut cut_chip = PowerCut::new(blank.clone(), cut);
            let mut ram = vec![0; ram_needed_for(&cut_chip.geometry(), 0)];
            let lent = AnyNand::lent(&mut cut_chip);
            let formatted = FlashLight::format(lent, &mut ram, 1, &New::default()).is_ok();
            let found = says(&mut cut_chip.into_inner());
            let is_right = matches!(found, Ok(()) | Err(Error::NotFormatted));
            assert!(is_right, "{after}: {found:?}");
            if formatted {
                return;
            }
        }
    }
}
