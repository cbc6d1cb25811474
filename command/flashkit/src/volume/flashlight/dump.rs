//! Every record on the flash, page by page.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, bail};
use flashkit_flashlight::inspect::{Inspected, Record, data_tag, inspect};
use flashkit_flashlight::{Area, Header, Kind, Page, Visitor};
use flashkit_nand::{BlockAddr, Geometry, Nand, PageAddr};
use serde_json::{Map, Value, json};

use super::record::fields;
use super::{Chip, mount};
use crate::volume::medium::Medium;
use crate::volume::{Access, NoVolume, Tuning};

/// Takes one record after another.
type Each<'a> = &'a mut dyn FnMut(Map<String, Value>) -> anyhow::Result<()>;

/// An image whose pages are to be told.
pub struct Dump {
    chip: Medium,
    geometry: Geometry,
    anchors: Anchors,
    /// Pages in use, with the inode they belong to; `None` when the volume cannot be mounted.
    live: Option<Live>,
    each_data_page: bool,
}

/// Pages in use.
#[derive(Default)]
struct Live(HashMap<u32, (Area, u32)>);

impl Visitor for Live {
    fn page(&mut self, page: Page) {
        self.0.insert(page.page.0, (page.area, page.ino));
    }
    fn problem(&mut self, _: PageAddr, _: u32, _: &'static str) {}
}

/// The newest of the pages that lead to everything else: only these count.
#[derive(Default)]
struct Anchors {
    /// Records of any kind.
    records: u32,
    root: Option<(u64, PageAddr)>,
    /// By second-level block.
    second: HashMap<u32, (u64, PageAddr)>,
    second_block: u32,
    checkpoint: Option<(u64, PageAddr)>,
    snapshot: Vec<PageAddr>,
}

impl Dump {
    /// Opens an image, and mounts it in RAM to learn what is in use.
    pub fn open(image: &Path, each_data_page: bool) -> anyhow::Result<Dump> {
        let open = || Medium::open(image, Access::ReadOnly);
        let chip = open()?;
        let geometry = chip.geometry();
        let tuning = Tuning::from(None);
        let mut live = Live::default();
        let mounted = mount(Chip::never(open()?), tuning, true);
        let none = mounted
            .as_ref()
            .err()
            .is_some_and(anyhow::Error::is::<NoVolume>);
        let walked = mounted.is_ok_and(|mut fs| fs.volume().walk(&mut live).is_ok());
        let mut dump = Dump {
            chip,
            geometry,
            anchors: Anchors::default(),
            live: walked.then_some(live),
            each_data_page,
        };
        dump.anchors = dump.find_anchors()?;
        // What a volume has lost to lead to it is shown; of anything else there are no records.
        if none && dump.anchors.records == 0 && !dump.chip.is_erased()? {
            bail!(NoVolume);
        }
        Ok(dump)
    }

    /// Tells every page that is not erased.
    pub fn run(mut self, each: Each<'_>) -> anyhow::Result<()> {
        let mut page = vec![0; self.geometry.page_size() as usize];
        let mut spare = vec![0; self.geometry.spare_size() as usize];
        for block in 0..self.geometry.blocks() {
            let mut runs = Runs::default();
            for index in 0..self.geometry.pages_per_block() {
                let at = self.geometry.page(BlockAddr(block), index);
                let told = match self.read(at, &mut page, &mut spare)? {
                    false => Some(json!({ "kind": "unreadable" })),
                    true => match inspect(&self.geometry, &page, at) {
                        Inspected::Erased => None,
                        Inspected::Record(header, record) => {
                            let live = self.is_live(at, &header, &record);
                            Some(told(&header, live, &fields(&record, &self.geometry)))
                        }
                        Inspected::Malformed(header) => {
                            Some(told(&header, Some(false), &json!({ "malformed": true })))
                        }
                        Inspected::Version(version) => {
                            Some(json!({ "kind": "other version", "version": version }))
                        }
                        Inspected::Other => {
                            let data = self.data(at, &page, &spare);
                            if !self.each_data_page {
                                runs.add(at, &data);
                            }
                            self.each_data_page.then(|| data.told())
                        }
                    },
                };
                if let Some(told) = told {
                    each(placed(at, &self.geometry, told))?;
                }
            }
            if let Some((first, told)) = runs.told() {
                each(placed(first, &self.geometry, told))?;
            }
        }
        Ok(())
    }

    fn read(&mut self, at: PageAddr, page: &mut [u8], spare: &mut [u8]) -> anyhow::Result<bool> {
        let status = self.chip.read(at, 0, page, spare);
        let named = || format!("page {}", at.0);
        Ok(status.with_context(named)?.is_readable())
    }

    /// Finds which of the checkpoint's pages count.
    fn find_anchors(&mut self) -> anyhow::Result<Anchors> {
        let mut anchors = Anchors::default();
        let mut page = vec![0; self.geometry.page_size() as usize];
        for at in (0..self.geometry.pages()).map(PageAddr) {
            if !self.read(at, &mut page, &mut [])? {
                continue;
            }
            if let Inspected::Record(header, record) = inspect(&self.geometry, &page, at) {
                anchors.note(at, &header, &record, self.geometry.block_of(at).0);
            }
        }
        Ok(anchors)
    }

    fn is_live(&self, at: PageAddr, header: &Header, record: &Record<'_>) -> Option<bool> {
        let anchors = &self.anchors;
        let newest = |of: Option<&(u64, PageAddr)>| Some(of.is_some_and(|found| found.1 == at));
        match record {
            Record::Root(_) => newest(anchors.root.as_ref()),
            Record::Second { .. } => newest(anchors.second.get(&anchors.second_block)),
            Record::Checkpoint(_) => newest(anchors.checkpoint.as_ref()),
            Record::Snapshot(_) => Some(anchors.snapshot.contains(&at)),
            Record::Alloc(_) => Some(anchors.checkpoint.is_some_and(|c| header.seq > c.0)),
            _ => self.live.as_ref().map(|live| live.0.contains_key(&at.0)),
        }
    }

    fn data(&self, at: PageAddr, page: &[u8], spare: &[u8]) -> DataPage {
        let owner = self.live.as_ref().map(|live| live.0.get(&at.0));
        let tag = data_tag(page, spare);
        DataPage {
            kind: match tag {
                Some(tag) if tag.intact => "data",
                // Without spare bytes only the inode that refers to it knows.
                None if owner.flatten().is_some_and(|o| o.0 == Area::Data) => "data",
                _ => "unknown",
            },
            ino: tag.map(|t| t.ino).or(owner.flatten().map(|o| o.1)),
            index: tag.map(|t| t.index),
            found_by: tag.map(|t| (t.dir, t.hash, t.seq)),
            live: owner.map(|o| o.is_some()),
        }
    }
}

impl Anchors {
    fn note(&mut self, at: PageAddr, header: &Header, record: &Record<'_>, block: u32) {
        self.records += 1;
        let newer = |than: Option<(u64, PageAddr)>| than.is_none_or(|t| header.seq > t.0);
        match record {
            Record::Root(root) if newer(self.root) => {
                self.root = Some((header.seq, at));
                self.second_block = root.second;
            }
            Record::Second { .. } if newer(self.second.get(&block).copied()) => {
                self.second.insert(block, (header.seq, at));
            }
            Record::Checkpoint(checkpoint) if newer(self.checkpoint) => {
                self.checkpoint = Some((header.seq, at));
                self.snapshot = checkpoint.snapshot_pages().collect();
            }
            _ => {}
        }
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Root => "root",
        Kind::Second => "second level",
        Kind::Checkpoint => "checkpoint",
        Kind::Alloc => "allocation",
        Kind::Snapshot => "snapshot",
        Kind::DirMap => "directory map",
        Kind::Dir => "directory",
        Kind::HashMap => "hash map",
        Kind::HashIndex => "hash index",
        Kind::File => "file",
        Kind::ExtentMap => "extent map",
        Kind::ExtentIndex => "extent index",
        Kind::Names => "names",
        Kind::Table => "block table",
        Kind::Validity => "valid pages",
        Kind::Attributes => "attributes",
        Kind::Places => "directory map places",
    }
}

/// Header and fields of a record.
fn told(header: &Header, live: Option<bool>, fields: &Value) -> Value {
    let mut told = json!({
        "kind": kind(header.kind),
        "live": live,
        "seq": header.seq,
        "bytes": header.len,
    });
    if header.prev.is_some() {
        told["replaces"] = json!(header.prev.0);
    }
    if let (Value::Object(told), Value::Object(fields)) = (&mut told, fields) {
        told.extend(fields.clone());
    }
    told
}

/// Puts the place before all else.
fn placed(at: PageAddr, geometry: &Geometry, told: Value) -> Map<String, Value> {
    let mut all = Map::new();
    all.insert("page".into(), at.0.into());
    all.insert("block".into(), geometry.block_of(at).0.into());
    if let Value::Object(told) = told {
        all.extend(told);
    }
    all
}

/// A page that is no metadata.
struct DataPage {
    kind: &'static str,
    ino: Option<u32>,
    index: Option<u32>,
    /// Directory and hash that its file was found by, and the sequence.
    found_by: Option<(u32, u32, u32)>,
    live: Option<bool>,
}

impl DataPage {
    fn told(&self) -> Value {
        let mut told = json!({
            "kind": self.kind,
            "live": self.live,
            "ino": self.ino,
            "index": self.index,
        });
        if let Some((dir, hash, seq)) = self.found_by {
            told["dir"] = dir.into();
            told["hash"] = hash.into();
            told["tag_seq"] = seq.into();
        }
        told
    }
}

/// The data pages of a block, as runs of one file's.
#[derive(Default)]
struct Runs {
    first: Option<PageAddr>,
    pages: u32,
    live: u32,
    runs: Vec<Run>,
}

struct Run {
    page: u32,
    count: u32,
    kind: &'static str,
    ino: Option<u32>,
    index: Option<u32>,
    live: Option<bool>,
}

/// Whether a page of that index goes on where a run ends. Bytes that are no tag of ours may say
/// anything.
fn follows(run: &Run, index: Option<u32>) -> bool {
    match (run.index, index) {
        (Some(first), Some(index)) => first.checked_add(run.count) == Some(index),
        (first, index) => first == index,
    }
}

impl Runs {
    fn add(&mut self, at: PageAddr, data: &DataPage) {
        self.first.get_or_insert(at);
        self.pages += 1;
        self.live += u32::from(data.live == Some(true));
        if let Some(run) = self.runs.last_mut()
            && (run.kind, run.ino, run.live) == (data.kind, data.ino, data.live)
            && run.page + run.count == at.0
            && follows(run, data.index)
        {
            run.count += 1;
            return;
        }
        self.runs.push(Run {
            page: at.0,
            count: 1,
            kind: data.kind,
            ino: data.ino,
            index: data.index,
            live: data.live,
        });
    }

    fn told(&self) -> Option<(PageAddr, Value)> {
        let runs: Vec<Value> = self
            .runs
            .iter()
            .map(|run| {
                let mut told = json!({
                    "page": run.page,
                    "count": run.count,
                    "ino": run.ino,
                    "index": run.index,
                    "live": run.live,
                });
                if run.kind != "data" {
                    told["kind"] = run.kind.into();
                }
                told
            })
            .collect();
        let told = json!({
            "kind": "data",
            "pages": self.pages,
            "live_pages": self.live,
            "runs": runs,
        });
        self.first.map(|first| (first, told))
    }
}
