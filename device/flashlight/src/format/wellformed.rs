//! What a metadata page must be like beyond its checksum, so that nobody who reads one need ask: a
//! checksum says that a page is as it was written, not who has written it.
//!
//! A page that is not so is no page ([`crate::space::store::Store::read_meta`]). What holds
//! of every page that is one:
//! * lists end within the bytes that the checksum covers, and are sorted;
//! * pages and blocks named are on the chip, numbers are of the kind that their place asks for;
//! * extents do not overlap, names are names, a size is one that a file can have.
//!
//! What one page says of another is checked where the two meet.

use crate::format::area::LogArea;
use crate::format::attributes::Attributes;
use crate::format::blockstate::{BlockState, Entries};
use crate::format::checkpoint::{self, CheckpointView};
use crate::format::dirrec::{self, DirRec, NO_HASH, RecState, Target};
use crate::format::extent::{
    self, Extent, FREED_MAP, FREED_RUN, INDEX_END, REMOVED, REPLACED_MAP, REPLACED_PAGE,
};
use crate::format::header::{self, HEADER, Header, Kind};
use crate::format::inode::{
    AnyView, DirView, FLAG_INDIRECT, FileView, MODE_DIR, MODE_FILE, MODE_SYMLINK, MODE_TYPE,
    NAME_MAX,
};
use crate::format::limits::{RESERVES, ROOT_BLOCKS};
use crate::format::mappage::{self, MapPage};
use crate::format::names::{self, Item};
use crate::format::node::{FIRST_FILE, INDEX_DIR, ROOT_DIR};
use crate::format::snapshot::Piece;
use crate::format::special::Special;
use crate::format::{table_page, validity};
use flashkit_bytes::{get_u16, get_u32};
use flashkit_nand::{Geometry, PageAddr};

/// Blocks that have a number on flash, of 16 bits.
const BLOCKS_MAX: u32 = 65_535;

/// Blocks of a chip that are used.
pub(crate) const fn blocks(geo: &Geometry) -> u32 {
    if geo.blocks() > BLOCKS_MAX {
        BLOCKS_MAX
    } else {
        geo.blocks()
    }
}

/// Whether this is a name that an entry may have.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= NAME_MAX
        && has_none(name, b'/')
        && name != b"."
        && name != b".."
}

/// Whether no byte is 0, nor that one. A loop is shorter code than two searches.
pub(crate) fn has_none(name: &[u8], other: u8) -> bool {
    !name.iter().any(|&byte| byte == 0 || byte == other)
}

/// Whether a sealed page, about to be written at `at`, will be believed.
pub(crate) fn is_believed(geo: &Geometry, page: &[u8], at: PageAddr) -> bool {
    header::parse(page, at).is_ok_and(|header| is_well_formed(geo, page, &header))
}

/// Whether the page of this header is well-formed. `page` is at least what is in use of it.
pub(crate) fn is_well_formed(geo: &Geometry, page: &[u8], header: &Header) -> bool {
    let chip = Chip::of(geo);
    let used = header.len;
    match header.kind {
        Kind::Root => used >= HEADER + 32 && chip.root(page, geo.pages_per_block()),
        Kind::Second => used >= HEADER + 4,
        // Its lists are checked when it is unpacked.
        Kind::Checkpoint => used >= checkpoint::FIELDS && CheckpointView::on(page).flags_agree(),
        Kind::Alloc => used >= HEADER + 4 && chip.alloc(page, used),
        Kind::Snapshot => Piece::on(geo, page, used).is_some_and(|piece| piece.is_sane(geo)),
        Kind::DirMap | Kind::Places => {
            used == page.len() && page[HEADER..].chunks_exact(4).all(|e| chip.may_be(e, 0))
        }
        Kind::Dir => {
            let view = DirView::on(page);
            view.is_sane() && view.len() <= used && chip.dir(&view)
        }
        Kind::File => {
            let view = FileView::on(page);
            view.is_sane() && view.len() <= used && chip.file(&view)
        }
        Kind::HashMap => chip.hash_map(page, used),
        Kind::ExtentMap => chip.extent_map(page, used),
        Kind::HashIndex => {
            chip.index(page, used, NO_HASH) && MapPage::<_, 8>::on(page).waiting() == 0
        }
        Kind::ExtentIndex => chip.index(page, used, INDEX_END) && chip.waiting(page),
        Kind::Names => Chip::names_page(page, used),
        Kind::Attributes => Chip::attributes(page, used),
        Kind::Table => used >= table_page::ENTRIES && is_table_page(geo, page, used),
        Kind::Validity => validity::is_well_formed(geo, page, used),
    }
}

/// Whether a record is one that the log of a directory may have.
pub(crate) fn is_entry(geo: &Geometry, rec: &DirRec) -> bool {
    Chip::of(geo).entry(rec)
}

/// Whether a page of the block table has as many entries as it says, and no block
/// more valid pages than pages.
fn is_table_page(geo: &Geometry, page: &[u8], used: usize) -> bool {
    let (entries, most) = (Entries::of(geo.pages_per_block()), geo.pages_per_block());
    let count = usize::from(get_u16(page, HEADER + 2));
    used == table_page::ENTRIES + count * entries.size()
        && (0..count).all(|i| {
            let state = entries.get(&page[table_page::ENTRIES..], i);
            !matches!(state, BlockState::Meta(n) | BlockState::Data(n) if n > most)
        })
}

/// What there is to point to.
struct Chip {
    pages: u32,
    blocks: u32,
    page_size: u32,
}

fn is_dir(number: u32) -> bool {
    (1..FIRST_FILE).contains(&number)
}

impl Chip {
    fn of(geo: &Geometry) -> Chip {
        Chip {
            pages: blocks(geo) * geo.pages_per_block(),
            blocks: blocks(geo),
            page_size: geo.page_size(),
        }
    }

    fn has(&self, page: u32) -> bool {
        page < self.pages
    }

    /// Whether the word at `at` is a page or none.
    fn may_be(&self, b: &[u8], at: usize) -> bool {
        let page = get_u32(b, at);
        page == u32::MAX || self.has(page)
    }

    fn has_run(&self, page: u32, count: u32) -> bool {
        count > 0 && page.checked_add(count).is_some_and(|end| end <= self.pages)
    }

    /// Whether the second-level block is one, and the blocks kept for roots are the first, this
    /// page's among them. That the shape is the chip's is another question.
    fn root(&self, page: &[u8], pages_per_block: u32) -> bool {
        let last_root = get_u32(page, HEADER + 20);
        last_root < self.blocks.min(ROOT_BLOCKS)
            && get_u32(page, 16) / pages_per_block <= last_root
            && get_u32(page, HEADER + 16) < self.blocks
    }

    fn alloc(&self, page: &[u8], used: usize) -> bool {
        let count = usize::from(get_u16(page, HEADER));
        count <= RESERVES
            && HEADER + 4 + 4 * count <= used
            && page[HEADER + 4..][..4 * count]
                .chunks_exact(4)
                .all(|r| u32::from(get_u16(r, 0)) < self.blocks && r[2] <= LogArea::Update as u8)
    }

    /// What the inodes of directories and of files have in common. Keys of
    /// their maps are below `limit`.
    fn inode(&self, view: &AnyView<'_>, limit: u32) -> bool {
        let (pointers, xattr) = (view.pointers(), view.xattr());
        (xattr.is_none() || self.has(xattr.0))
            && self.pointers(pointers, &|p| view.pointer(p), limit)
    }

    /// Whether so many pointers lead to pages, their keys in order and below `limit`.
    fn pointers(&self, n: usize, pointer: &dyn Fn(usize) -> (u32, PageAddr), limit: u32) -> bool {
        let mut least = 0;
        for p in 0..n {
            let (key, page) = pointer(p);
            if !self.has(page.0) || key >= limit || key < least {
                return false;
            }
            least = key + 1;
        }
        true
    }

    fn dir(&self, view: &DirView<'_>) -> bool {
        let (ino, n) = (view.ino(), view.records());
        let is_placed = match ino {
            ROOT_DIR | INDEX_DIR => view.name().is_empty() && view.parent() == ROOT_DIR,
            _ => {
                let (parent, name) = (view.parent(), view.name());
                is_dir(ino) && is_dir(parent) && parent != ino && is_name(name)
            }
        };
        let record = |r| DirRec::decode(view.record(r));
        is_placed && view.mode() & MODE_TYPE == MODE_DIR && self.inode(&view.any(), NO_HASH) && {
            let mut least = 0;
            (0..n).map(record).all(|rec| {
                let is_behind = rec.hash >= least;
                least = rec.hash;
                is_behind && self.entry(&rec)
            })
        }
    }

    fn entry(&self, rec: &DirRec) -> bool {
        let is_freed = rec.state == RecState::Freed;
        let leads = match rec.target {
            Target::File | Target::Orphan => {
                self.has(rec.ptr)
                    || (rec.ptr == u32::MAX
                        && !matches!(rec.state, RecState::Freed | RecState::Gone))
            }
            // No name leads to the root or to the index directory.
            Target::Dir => is_dir(rec.ptr) && rec.ptr > INDEX_DIR,
            Target::Indirect => rec.ptr >= FIRST_FILE,
        };
        leads && is_freed == (rec.hash == NO_HASH)
    }

    fn file(&self, view: &FileView<'_>) -> bool {
        let n = view.records();
        let size_max = u64::from(INDEX_END) * u64::from(self.page_size);
        let record = |r| Extent::decode(view.record(r));
        view.ino() >= FIRST_FILE
            && view.mode() & MODE_TYPE != MODE_DIR
            && self.inode(&view.any(), INDEX_END)
            && self.names(view)
            && match Special::of(view.mode(), view.size()) {
                None => {
                    matches!(view.mode() & MODE_TYPE, MODE_FILE | MODE_SYMLINK)
                        && view.size() <= size_max
                }
                // No data, and of notes only those of what was freed.
                Some(special) => {
                    view.size() == u64::from(special.device())
                        && view.pointers() == 0
                        && view.fragment().is_none()
                        && (0..n).all(|r| !record(r).is_mapping())
                }
            }
            && view
                .fragment()
                .is_none_or(|f| f.page < INDEX_END && f.off + f.len <= self.page_size as usize)
            && self.extents(view.record_bytes(), true)
    }

    /// A file's names: its own, or none of a file that is found by its number; and the
    /// further ones of such a file.
    fn names(&self, view: &FileView<'_>) -> bool {
        let pages = || view.names().pages().map(|(_, page)| page);
        let has_own = if view.name().is_empty() {
            view.parent() == 0 && view.flags() & FLAG_INDIRECT != 0
        } else {
            is_dir(view.parent()) && is_name(view.name())
        };
        has_own
            && (view.flags() & FLAG_INDIRECT != 0 || (view.names_len() == 0 && view.nlink() == 1))
            && view.names_len() <= names::names_max(self.page_size as usize)
            && view.names().iter().all(|(_, item)| match item {
                Item::Page(page) => self.has(page.0),
                name => is_further_name(&name),
            })
            && pages().all(|page| pages().filter(|other| *other == page).count() == 1)
    }

    fn names_page(page: &[u8], used: usize) -> bool {
        let view = MapPage::<_, 1>::on(page);
        Self::map(&view, used)
            && view.owner().ino >= FIRST_FILE
            && (view.first_key(), view.end_key()) == (0, 0)
            && names::page_names(page).are_sane()
            && names::page_names(page)
                .iter()
                .all(|(_, item)| is_further_name(&item))
    }

    fn attributes(page: &[u8], used: usize) -> bool {
        let view = MapPage::<_, 1>::on(page);
        Self::map(&view, used)
            && view.owner().ino > 0
            && (view.first_key(), view.end_key()) == (0, 0)
            && Attributes::on(page).are_sane()
    }

    /// A record of a file's log: an extent, or a note of what is free.
    fn log_record(&self, e: &Extent) -> bool {
        match e.index {
            FREED_RUN => self.has_run(e.page, e.count) && !e.masks,
            FREED_MAP | REMOVED => self.has(e.page) && !e.masks,
            REPLACED_MAP | REPLACED_PAGE => self.has(e.page) && self.has(e.count) && !e.masks,
            _ => self.extent(e),
        }
    }

    fn extent(&self, e: &Extent) -> bool {
        let end = e.index.checked_add(e.count);
        end.is_some_and(|end| end <= INDEX_END) && self.has_run(e.page, e.count)
    }

    /// Whether these are extents, or with `notes` what else a log may have; in their order; and
    /// there are as many pages on the chip as they map, and as runs are noted as free.
    fn extents(&self, bytes: &[u8], notes: bool) -> bool {
        let (mut mapped, mut freed, mut least) = (0u32, 0u32, 0);
        for e in bytes.chunks_exact(extent::SIZE).map(Extent::decode) {
            let is_one = match notes {
                true => self.log_record(&e),
                false => self.extent(&e),
            };
            if !is_one || e.index < least {
                return false;
            }
            // Extents are apart, notes of what is free are ordered by their kind.
            least = e.index;
            if e.is_mapping() {
                least = e.end();
                mapped = mapped.saturating_add(e.count);
            }
            if e.index == FREED_RUN {
                freed = freed.saturating_add(e.count);
            }
        }
        mapped <= self.pages && freed <= self.pages
    }

    /// Whether the extents of a map are such, and of the keys from `first` to `end`.
    fn extents_of_keys(&self, bytes: &[u8], first: u32, end: u32) -> bool {
        let last = bytes.len().saturating_sub(extent::SIZE);
        self.extents(bytes, false)
            && (bytes.is_empty()
                || (get_u32(bytes, 0) >= first && Extent::decode(&bytes[last..]).end() <= end))
    }

    /// What all maps and index pages have in common.
    fn map<const REC: usize>(view: &MapPage<&[u8], REC>, used: usize) -> bool {
        view.is_sane()
            && (REC == 8 || view.waiting() == 0)
            && view.len() <= used
            && used >= mappage::RECORDS
    }

    fn hash_map(&self, page: &[u8], used: usize) -> bool {
        let view = MapPage::<_, { dirrec::SIZE }>::on(page);
        let (first, end) = (view.first_key(), view.end_key());
        let record = |r| DirRec::decode(view.record(r));
        // Entries of one hash differ in what they lead to.
        let follows = |r: usize, rec: &DirRec| {
            let mut before = (0..r).rev().map(record).take_while(|b| b.hash >= rec.hash);
            before.all(|b| b.hash == rec.hash && !b.same_entry(rec))
        };
        Self::map(&view, used)
            && view.waiting() == 0
            && is_dir(view.owner().ino)
            && first < end
            && end <= NO_HASH
            && (0..view.count()).all(|r| {
                let rec = record(r);
                (first..end).contains(&rec.hash)
                    && follows(r, &rec)
                    && self.entry(&rec)
                    && rec.state == RecState::New
                    && rec.ptr != u32::MAX
            })
    }

    fn extent_map(&self, page: &[u8], used: usize) -> bool {
        let view = MapPage::<_, { extent::SIZE }>::on(page);
        let (first, end) = (view.first_key(), view.end_key());
        Self::map(&view, used)
            && view.owner().ino >= FIRST_FILE
            && first < end
            && end <= INDEX_END
            && self.extents_of_keys(view.into_extents().bytes(), first, end)
    }

    /// Of an index page that is one: what waits there belongs to one map each.
    fn waiting(&self, page: &[u8]) -> bool {
        let view = MapPage::<_, 8>::on(page);
        let n = view.waiting();
        let (first, end) = (view.first_key(), view.end_key().min(INDEX_END));
        let of_one = |e: Extent| view.pointer_for(e.index) == view.pointer_for(e.end() - 1);
        let waiting = MapPage::<_, 8>::on(page).into_extents();
        self.extents_of_keys(waiting.bytes(), first, end) && (0..n).all(|r| of_one(view.extent(r)))
    }

    /// An index page of maps whose keys are below `limit`.
    fn index(&self, page: &[u8], used: usize, limit: u32) -> bool {
        let view = MapPage::<_, 8>::on(page);
        let n = view.count();
        Self::map(&view, used)
            && n > 0
            && view.pointer(0).0 >= view.first_key()
            && self.pointers(n, &|p| view.pointer(p), limit)
    }
}

fn is_further_name(item: &Item<'_>) -> bool {
    matches!(item, Item::Name { dir, name } if is_dir(*dir) && is_name(name))
}

#[cfg(test)]
mod tests;
