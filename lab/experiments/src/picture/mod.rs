//! What happens on the chip while files are written: the picture of the README. Every bar and every
//! square is a flash operation that the simulator has recorded.

mod svg;

use anyhow::Context;
use flashkit_flashlight::inspect::{Inspected, inspect};
use flashkit_flashlight::{
    Config, Error, FileRef, FlashLight, Kind, New, Node, ROOT_DIR, Time, ram_needed,
};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{OpKind, SimNand, Trace, preset};
use flashkit_vfs::any::{AnyError, AnyNand};

pub use svg::draw;

/// Whether these are the bytes of such a picture.
pub fn is_picture(bytes: &[u8]) -> bool {
    String::from_utf8_lossy(bytes).contains(svg::TITLE)
}

/// The chip of the README's table.
const CHIP: &str = "slc-256m";
/// More operations than there are.
const OPERATIONS: usize = 1 << 12;
const NOW: Time = Time {
    secs: 1_700_000_000,
    nanos: 0,
};

type Chip = Trace<SimNand>;
type Volume<'r> = FlashLight<'r, AnyNand<'r>>;
type Failure = Error<AnyError>;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// File data.
    Data,
    /// The inode of a file.
    Inode,
    /// A directory, or what leads to it.
    Directory,
    /// Which blocks have been taken.
    Allocation,
    /// A checkpoint, its copies, and what leads to it.
    Checkpoint,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Reads a page, or its spare bytes.
    Read,
    /// Programs a page.
    Program(Holds),
    /// Erases a block.
    Erase,
}

/// A flash operation.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// What it does.
    pub does: Does,
    /// Flash time that it takes.
    pub ns: u64,
}

/// A call of the program, and what it does on the chip.
pub struct Call {
    /// What is called.
    pub what: &'static str,
    /// Its flash operations, in their order.
    pub operations: Vec<Operation>,
}

fn holds(chip: &mut SimNand, at: PageAddr) -> anyhow::Result<Holds> {
    let geometry = chip.geometry();
    let mut page = vec![0; geometry.page_size() as usize];
    chip.read(at, 0, &mut page, &mut [])?;
    let Inspected::Record(header, _) = inspect(&geometry, &page, at) else {
        return Ok(Holds::Data);
    };
    Ok(match header.kind {
        Kind::File => Holds::Inode,
        Kind::Dir | Kind::DirMap => Holds::Directory,
        Kind::Alloc => Holds::Allocation,
        Kind::Root | Kind::Second | Kind::Checkpoint | Kind::Snapshot => Holds::Checkpoint,
        kind => anyhow::bail!("the picture has no colour for {kind:?}"),
    })
}

/// What the chip has done since this was asked last. What pages hold is read from a copy of the
/// chip, so that looking costs nothing.
fn recorded(chip: &mut Chip, from: &mut u64) -> anyhow::Result<Vec<Operation>> {
    let mut copy = chip.inner().clone();
    let mut operations = Vec::new();
    for op in chip.take() {
        let does = match op.kind {
            OpKind::Read { .. } => Does::Read,
            OpKind::Program { page, .. } | OpKind::Copy { to: page, .. } => {
                Does::Program(holds(&mut copy, page)?)
            }
            OpKind::Erase(_) => Does::Erase,
            OpKind::IsBad(_) | OpKind::MarkBad(_) | OpKind::Flush => continue,
        };
        let ns = op.time_ns - *from;
        *from = op.time_ns;
        operations.push(Operation { does, ns });
    }
    Ok(operations)
}

fn create(fs: &mut Volume<'_>, name: &[u8]) -> Result<FileRef, Failure> {
    let new = New {
        mode: 0o644,
        now: NOW,
        ..New::default()
    };
    match fs.create(ROOT_DIR, name, &new)? {
        Node::File(file) => Ok(file),
        Node::Dir(_) => Err(Error::Invalid),
    }
}

type Step = (&'static str, fn(&mut Volume<'_>) -> Result<(), Failure>);

fn file(fs: &mut Volume<'_>, name: &[u8]) -> Result<FileRef, Failure> {
    match fs.lookup(ROOT_DIR, name)?.node {
        Node::File(file) => Ok(file),
        Node::Dir(_) => Err(Error::Invalid),
    }
}

fn write(fs: &mut Volume<'_>, name: &[u8], at: u64, len: usize) -> Result<(), Failure> {
    let file = file(fs, name)?;
    fs.write(file, at, &vec![0x5a; len], NOW)?;
    fs.fsync(Node::File(file))
}

const STEPS: [Step; 8] = [
    ("first file after the mount", |fs| {
        create(fs, b"first")?;
        write(fs, b"first", 0, 4096)
    }),
    ("create a file", |fs| create(fs, b"log").map(drop)),
    ("write 4 KiB, fsync", |fs| write(fs, b"log", 0, 4096)),
    ("overwrite 4 KiB, fsync", |fs| write(fs, b"log", 0, 4096)),
    ("append 100 bytes, fsync", |fs| write(fs, b"log", 4096, 100)),
    ("rename", |fs| {
        let renamed = fs.rename(ROOT_DIR, b"log", ROOT_DIR, b"old", false, &|_| false, NOW);
        renamed.map(drop)
    }),
    ("unlink", |fs| {
        fs.unlink(ROOT_DIR, b"first", &|_| false, NOW).map(drop)
    }),
    ("sync", |fs| fs.sync()),
];

/// Runs the calls on a new volume, the last mount after a power cut.
pub fn record() -> anyhow::Result<Vec<Call>> {
    let spec = preset(CHIP).context("no such chip")?;
    let mut chip = Trace::new(SimNand::new(spec), OPERATIONS);
    let mut ram = vec![0; ram_needed(&chip.geometry())];
    let root = New {
        mode: 0o755,
        now: NOW,
        ..New::default()
    };
    FlashLight::format(AnyNand::lent(&mut chip), &mut ram, 1, &root).map_err(|e| told(&e))?;
    chip.take();
    let mut from = chip.inner().now_ns();
    let mut calls = Vec::new();
    {
        let mut fs = FlashLight::mount(AnyNand::lent(&mut chip), &mut ram, Config::default())
            .map_err(|e| told(&e))?;
        let mut note = |what, fs: &mut Volume<'_>| -> anyhow::Result<()> {
            let operations = recorded(fs.nand_mut().get_mut(), &mut from)?;
            calls.push(Call { what, operations });
            Ok(())
        };
        note("mount", &mut fs)?;
        for (what, step) in STEPS {
            step(&mut fs).map_err(|e| told(&e))?;
            note(what, &mut fs)?;
        }
        // No unmount: power goes.
    }
    let lent = AnyNand::lent(&mut chip);
    FlashLight::mount(lent, &mut ram, Config::default()).map_err(|e| told(&e))?;
    let what = "power cut, mount";
    let operations = recorded(&mut chip, &mut from)?;
    calls.push(Call { what, operations });
    Ok(calls)
}

fn told(error: &Failure) -> anyhow::Error {
    anyhow::anyhow!("{error:?}")
}
