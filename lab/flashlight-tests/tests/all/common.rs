//! FlashLight over a chip, mounted as the tests want it, and what they ask of it.

use std::marker::PhantomData;

use flashkit_flashlight::{Area, Config, FlashLight, New, Page, Visitor, ram_needed_for};
use flashkit_nand::{Geometry, Nand, PageAddr};
use flashkit_sim::{ChipSpec, Metered, SimNand, Timing, preset};
use flashkit_vfs::any::{self, AnyFs, AnyNand, Chip};
use flashkit_vfs::check::check;
use flashkit_vfs::{FileSystem, Ino, NewInode, Time};
use flashkit_workload::model::Target;

/// On a chip of its own.
pub type Fs = AnyFs<'static, 'static>;
/// On any.
pub type LentFs<'c> = AnyFs<'static, 'c>;

pub const NOW: Time = Time { secs: 9, nanos: 7 };
pub const LATER: Time = Time { secs: 11, nanos: 1 };

/// A chip with the paper's latencies, whose blocks must be erased before their first use. Page
/// size, usable spare bytes, pages of a block, blocks.
pub fn chip(page: u32, spare: u32, pages: u32, blocks: u32) -> SimNand {
    let geo = Geometry::new(page, spare, pages, blocks).unwrap();
    let timing = Timing {
        read_ns: 77_800,
        program_ns: 252_800,
        erase_ns: 1_500_000,
    };
    let mut chip = SimNand::new(ChipSpec::new(geo, timing).with_raw_spare(128).unwrap());
    chip.require_first_erase(true);
    chip
}

/// The least RAM.
pub fn ram_for(chip: &impl Nand, config: Config) -> usize {
    ram_needed_for(&chip.geometry(), config.table_page)
}

pub fn format<N: Chip>(chip: N, volume: u32) -> N {
    format_with(chip, volume, Config::default())
}

pub fn format_with<N: Chip>(chip: N, volume: u32, config: Config) -> N {
    let ram = vec![0; ram_for(&chip, config)].leak();
    any::format(AnyNand::new(chip), ram, volume, &New::default(), config)
        .unwrap_or_else(|e| panic!("format: {e}"))
        .take()
}

pub fn try_mount(chip: impl Chip, config: Config) -> Result<Fs, String> {
    let bytes = ram_for(&chip, config);
    try_mount_in(AnyNand::new(chip), bytes, config)
}

/// A chip that somebody wants back, however this ends.
pub fn try_mount_lent(chip: &mut impl Chip, config: Config) -> Result<LentFs<'_>, String> {
    let bytes = ram_for(chip, config);
    try_mount_in(AnyNand::lent(chip), bytes, config)
}

/// With more RAM.
pub fn try_mount_in(chip: AnyNand<'_>, size: usize, config: Config) -> Result<LentFs<'_>, String> {
    any::mount(chip, vec![0; size].leak(), config).map_err(|e| format!("mount fails: {e}"))
}

pub fn try_unmount(fs: Fs) -> Result<SimNand, String> {
    try_unmount_from(fs)
}

/// From a chip of any other type.
pub fn try_unmount_from<N: Chip>(fs: Fs) -> Result<N, String> {
    match fs.into_volume().unmount() {
        Ok(chip) => Ok(chip.take()),
        Err((_, e)) => Err(format!("unmount fails: {e}")),
    }
}

pub fn mount(chip: SimNand) -> Fs {
    try_mount(chip, Config::default()).unwrap()
}

pub fn formatted(chip: SimNand) -> Fs {
    mount(format(chip, 1))
}

/// A file system on a new chip of this name.
pub fn on_preset(name: &str) -> Fs {
    formatted(SimNand::new(preset(name).unwrap()))
}

/// A file system on the paper's chip.
pub fn of_paper() -> Fs {
    on_preset("slc-256m")
}

pub fn remount(fs: Fs) -> Fs {
    mount(try_unmount(fs).unwrap())
}

/// The mount after a power cut.
pub fn cut(fs: Fs) -> Fs {
    mount(fs.into_volume().nand().get::<SimNand>().clone())
}

/// Reads of the mount that would follow a power cut now.
pub fn reads_after_cut(fs: &mut Fs) -> u64 {
    reads_after_cut_with(fs, Config::default())
}

pub fn reads_after_cut_with(fs: &mut Fs, config: Config) -> u64 {
    let mut chip = fs.volume().nand().get::<SimNand>().clone();
    chip.clear_counters();
    let spent = try_mount(chip, config).unwrap();
    let spent = spent.into_volume().nand().counters();
    spent.page_reads + spent.spare_reads
}

/// The checker finds nothing.
pub fn clean(fs: &mut Fs) {
    assert_eq!(check(fs.volume()).unwrap().findings, []);
}

/// Reads and programs of something. Blocks are taken now and then, which costs a program too.
pub fn cost(fs: &mut Fs, what: impl FnOnce(&mut Fs)) -> (u64, u64) {
    let before = fs.volume().nand().counters();
    what(fs);
    let cost = fs.volume().nand().counters() - before;
    (cost.page_reads + cost.spare_reads, cost.page_programs)
}

/// Pages of the directory map, those of places among them.
pub fn map_pages(fs: &mut Fs) -> Vec<PageAddr> {
    struct Maps(Vec<PageAddr>);
    impl Visitor for Maps {
        fn page(&mut self, page: Page) {
            if page.area == Area::DirMap {
                self.0.push(page.page);
            }
        }
        fn problem(&mut self, _: PageAddr, _: u32, what: &'static str) {
            panic!("{what}");
        }
    }
    let mut maps = Maps(Vec::new());
    fs.volume().walk(&mut maps).unwrap();
    maps.0
}

/// The pages of inodes of that name.
pub fn pages_with(chip: &SimNand, name: &[u8]) -> Vec<PageAddr> {
    let mut chip = chip.clone();
    let mut page = vec![0; chip.geometry().page_size() as usize];
    let mut found = Vec::new();
    for at in (0..chip.geometry().pages()).map(PageAddr) {
        chip.read(at, 0, &mut page, &mut []).unwrap();
        if page[4..6] == *b"FL" && page[..400].windows(name.len()).any(|w| w == name) {
            found.push(at);
        }
    }
    found
}

/// Leaves old data in free blocks: a file of so many bytes, or a piece more, is written
/// piece by piece, and removed.
pub fn write_and_remove(fs: &mut Fs, bytes: u64, piece: &[u8]) {
    let root = fs.root();
    let old = fs.create(root, b"old", &NewInode::default()).unwrap().ino;
    for at in (0..bytes).step_by(piece.len()) {
        fs.write(old, at, piece, NOW).unwrap();
    }
    fs.sync().unwrap();
    fs.unlink(root, b"old", NOW).unwrap();
    fs.sync().unwrap();
}

/// A file of so many bytes, synced.
pub fn file(fs: &mut Fs, dir: Ino, name: &[u8], bytes: usize) -> Ino {
    let ino = fs.create(dir, name, &NewInode::default()).unwrap().ino;
    fs.write(ino, 0, &vec![0x5a; bytes], NOW).unwrap();
    fs.fsync(ino).unwrap();
    ino
}

/// A volume that the model drives.
pub struct Volume<N> {
    fs: Option<Fs>,
    config: Config,
    ram: usize,
    chip: PhantomData<N>,
}

impl<N: Chip> Volume<N> {
    pub fn new(chip: N, config: Config) -> Volume<N> {
        let ram = ram_for(&chip, config);
        Volume::in_ram(chip, ram, config)
    }

    pub fn in_ram(chip: N, ram: usize, config: Config) -> Volume<N> {
        Volume::found_in(format_with(chip, 0x1234, config), ram, config)
    }

    /// The volume that is on a chip.
    pub fn found(chip: N, config: Config) -> Volume<N> {
        let ram = ram_for(&chip, config);
        Volume::found_in(chip, ram, config)
    }

    fn found_in(chip: N, ram: usize, config: Config) -> Volume<N> {
        Volume {
            fs: Some(try_mount_in(AnyNand::new(chip), ram, config).unwrap()),
            config,
            ram,
            chip: PhantomData,
        }
    }

    pub fn mounted(&mut self) -> &mut Fs {
        self.fs.as_mut().expect("mounted")
    }

    pub fn flashlight(&mut self) -> &mut FlashLight<'static, AnyNand<'static>> {
        self.mounted().volume()
    }

    pub fn chip(&mut self) -> &mut N {
        self.flashlight().nand_mut().get_mut()
    }
}

impl<N: Chip> Target for Volume<N> {
    fn fs(&mut self) -> &mut dyn FileSystem {
        self.mounted()
    }

    fn remount(&mut self) -> Result<(), String> {
        let chip: N = try_unmount_from(self.fs.take().expect("mounted"))?;
        self.fs = Some(try_mount_in(AnyNand::new(chip), self.ram, self.config)?);
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        let checked = check(self.flashlight())?;
        match checked.findings.first() {
            None => Ok(()),
            Some(_) => Err(format!("{:#?}", checked.findings)),
        }
    }
}
