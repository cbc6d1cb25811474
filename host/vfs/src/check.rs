//! The check of a FlashLight volume: walks every structure and compares what it finds with the
//! block table and the dirty list, and the names of each file with its link count.

mod stranded;

use std::collections::{BTreeMap, BTreeSet};

use flashkit_flashlight::{Area, BlockState, FlashLight, Page, Visitor};
use flashkit_nand::{Nand, PageAddr};

/// How often a repair begins again while there is less to find each time.
const REPAIRS: usize = 8;

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The page, or the first of the block; none where no place can be given.
    pub page: Option<u32>,
    /// The inode concerned; 0: none.
    pub ino: u32,
    /// What is wrong.
    pub what: String,
}

/// What a check has seen.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Everything wrong.
    pub findings: Vec<Finding>,
    /// Directories.
    pub dirs: u64,
    /// Files and symbolic links.
    pub files: u64,
    /// Their names in directories.
    pub names: u64,
    /// Pages of file data in use.
    pub data_pages: u64,
    /// Metadata pages in use.
    pub meta_pages: u64,
}

struct Walk {
    /// What each page is that is in use.
    seen: Vec<Option<Area>>,
    links: BTreeMap<u32, Links>,
    names_unknown: bool,
    out: Checked,
}

/// Names of a file by the directories, and by its inode.
#[derive(Default)]
struct Links {
    found: u32,
    told: u32,
    page: Option<PageAddr>,
}

impl Walk {
    fn find(&mut self, page: PageAddr, ino: u32, what: impl Into<String>) {
        let page = (page.0 < self.pages()).then_some(page.0);
        self.out.findings.push(Finding {
            page,
            ino,
            what: what.into(),
        });
    }
    fn pages(&self) -> u32 {
        self.seen.len() as u32
    }
    fn is_seen(&self, page: u32) -> bool {
        self.seen[page as usize].is_some()
    }
}

impl Visitor for Walk {
    fn page(&mut self, page: Page) {
        match page.area {
            Area::Data => self.out.data_pages += 1,
            _ => self.out.meta_pages += 1,
        }
        match page.area {
            Area::Dir => self.out.dirs += 1,
            Area::File => self.out.files += 1,
            _ => {}
        }
        if page.page.0 >= self.pages() {
            self.find(
                page.page,
                page.ino,
                format!("page {} is not on the chip", page.page.0),
            );
        } else if self.is_seen(page.page.0) {
            self.find(page.page, page.ino, "page is in use twice");
        } else {
            self.seen[page.page.0 as usize] = Some(page.area);
        }
    }

    fn file(&mut self, page: PageAddr, ino: u32, nlink: u32) {
        let links = self.links.entry(ino).or_default();
        (links.told, links.page) = (nlink, Some(page));
    }

    fn name(&mut self, ino: u32) {
        self.links.entry(ino).or_default().found += 1;
        self.out.names += 1;
    }

    fn problem(&mut self, page: PageAddr, ino: u32, what: &'static str) {
        self.find(page, ino, what);
    }

    fn damaged(&mut self, page: PageAddr, ino: u32, what: &'static str) {
        // What cannot be read may hold names.
        self.names_unknown = true;
        self.find(page, ino, format!("damaged {what}"));
    }
}

/// Puts right what a check finds, where the rest of the volume says what it must be, and makes that
/// durable. What no directory leads to any more gets a name in `lost+found`. What another check
/// finds then cannot be repaired.
///
/// # Errors
/// The driver failed, there is no space for a change, or the volume cannot be walked at all.
pub fn repair<N: Nand>(fs: &mut FlashLight<'_, N>) -> Result<(), String> {
    let mut before = None;
    for _ in 0..REPAIRS {
        // Before the directory that they are in is given up, and what they have with it.
        stranded::adopt(fs)?;
        fs.repair().map_err(|e| e.to_string())?;
        let walk = walk(fs)?;
        fs.repair_counts(&|page| walk.seen[page.0 as usize])
            .map_err(|e| e.to_string())?;
        // What has gone may have been what something else rested on.
        let left = check(fs)?.findings;
        let left: BTreeSet<_> = left.into_iter().map(|f| (f.ino, f.what)).collect();
        if left.is_empty() || before.as_ref() == Some(&left) {
            break;
        }
        before = Some(left);
    }
    Ok(())
}

fn walk<N: Nand>(fs: &mut FlashLight<'_, N>) -> Result<Walk, String> {
    let mut walk = Walk {
        seen: vec![None; fs.nand().geometry().pages() as usize],
        links: BTreeMap::new(),
        names_unknown: false,
        out: Checked::default(),
    };
    fs.walk(&mut walk).map_err(|e| e.to_string())?;
    Ok(walk)
}

/// Whether a page in use may be in a block of that state.
fn is_for(state: BlockState, area: Area) -> bool {
    match state {
        BlockState::Data(_) => area == Area::Data,
        BlockState::Meta(_) => area != Area::Data,
        _ => false,
    }
}

/// What the block table says of a block.
fn shown(state: BlockState) -> String {
    match state {
        BlockState::Data(n) => format!("{n} of file data"),
        BlockState::Meta(n) => format!("{n} of metadata"),
        BlockState::System => "that it is of the system".into(),
        BlockState::Bad => "that it is bad".into(),
        BlockState::Dead | BlockState::Free | BlockState::Clean => "that it is free".into(),
    }
}

/// Checks a mounted volume. Writes what is dirty first; reads all metadata.
///
/// # Errors
/// The driver failed, or the volume cannot be walked at all.
pub fn check<N: Nand>(fs: &mut FlashLight<'_, N>) -> Result<Checked, String> {
    let geo = fs.nand().geometry();
    let mut walk = walk(fs)?;
    for (ino, links) in std::mem::take(&mut walk.links) {
        // Names that lead to no file are a finding of the walk.
        let differs = !walk.names_unknown && links.found != links.told;
        if let Some(page) = links.page.filter(|_| differs) {
            let text = format!(
                "the file has {} names, its link count is {}",
                links.found, links.told
            );
            walk.find(page, ino, text);
        }
    }
    let mut live = 0;
    for block in 0..geo.blocks() {
        let first = PageAddr(block * geo.pages_per_block());
        let pages = first.0..first.0 + geo.pages_per_block();
        let used = pages.clone().filter(|&p| walk.is_seen(p)).count() as u32;
        live += used;
        let state = fs.block_state(block);
        let counted = match state {
            BlockState::Meta(n) | BlockState::Data(n) => n,
            _ => 0,
        };
        if used != counted {
            let says = shown(state);
            let text =
                format!("block {block} has {used} pages in use, the block table says {says}");
            walk.find(first, 0, text);
        }
        let strange = |p: &u32| walk.seen[*p as usize].is_some_and(|area| !is_for(state, area));
        if used == counted
            && let Some(page) = pages.clone().find(strange)
        {
            let says = shown(state);
            let what = match walk.seen[page as usize] {
                Some(Area::Data) => "file data",
                _ => "metadata",
            };
            let text =
                format!("a page of {what} is in use in block {block}, the block table says {says}");
            walk.find(PageAddr(page), 0, text);
        }
        for page in pages {
            let listed = fs.listed_valid(PageAddr(page));
            if listed.is_some_and(|valid| valid != walk.is_seen(page)) {
                walk.find(PageAddr(page), 0, "the dirty list is wrong about this page");
            }
        }
    }
    if live != fs.live_pages() {
        let text = format!(
            "{live} pages are in use, the running count is {}",
            fs.live_pages()
        );
        walk.find(PageAddr::NONE, 0, text);
    }
    Ok(walk.out)
}
