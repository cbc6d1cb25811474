//! Stands in for FlashLight until its adapter is there: a tree in memory, written to the pages of
//! the chip as one stream at unmount.

use std::path::Path;

use anyhow::{Context, bail};
use flashkit_nand::{BlockAddr, Nand, PageAddr};
use flashkit_sim::{Metered, Preset, SimNand};
use flashkit_vfs::{
    Attr, DirEntry, Error, FileKind, FileSystem, FlashCost, Ino, MemoryFs, NewInode, Result,
    SetAttr, StatFs, Time, path,
};
use serde_json::{Map, Value, json};

use super::{Access, Adapter, Cut, Finding, Fsck};

const MAGIC: &[u8; 8] = b"FKSTUB01";
const RAM_MIN: usize = 8_192;

pub fn check_ram(chip: &Preset, ram: usize) -> anyhow::Result<()> {
    if ram < RAM_MIN {
        bail!(
            "--ram {ram}: too small: {} needs at least {RAM_MIN} bytes",
            chip.name
        );
    }
    Ok(())
}

pub fn mkfs(image: &Path, chip: &Preset, ram: usize) -> anyhow::Result<FlashCost> {
    let mut fs = Stub::new(SimNand::create(image, chip)?, MemoryFs::new(), ram);
    fs.unmount()?;
    Ok(fs.cost())
}

pub fn in_ram(chip: &Preset, ram: usize) -> anyhow::Result<Box<dyn Adapter>> {
    check_ram(chip, ram)?;
    let capacity = chip.geometry().capacity();
    Ok(Box::new(Stub::new(
        SimNand::new(chip),
        MemoryFs::with_capacity(capacity),
        ram,
    )))
}

pub fn open(
    image: &Path,
    access: Access,
    ram: usize,
    cut: Option<Cut>,
) -> anyhow::Result<(Box<dyn Adapter>, String)> {
    let access = match access {
        Access::ReadWrite => flashkit_sim::Access::ReadWrite,
        Access::ReadOnly => flashkit_sim::Access::ReadOnlyCow,
    };
    let chip = SimNand::open(image, access)?;
    let name = chip.spec().name().to_owned();
    if ram < RAM_MIN {
        bail!("--ram {ram}: too small: {name} needs at least {RAM_MIN} bytes");
    }
    let mut fs = load(chip, ram)?;
    fs.cut = cut;
    Ok((Box::new(fs), name))
}

pub fn fsck(image: &Path, _repair: bool, ram: usize) -> anyhow::Result<Fsck> {
    let chip = SimNand::open(image, flashkit_sim::Access::ReadOnlyCow)?;
    let mut found = Fsck::default();
    match load(chip, ram) {
        Ok(mut fs) => {
            let root = fs.root();
            let mut inodes = 1;
            path::walk(&mut fs, root, &mut |_, _, _| {
                inodes += 1;
                Ok(())
            })?;
            found.checked.push(("inodes", inodes));
        }
        Err(error) => found.findings.push(Finding {
            place: "page 0".into(),
            what: format!("{error:#}"),
            repaired: false,
        }),
    }
    Ok(found)
}

pub fn info(image: &Path, ram: usize) -> anyhow::Result<Map<String, Value>> {
    let (mut fs, chip) = open(image, Access::ReadOnly, ram, None)?;
    let space = fs.statfs()?;
    let told = json!({
        "fs": "flashlight",
        "chip": chip,
        "ram_bytes": fs.ram_bytes(),
        "space": { "block_size": space.block_size, "blocks": space.blocks, "free": space.blocks_free },
    });
    let Value::Object(told) = told else {
        bail!("not an object")
    };
    Ok(told)
}

pub fn dump(
    image: &Path,
    each: &mut dyn FnMut(Map<String, Value>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let named = || image.display().to_string();
    let opened = SimNand::open(image, flashkit_sim::Access::ReadOnlyCow);
    let mut fs = load(opened.with_context(named)?, RAM_MIN).with_context(named)?;
    let root = fs.root();
    let mut records = Vec::new();
    path::walk(&mut fs, root, &mut |_, at, attr| {
        records.push(
            json!({ "kind": "inode", "page": 0, "ino": attr.ino, "size": attr.size,
            "path": String::from_utf8_lossy(at) }),
        );
        Ok(())
    })
    .with_context(named)?;
    for record in records {
        if let Value::Object(record) = record {
            each(record)?;
        }
    }
    Ok(())
}

struct Stub {
    inner: MemoryFs,
    chip: SimNand,
    ram: usize,
    cut: Option<Cut>,
    ops: u64,
    off: bool,
}

impl Stub {
    fn new(chip: SimNand, inner: MemoryFs, ram: usize) -> Stub {
        Stub {
            inner,
            chip,
            ram,
            cut: None,
            ops: 0,
            off: false,
        }
    }

    /// Counts operations until the cut; what is there then is what the chip keeps.
    fn spend(&mut self, ops: u64) -> Result<()> {
        if self.off {
            return Err(Error::Io("the power was cut".into()));
        }
        self.ops += ops;
        if self
            .cut
            .is_some_and(|cut| self.ops > cut.after + cut.seed % 2)
        {
            self.store()?;
            self.off = true;
            return Err(Error::Io("the power was cut".into()));
        }
        Ok(())
    }

    fn store(&mut self) -> Result<()> {
        let mut tree = Vec::new();
        let root = self.inner.root();
        pack(&mut self.inner, root, &mut tree)?;
        let mut stream = MAGIC.to_vec();
        stream.extend((tree.len() as u64).to_le_bytes());
        stream.extend(tree);
        let geometry = self.chip.geometry();
        if stream.len() as u64 > geometry.capacity() {
            return Err(Error::NoSpace);
        }
        let io = |error| Error::Io(format!("{error}"));
        for (number, page) in (0..).zip(stream.chunks(geometry.page_size() as usize)) {
            if number % geometry.pages_per_block() == 0 {
                let block = BlockAddr(number / geometry.pages_per_block());
                self.chip.erase(block).map_err(io)?;
            }
            self.chip.program(PageAddr(number), page, &[]).map_err(io)?;
        }
        Ok(())
    }
}

fn load(mut chip: SimNand, ram: usize) -> anyhow::Result<Stub> {
    let geometry = chip.geometry();
    let mut head = [0; 16];
    chip.read(PageAddr(0), 0, &mut head, &mut [])?;
    if head[..8] != *MAGIC {
        bail!("no flashlight file system");
    }
    let len = u64::from_le_bytes(head[8..].try_into()?);
    if len > geometry.capacity() {
        bail!("damaged");
    }
    let mut stream = vec![0; usize::try_from(len)? + 16];
    for (page, part) in (0..).zip(stream.chunks_mut(geometry.page_size() as usize)) {
        chip.read(PageAddr(page), 0, part, &mut [])?;
    }
    let mut inner = MemoryFs::with_capacity(geometry.capacity());
    let root = inner.root();
    unpack(&mut inner, root, &mut &stream[16..]).context("damaged")?;
    Ok(Stub::new(chip, inner, ram))
}

/// kind, mode, uid, gid, mtime, then name and contents with their lengths; a directory's entries
/// follow it and end in a zero byte.
fn pack(fs: &mut MemoryFs, dir: Ino, out: &mut Vec<u8>) -> Result<()> {
    for entry in path::list(fs, dir)? {
        let attr = fs.getattr(entry.ino)?;
        out.push(match attr.kind {
            FileKind::File => 1,
            FileKind::Dir => 2,
            FileKind::Symlink => 3,
        });
        out.extend(attr.mode.to_le_bytes());
        out.extend(attr.uid.to_le_bytes());
        out.extend(attr.gid.to_le_bytes());
        out.extend(attr.mtime.secs.to_le_bytes());
        out.extend(attr.mtime.nanos.to_le_bytes());
        let contents = match attr.kind {
            FileKind::File => path::read_all(fs, entry.ino)?,
            FileKind::Dir => Vec::new(),
            FileKind::Symlink => fs.readlink(entry.ino)?,
        };
        for bytes in [&entry.name, &contents] {
            out.extend((bytes.len() as u64).to_le_bytes());
            out.extend(bytes);
        }
        if attr.kind == FileKind::Dir {
            pack(fs, entry.ino, out)?;
        }
    }
    out.push(0);
    Ok(())
}

fn take<'a>(from: &mut &'a [u8], len: usize) -> anyhow::Result<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(len).context("ends early")?;
    *from = rest;
    Ok(taken)
}

fn unpack(fs: &mut MemoryFs, dir: Ino, from: &mut &[u8]) -> anyhow::Result<()> {
    loop {
        let kind = take(from, 1)?[0];
        if kind == 0 {
            return Ok(());
        }
        let new = NewInode {
            mode: u16::from_le_bytes(take(from, 2)?.try_into()?),
            uid: u32::from_le_bytes(take(from, 4)?.try_into()?),
            gid: u32::from_le_bytes(take(from, 4)?.try_into()?),
            now: Time {
                secs: i64::from_le_bytes(take(from, 8)?.try_into()?),
                nanos: u32::from_le_bytes(take(from, 4)?.try_into()?),
            },
        };
        let mut parts = [&[][..]; 2];
        for part in &mut parts {
            let len = u64::from_le_bytes(take(from, 8)?.try_into()?);
            *part = take(from, usize::try_from(len)?)?;
        }
        let [name, contents] = parts;
        match kind {
            1 => {
                let ino = fs.create(dir, name, &new)?.ino;
                fs.write(ino, 0, contents, new.now)?;
            }
            2 => {
                let ino = fs.mkdir(dir, name, &new)?.ino;
                unpack(fs, ino, from)?;
                fs.setattr(
                    ino,
                    &SetAttr {
                        mtime: Some(new.now),
                        ..SetAttr::default()
                    },
                )?;
            }
            _ => {
                fs.symlink(dir, name, contents, &new)?;
            }
        }
    }
}

impl Adapter for Stub {
    fn remount(self: Box<Self>) -> anyhow::Result<Box<dyn Adapter>> {
        let mut chip = self.chip;
        chip.clear_counters();
        Ok(Box::new(load(chip, self.ram)?))
    }

    fn power_is_off(&self) -> bool {
        self.off
    }
}

impl FileSystem for Stub {
    fn root(&self) -> Ino {
        self.inner.root()
    }
    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.inner.lookup(dir, name)
    }
    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        self.inner.getattr(ino)
    }
    fn setattr(&mut self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.spend(1)?;
        self.inner.setattr(ino, set)
    }
    fn create(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.spend(1)?;
        self.inner.create(dir, name, new)
    }
    fn mkdir(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.spend(1)?;
        self.inner.mkdir(dir, name, new)
    }
    fn symlink(&mut self, dir: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        self.spend(1)?;
        self.inner.symlink(dir, name, target, new)
    }
    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>> {
        self.inner.readlink(ino)
    }
    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        self.spend(1)?;
        self.inner.unlink(dir, name, now)
    }
    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        self.spend(1)?;
        self.inner.rmdir(dir, name, now)
    }
    fn rename(
        &mut self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        no_replace: bool,
        now: Time,
    ) -> Result<()> {
        self.spend(1)?;
        self.inner
            .rename(from_dir, from, to_dir, to, no_replace, now)
    }
    fn open(&mut self, ino: Ino) -> Result<()> {
        self.inner.open(ino)
    }
    fn release(&mut self, ino: Ino) -> Result<()> {
        self.inner.release(ino)
    }
    fn forget(&mut self, ino: Ino) {
        self.inner.forget(ino);
    }
    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.inner.read(ino, offset, buf)
    }
    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<()> {
        self.spend(data.len().div_ceil(2048) as u64)?;
        self.inner.write(ino, offset, data, now)
    }
    fn fsync(&mut self, ino: Ino) -> Result<()> {
        self.spend(0)?;
        self.inner.fsync(ino)
    }
    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        self.inner.readdir(dir, cookie, each)
    }
    fn parent(&mut self, dir: Ino) -> Result<Ino> {
        self.inner.parent(dir)
    }
    fn statfs(&mut self) -> Result<StatFs> {
        self.inner.statfs()
    }
    fn sync(&mut self) -> Result<()> {
        self.spend(0)?;
        self.inner.sync()
    }
    fn unmount(&mut self) -> Result<()> {
        self.spend(0)?;
        self.store()
    }
    fn cost(&self) -> FlashCost {
        let c = self.chip.counters();
        FlashCost {
            page_reads: c.page_reads,
            spare_reads: c.spare_reads,
            page_programs: c.page_programs,
            block_erases: c.block_erases,
            flash_ns: c.time_ns,
        }
    }
    fn erase_counts(&self) -> Vec<u32> {
        self.chip.erase_counts()
    }
    fn ram_bytes(&self) -> usize {
        self.ram
    }
}
