//! A page that cannot be read, whichever it is: the disk is there all the same, and no sector
//! holds what it never held.

use crate::common::{self, Model, SETUPS, Setup, apply, content, run, script};
use flashkit_jftl::{Damage, Error, Jftl};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Metered, Rot, SimNand};

/// Setups whose RAM has the whole map.
fn setups() -> impl Iterator<Item = Setup> {
    SETUPS
        .into_iter()
        .filter(|setup| setup.cache == common::SETUPS[0].cache)
}

/// A disk with a history, and what each sector may hold without its last flush.
fn disk(setup: Setup, orderly: bool) -> (SimNand, Vec<u32>) {
    let (mut chip, mut ram) = (setup.formatted(), setup.ram());
    let mut model = Model::new(setup.sectors());
    let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
    let ops = script(3, setup.sectors(), setup.sectors() * 3 / 4, 400);
    run(&mut disk, &mut model, &ops).unwrap();
    disk.flush().unwrap();
    if orderly {
        disk.close().unwrap();
    }
    let len = disk.sector_size() as usize;
    let sectors = disk.sector_count();
    let mut newest = Vec::new();
    for sector in 0..sectors {
        let mut bytes = vec![0; len];
        disk.read(sector, &mut bytes).unwrap();
        let version = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        assert_eq!(bytes, content(sector, version, len));
        newest.push(version);
    }
    (chip, newest)
}

/// What a mount finds: sectors that hold an older version, and such as cannot be read.
fn look(setup: Setup, chip: &mut SimNand, newest: &[u32], id: &str) -> (bool, u32, u32) {
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(chip, &mut ram).unwrap_or_else(|e| panic!("{id}: {e:?}"));
    let (mut old, mut lost) = (0, 0);
    let len = disk.sector_size() as usize;
    for (sector, newest) in (0..).zip(newest) {
        let mut bytes = vec![0; len];
        match disk.read(sector, &mut bytes) {
            Ok(()) => {}
            Err(Error::Unreadable { .. }) => {
                lost += 1;
                continue;
            }
            // After an orderly end the map is read when it is asked for.
            Err(Error::Damaged {
                what: "a page of the map",
                ..
            }) => continue,
            Err(e) => panic!("{id}: sector {sector}: {e:?}"),
        }
        let version = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        let held = content(sector, version, len);
        assert!(bytes == held, "{id}: sector {sector} holds another's");
        old += u32::from(version != *newest);
    }
    (disk.damage().is_some(), old, lost)
}

#[test]
fn no_page_that_is_lost_refuses_the_disk() {
    for setup in setups() {
        for orderly in [true, false] {
            let (chip, newest) = disk(setup, orderly);
            let geometry = chip.geometry();
            let (mut salvaged, mut silent) = (0, Vec::new());
            for page in 0..geometry.pages() {
                let mut chip = chip.clone();
                if !chip.rot(PageAddr(page), Rot::Lost).unwrap() {
                    continue;
                }
                let id = format!("{} orderly {orderly} page {page}", setup.name);
                let (damaged, old, lost) = look(setup, &mut chip, &newest, &id);
                salvaged += u32::from(damaged);
                if !damaged {
                    // Data that nothing else is made of.
                    assert!(lost <= 1, "{id}: {lost} sectors are lost");
                    if old > 0 {
                        silent.push((page, old));
                    }
                }
            }
            println!(
                "{} orderly {orderly}: {salvaged} for reading alone, {silent:?}",
                setup.name
            );
            assert!(salvaged > 0);
            // The newest page of the log, and the newest anchor, look as if a cut had torn them.
            assert!(silent.len() <= usize::from(!orderly), "{silent:?}");
        }
    }
}

#[test]
fn what_is_damaged_is_not_written_and_can_be_formatted() {
    let setup = SETUPS[0];
    let (chip, newest) = disk(setup, true);
    let damaged = (0..chip.geometry().pages()).find_map(|page| {
        let mut chip = chip.clone();
        chip.rot(PageAddr(page), Rot::Lost).unwrap();
        let (damaged, ..) = look(setup, &mut chip, &newest, "any");
        damaged.then_some(chip)
    });
    let mut chip = damaged.unwrap();
    let before = chip.counters().page_programs;
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
    let Some(Damage::Page { what, page }) = disk.damage() else {
        panic!("{:?}", disk.damage())
    };
    let refused = Error::Damaged { what, page };
    let op = common::Op::Write(0, 1, 9);
    assert_eq!(apply(&mut disk, &op), Err(refused.clone()));
    assert_eq!(disk.trim(0, 1), Err(refused.clone()));
    assert_eq!(disk.background(), Ok(false));
    disk.flush().unwrap();
    disk.close().unwrap();
    assert_eq!(chip.counters().page_programs, before);
    Jftl::format(&mut chip, &mut setup.ram(), 8).unwrap();
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
    assert_eq!(disk.damage(), None);
    apply(&mut disk, &op).unwrap();
}
