//! Listings that begin anywhere.

use flashkit_flashlight::{Config, New, PASSED_DAMAGE, ram_needed};
use flashkit_nand::Geometry;
use flashkit_sim::{ChipSpec, SimNand, Timing};
use flashkit_vfs::any::{self, AnyNand};
use flashkit_vfs::{FileSystem, NewInode};

/// A program may seek to any place in a directory, with `lseek(2)`. On a sound volume none of them
/// tells of damage: a mount would be read-only from then on.
#[test]
fn no_place_in_a_sound_directory_tells_of_damage() {
    let geometry = Geometry::new(1024, 40, 16, 64).unwrap();
    let timing = Timing {
        read_ns: 1,
        program_ns: 10,
        erase_ns: 100,
    };
    let chip = SimNand::new(ChipSpec::new(geometry, timing));
    let mut ram = vec![0; ram_needed(&geometry)];
    let config = Config::default();
    let chip = any::format(AnyNand::new(chip), &mut ram, 1, &New::default(), config).unwrap();
    let mut fs = any::mount(chip, &mut ram, config).unwrap();
    let root = fs.root();
    for n in 0..30 {
        let name = format!("name {n}");
        fs.create(root, name.as_bytes(), &NewInode::default())
            .unwrap();
    }
    for bit in 0..64 {
        for cookie in [1 << bit, PASSED_DAMAGE | 1 << bit, u64::MAX >> bit] {
            let listed = fs.readdir(root, cookie, &mut |_| true);
            assert_eq!(listed, Ok(()), "from {cookie:#x} on");
        }
    }
}
