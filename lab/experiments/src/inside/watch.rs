//! Replays that are looked into: a volume of FlashLight, and what is done or noted at its calls.

use anyhow::{Context, anyhow};
use flashkit_flashlight::{BlockState, Config, New};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{DEFAULT_PRESET, Preset, SimNand, preset};
use flashkit_vfs::any::{self, AnyFs, AnyNand};
use flashkit_vfs::{Counters, Ino, Measured};
use flashkit_workload::{FsStore, Store, StoreError};

type Result<T> = std::result::Result<T, StoreError>;

/// The chip of the paper.
pub fn chip() -> anyhow::Result<&'static Preset> {
    preset(DEFAULT_PRESET).context("no default chip")
}

/// A call, where somebody may want to do something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// A file has been made.
    Created,
    /// A request has been written.
    Wrote,
    /// A file has been made durable.
    Synced,
}

/// A file system under a replay, and who is told of its calls.
pub struct Watched<S, W> {
    pub store: S,
    pub watch: W,
}

/// Passes calls on as they are.
macro_rules! passed_on {
    ($to:ident: $($name:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        $(fn $name(&mut self, $($arg: $type),*) -> $out {
            self.$to().$name($($arg),*)
        })*
    };
}

/// Those that nobody is told of.
macro_rules! untold {
    ($to:ident) => {
        passed_on! { $to:
            open(path: &str) -> Result<Self::File>;
            close(file: Self::File) -> Result<()>;
            size(file: &Self::File) -> Result<u64>;
            resize(file: &Self::File, size: u64) -> Result<()>;
            read(file: &Self::File, offset: u64, buf: &mut [u8]) -> Result<usize>;
            unlink(path: &str) -> Result<()>;
            mkdir(path: &str) -> Result<()>;
            rmdir(path: &str) -> Result<()>;
            rename(from: &str, to: &str) -> Result<()>;
            sync() -> Result<()>;
            idle(ms: u64) -> Result<u64>;
            finish() -> Result<()>;
            list() -> Result<Vec<(String, bool)>>;
        }

        fn clock_ns(&self) -> u64 {
            self.cost().time_ns
        }
    };
}

impl<S, W> Watched<S, W> {
    fn to(&mut self) -> &mut S {
        &mut self.store
    }
}

impl<S: Store, W: FnMut(&mut S, At) -> Result<()>> Store for Watched<S, W> {
    type File = S::File;

    untold!(to);

    fn create(&mut self, path: &str) -> Result<S::File> {
        let file = self.store.create(path)?;
        (self.watch)(&mut self.store, At::Created)?;
        Ok(file)
    }

    fn write(&mut self, file: &S::File, offset: u64, data: &[u8]) -> Result<()> {
        self.store.write(file, offset, data)?;
        (self.watch)(&mut self.store, At::Wrote)
    }

    fn fsync(&mut self, file: &S::File) -> Result<()> {
        self.store.fsync(file)?;
        (self.watch)(&mut self.store, At::Synced)
    }

    fn fsync_path(&mut self, path: &str) -> Result<()> {
        self.store.fsync_path(path)?;
        (self.watch)(&mut self.store, At::Synced)
    }

    fn cost(&self) -> Counters {
        self.store.cost()
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.store.erase_counts()
    }

    fn ram_bytes(&self) -> usize {
        self.store.ram_bytes()
    }
}

/// A volume of FlashLight, on a simulated chip.
pub struct Volume<'m, 'c>(pub AnyFs<'m, 'c>);

impl<'m> Volume<'m, 'static> {
    /// A fresh one.
    pub fn new(memory: &'m mut [u8]) -> anyhow::Result<Volume<'m, 'static>> {
        Volume::mount(AnyNand::new(formatted(chip()?)?), memory)
    }
}

impl<'m, 'c> Volume<'m, 'c> {
    /// That which is on a chip.
    pub fn mount(chip: AnyNand<'c>, memory: &'m mut [u8]) -> anyhow::Result<Volume<'m, 'c>> {
        let mounted = any::mount(chip, memory, Config::default());
        Ok(Volume(mounted.map_err(|error| anyhow!("mount: {error}"))?))
    }

    /// Cleans until nothing more is worth it: what an application asks for.
    pub fn clean(&mut self) -> Result<()> {
        use flashkit_vfs::FileSystem as _;
        while self.0.gc(u32::MAX >> 8)? {}
        Ok(())
    }

    fn states(&mut self) -> impl Iterator<Item = (u32, BlockState)> {
        let volume = self.0.volume();
        let blocks = volume.nand().geometry().blocks();
        (0..blocks).map(move |block| (block, volume.block_state(block)))
    }

    /// Valid pages of metadata: inodes, maps and directories.
    pub fn meta_pages(&mut self) -> u64 {
        let pages = self.states().map(|(_, state)| match state {
            BlockState::Meta(valid) => u64::from(valid),
            _ => 0,
        });
        pages.sum()
    }

    /// Pages of data, and pages of blocks with data that nothing was written to yet: remnants,
    /// those that are being filled among them.
    pub fn data_and_remnants(&mut self) -> anyhow::Result<(u64, u64)> {
        let held = self.states().filter_map(|(block, state)| match state {
            BlockState::Data(valid) => Some((block, valid)),
            _ => None,
        });
        let held: Vec<(u32, u32)> = held.collect();
        // A copy: what is read of it is in nobody's figures.
        let mut chip = self.0.volume().nand().get::<SimNand>().clone();
        let mut unused = 0;
        for (block, _) in &held {
            unused += u64::from(unwritten(&mut chip, *block)?);
        }
        Ok((
            held.iter().map(|(_, valid)| u64::from(*valid)).sum(),
            unused,
        ))
    }
}

/// A fresh volume.
pub fn formatted(chip: &Preset) -> anyhow::Result<SimNand> {
    let mut memory = vec![0; 1 << 16];
    let root = New {
        mode: 0o755,
        ..New::default()
    };
    let nand = AnyNand::new(SimNand::new(chip));
    let done = any::format(nand, &mut memory, 1, &root, Config::default());
    let mut nand: SimNand = done.map_err(|error| anyhow!("format: {error}"))?.take();
    nand.clear_counters();
    Ok(nand)
}

/// Pages at the end of a block that were not written since it was erased.
fn unwritten(chip: &mut SimNand, block: u32) -> anyhow::Result<u32> {
    let geometry = chip.geometry();
    let (pages, spare) = (geometry.pages_per_block(), geometry.spare_size());
    let mut buf = vec![0; spare as usize];
    let (mut written, mut end) = (0, pages);
    while written < end {
        let middle = (written + end) / 2;
        chip.read(PageAddr(block * pages + middle), 0, &mut [], &mut buf)?;
        match buf.iter().all(|byte| *byte == 0xff) {
            true => end = middle,
            false => written = middle + 1,
        }
    }
    Ok(pages - written)
}

impl Volume<'_, '_> {
    fn to(&mut self) -> FsStore<'_> {
        FsStore::new(&mut self.0, true)
    }
}

impl Store for Volume<'_, '_> {
    type File = Ino;

    untold!(to);

    passed_on! { to:
        create(path: &str) -> Result<Ino>;
        write(file: &Ino, offset: u64, data: &[u8]) -> Result<()>;
        fsync(file: &Ino) -> Result<()>;
        fsync_path(path: &str) -> Result<()>;
    }

    fn cost(&self) -> Counters {
        self.0.cost()
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.0.erase_counts()
    }

    fn ram_bytes(&self) -> usize {
        self.0.ram_bytes()
    }
}
