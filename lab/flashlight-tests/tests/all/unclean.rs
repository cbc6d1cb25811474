//! What a few operations leave when the power goes right after them: after the recovery every
//! structure must agree with the others.

use flashkit_flashlight::{Config, New, ram_needed};
use flashkit_nand::Nand;
use flashkit_sim::{PowerCut, SimNand, preset};
use flashkit_vfs::any::{self, AnyFs, AnyNand};
use flashkit_vfs::check::check;
use flashkit_vfs::{FileSystem, Ino, NewInode, SetAttr, Time};

type Chip = PowerCut<SimNand>;
type Fs = AnyFs<'static, 'static>;

fn ram(chip: &Chip) -> &'static mut [u8] {
    Box::leak(vec![0; ram_needed(&chip.geometry())].into_boxed_slice())
}

fn mount(chip: Chip) -> Fs {
    let ram = ram(&chip);
    any::mount(AnyNand::new(chip), ram, Config::default()).unwrap()
}

/// A volume with the directories `d0` to `d4`.
struct Volume {
    fs: Fs,
    dirs: Vec<Ino>,
}

impl Volume {
    fn new(chip: &str) -> Volume {
        let chip = PowerCut::never(SimNand::new(preset(chip).unwrap()));
        let ram = ram(&chip);
        let (chip, new) = (AnyNand::new(chip), New::default());
        let chip = any::format(chip, ram, 1, &new, Config::default()).unwrap();
        let mut fs = mount(chip.take());
        let root = fs.root();
        let mut mkdir = |i: u32| {
            let name = format!("d{i}");
            let made = fs.mkdir(root, name.as_bytes(), &NewInode::default());
            made.unwrap().ino
        };
        let dirs = (0..5).map(&mut mkdir).collect();
        Volume { fs, dirs }
    }

    fn make(&mut self, dir: usize, name: &str, size: usize) {
        let made = self
            .fs
            .create(self.dirs[dir], name.as_bytes(), &NewInode::default());
        let bytes = vec![7; size];
        self.fs
            .write(made.unwrap().ino, 0, &bytes, Time::default())
            .unwrap();
    }

    /// Cuts the power and mounts again.
    fn findings_after_a_cut(mut self) -> Vec<String> {
        let chip: &mut Chip = self.fs.volume().nand_mut().get_mut();
        chip.cut_now();
        let chip = match self.fs.into_volume().unmount() {
            Ok(chip) | Err((chip, _)) => chip.take::<Chip>().into_inner(),
        };
        let mut fs = mount(PowerCut::never(chip));
        let findings = check(fs.volume()).unwrap().findings;
        findings.into_iter().map(|f| f.what).collect()
    }
}

#[test]
fn a_rename_between_directories() {
    let mut volume = Volume::new("micron-20m");
    volume.make(0, "f", 2_048);
    let (from, to) = (volume.dirs[0], volume.dirs[1]);
    volume
        .fs
        .rename(from, b"f", to, b"g", false, Time::default())
        .unwrap();
    assert_eq!(volume.findings_after_a_cut(), [""; 0]);
}

#[test]
fn files_after_a_sync_and_cleaning() {
    let mut volume = Volume::new("micron-20m");
    volume.make(0, "a", 2_048);
    volume.fs.sync().unwrap();
    volume.make(3, "b", 2_048);
    volume.make(1, "c", 2_048);
    volume.fs.gc(64).unwrap();
    assert_eq!(volume.findings_after_a_cut(), [""; 0]);
}

#[test]
fn a_change_after_a_sync_and_two_files() {
    let mut volume = Volume::new("micron-20m");
    volume.make(1, "a", 0);
    volume.fs.sync().unwrap();
    let ino = volume.fs.lookup(volume.dirs[1], b"a").unwrap().ino;
    let set = SetAttr {
        mtime: Some(Time { secs: 5, nanos: 0 }),
        ..SetAttr::default()
    };
    volume.fs.setattr(ino, &set).unwrap();
    volume.make(0, "b", 0);
    volume.make(2, "c", 0);
    assert_eq!(volume.findings_after_a_cut(), [""; 0]);
}

/// More blocks with an unwritten tail than are remembered, one of them being written when the
/// checkpoint is taken and afterwards.
#[test]
fn many_unfinished_blocks_and_one_that_is_written_on() {
    let mut volume = Volume::new("micron-256m");
    for i in 0..60 {
        volume.make(i % 5, &format!("f{i}"), 100 * 2_048);
    }
    volume.fs.sync().unwrap();
    volume.make(0, "after", 4 * 2_048);
    for i in 50..60 {
        let dir = volume.dirs[i % 5];
        let ino = volume
            .fs
            .lookup(dir, format!("f{i}").as_bytes())
            .unwrap()
            .ino;
        let offset = 100 * 2_048;
        volume
            .fs
            .write(ino, offset, &[9; 8_192], Time::default())
            .unwrap();
        volume.fs.fsync(ino).unwrap();
    }
    assert_eq!(volume.findings_after_a_cut(), [""; 0]);
}
