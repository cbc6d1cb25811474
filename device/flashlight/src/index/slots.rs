//! Two slots of cached directories and two of cached files. Each has a type of its own: a slot of
//! a directory does not pass for one of a file, and none is out of range, so that the compiler
//! leaves out the checks. They are as wide as a register, for small code.

use crate::index::cache::{CachedDir, CachedFile};
use core::ops::{Index, IndexMut};

/// A slot of a cached directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum DirSlot {
    First,
    Second,
}

impl DirSlot {
    pub const ALL: [Self; 2] = [Self::First, Self::Second];
}

/// A slot of a cached file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum FileSlot {
    First,
    Second,
}

impl FileSlot {
    pub const ALL: [Self; 2] = [Self::First, Self::Second];

    pub fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    /// The data head that the file in this slot is written at
    /// ([`DATA_HEADS`](crate::format::area::DATA_HEADS)).
    pub fn data_head(self) -> usize {
        self as usize
    }
}

/// A slot of either kind.
#[derive(Clone, Copy)]
pub(crate) enum AnySlot {
    Dir(DirSlot),
    File(FileSlot),
}

/// What the slots of directories hold.
pub(crate) struct Dirs<'r>(pub [CachedDir<'r>; 2]);

/// What the slots of files hold.
pub(crate) struct Files<'r>(pub [CachedFile<'r>; 2]);

impl<'r> Index<DirSlot> for Dirs<'r> {
    type Output = CachedDir<'r>;

    fn index(&self, slot: DirSlot) -> &CachedDir<'r> {
        &self.0[slot as usize]
    }
}

impl IndexMut<DirSlot> for Dirs<'_> {
    fn index_mut(&mut self, slot: DirSlot) -> &mut Self::Output {
        &mut self.0[slot as usize]
    }
}

impl<'r> Index<FileSlot> for Files<'r> {
    type Output = CachedFile<'r>;

    fn index(&self, slot: FileSlot) -> &CachedFile<'r> {
        &self.0[slot as usize]
    }
}

impl IndexMut<FileSlot> for Files<'_> {
    fn index_mut(&mut self, slot: FileSlot) -> &mut Self::Output {
        &mut self.0[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, FlashLight, New, Node, ROOT_DIR, Time, ram_needed};
    use flashkit_nand::Geometry;
    use flashkit_sim::{ChipSpec, Faults, SimNand, Weak, preset};

    type Fs = FlashLight<'static, SimNand>;

    const NOW: Time = Time { secs: 0, nanos: 0 };

    fn mounted(chip: SimNand) -> Fs {
        let geo = flashkit_nand::Nand::geometry(&chip);
        let ram = std::vec![0; ram_needed(&geo)].leak();
        FlashLight::mount(chip, ram, Config::default()).unwrap()
    }

    fn write(fs: &mut Fs, node: Node, pages: u64, byte: u8) {
        let Node::File(file) = node else {
            panic!("a file");
        };
        for n in 0..pages {
            // Where nothing is written any more, it is told.
            let _ = fs.write(file, 1024 * n, &[byte; 1024], NOW);
        }
    }

    /// A file has to leave its slot while the page of its directory cannot be read. What had been
    /// synced of it and has been overwritten since is there later, or what that was.
    #[test]
    fn what_was_synced_stays_where_its_directory_cannot_be_read_for_a_while() {
        let geo = Geometry::new(1024, 64, 16, 256).unwrap();
        let chip = SimNand::new(ChipSpec::new(geo, preset("slc-256m").unwrap().timing));
        let ram = std::vec![0; ram_needed(&geo)].leak();
        let new = New::default();
        let mut fs = mounted(FlashLight::format(chip, ram, 7, &new).unwrap());
        let dirs = [b"a", b"b", b"c"].map(|name| match fs.mkdir(ROOT_DIR, name, &new) {
            Ok(Node::Dir(dir)) => dir,
            other => panic!("a directory, not {other:?}"),
        });
        let node = fs.create(dirs[0], b"f", &new).unwrap();
        write(&mut fs, node, 32, 1);
        fs.sync().unwrap();
        let at = fs.index_mut().map_get(dirs[0]).unwrap().0;
        let lose = |fs: &mut Fs, good| {
            let faults = Faults {
                grave_pages: std::vec![Weak { at, good }],
                ..Faults::default()
            };
            fs.nand_mut().set_faults(faults).unwrap();
        };
        write(&mut fs, node, 32, 2);
        // The directory leaves its slot before.
        for dir in [dirs[1], dirs[2]] {
            fs.mkdir(dir, b"d", &new).unwrap();
        }
        lose(&mut fs, 0);
        for name in [b"g", b"h"] {
            let _ = fs.create(dirs[1], name, &new);
        }
        lose(&mut fs, u32::MAX);
        let _ = fs.sync();
        // Others take what is free.
        if let Ok(other) = fs.create(dirs[2], b"o", &new) {
            (0..3).for_each(|_| write(&mut fs, other, 1500, 3));
        }
        let (Ok(chip) | Err((chip, _))) = fs.unmount();
        let mut fs = mounted(chip);
        let Node::File(file) = fs.lookup(dirs[0], b"f").unwrap().node else {
            panic!("a file");
        };
        let mut page = [0; 1024];
        for n in 0..32 {
            assert_eq!(fs.read(file, 1024 * n, &mut page), Ok(1024), "page {n}");
            assert!(
                page == [1; 1024] || page == [2; 1024],
                "page {n}: {}",
                page[0]
            );
        }
    }
}
