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
use crate::format::dirrec::{self, DirRec, NO_HASH, RecState, Target};
use crate::format::extent::{
    self, Extent, FREED_MAP, FREED_RUN, INDEX_END, REMOVED, REPLACED_MAP, REPLACED_PAGE,
};
use crate::format::header::{self, HEADER, Header, Kind};
use crate::format::inode::{
    DirView, FLAG_INDIRECT, FileView, Inode, MODE_DIR, MODE_FILE, MODE_SYMLINK, MODE_TYPE, NAME_MAX,
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
        && !name.contains(&b'/')
        && !name.contains(&0)
        && name != b"."
        && name != b".."
}

/// Whether a sealed page, about to be written at `at`, will be believed.
pub(crate) fn is_believed(geo: &Geometry, page: &[u8], at: PageAddr) -> bool {
    header::parse(page, at).is_ok_and(|header| is_well_formed(geo, page, &header))
}

/// Whether the page of this header is well-formed. `page` is at least what is in use of it.
pub(crate) fn is_well_formed(geo: &Geometry, page: &[u8], header: &Header) -> bool {
    let chip = Chip {
        pages: blocks(geo) * geo.pages_per_block(),
        blocks: blocks(geo),
        page_size: geo.page_size(),
    };
    let used = header.len;
    match header.kind {
        Kind::Root => used >= HEADER + 32 && chip.root(page, geo.pages_per_block()),
        Kind::Second => used >= HEADER + 4,
        // Its lists are checked when it is unpacked.
        Kind::Checkpoint => {
            used >= crate::format::leaf::FIELDS && crate::format::leaf::flags_agree(page)
        }
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
    fn inode<const REC: usize>(&self, view: &Inode<&[u8], REC>, limit: u32) -> bool {
        let (pointers, xattr) = (view.pointers(), view.xattr());
        (xattr.is_none() || self.has(xattr.0))
            && self.pointers(pointers, |p| view.pointer(p), limit)
    }

    /// Whether so many pointers lead to pages, their keys in order and below `limit`.
    fn pointers(&self, n: usize, pointer: impl Fn(usize) -> (u32, PageAddr), limit: u32) -> bool {
        (0..n).all(|p| self.has(pointer(p).1.0) && pointer(p).0 < limit)
            && (1..n).all(|p| pointer(p - 1).0 < pointer(p).0)
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
        self.inode(view, NO_HASH)
            && is_placed
            && view.mode() & MODE_TYPE == MODE_DIR
            && (0..n).all(|r| self.entry(&record(r)))
            && (1..n).all(|r| record(r - 1).hash <= record(r).hash)
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
        self.inode(view, INDEX_END)
            && view.ino() >= FIRST_FILE
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
            && (0..n).all(|r| self.log_record(&record(r)))
            && (1..n).all(|r| follows(&record(r - 1), &record(r)))
            && self.fits((0..n).map(record))
            && self.frees_once((0..n).map(record))
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
            && pages()
                .enumerate()
                .all(|(n, page)| pages().take(n).all(|before| before != page))
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

    /// Whether there are as many pages on the chip as extents map.
    fn fits(&self, extents: impl Iterator<Item = Extent>) -> bool {
        let mapped = extents
            .filter(Extent::is_mapping)
            .try_fold(0u32, |sum, e| sum.checked_add(e.count));
        mapped.is_some_and(|pages| pages <= self.pages)
    }

    /// Whether there are as many pages on the chip as runs are noted as free.
    fn frees_once(&self, records: impl Iterator<Item = Extent>) -> bool {
        let freed = records
            .filter(|e| e.index == FREED_RUN)
            .try_fold(0u32, |sum, e| sum.checked_add(e.count));
        freed.is_some_and(|pages| pages <= self.pages)
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
        let (n, first, end) = (view.count(), view.first_key(), view.end_key());
        let record = |r| Extent::decode(view.record(r));
        Self::map(&view, used)
            && view.owner().ino >= FIRST_FILE
            && first < end
            && end <= INDEX_END
            && (0..n).map(record).all(|e| self.extent(&e))
            && (1..n).all(|r| follows(&record(r - 1), &record(r)))
            && self.fits((0..n).map(record))
            && (n == 0 || (record(0).index >= first && record(n - 1).end() <= end))
    }

    /// Of an index page that is one: what waits there belongs to one map each.
    fn waiting(&self, page: &[u8]) -> bool {
        let view = MapPage::<_, 8>::on(page);
        let n = view.waiting();
        let (first, end) = (view.first_key(), view.end_key().min(INDEX_END));
        let record = |r| view.extent(r);
        let of_one = |e: Extent| view.pointer_for(e.index) == view.pointer_for(e.end() - 1);
        (0..n).map(record).all(|e| self.extent(&e) && of_one(e))
            && (1..n).all(|r| follows(&record(r - 1), &record(r)))
            && self.fits((0..n).map(record))
            && (n == 0 || (record(0).index >= first && record(n - 1).end() <= end))
    }

    /// An index page of maps whose keys are below `limit`.
    fn index(&self, page: &[u8], used: usize, limit: u32) -> bool {
        let view = MapPage::<_, 8>::on(page);
        let n = view.count();
        Self::map(&view, used)
            && n > 0
            && view.pointer(0).0 >= view.first_key()
            && self.pointers(n, |p| view.pointer(p), limit)
    }
}

fn is_further_name(item: &Item<'_>) -> bool {
    matches!(item, Item::Name { dir, name } if is_dir(*dir) && is_name(name))
}

/// Whether one record may stand behind another: extents in order and apart, notes of what is free
/// by their kind.
fn follows(before: &Extent, e: &Extent) -> bool {
    if before.is_mapping() {
        before.end() <= e.index
    } else {
        before.index <= e.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::inode::{DirMut, FileMut};
    use crate::format::inode::{MODE_CHAR, MODE_FIFO};
    use flashkit_bytes::{put_u16, put_u32};
    use std::vec::Vec;

    const PAGE: usize = 1024;
    /// What is done to a page.
    type Change<'c> = &'c dyn Fn(&mut [u8]);
    /// Pages of the chip.
    const PAGES: u32 = 100 * 8;

    fn geometry() -> Geometry {
        Geometry::new(PAGE as u32, 24, 8, 100).unwrap()
    }

    /// Whether a page of this kind would be believed, of which so many bytes are in use.
    fn believed(kind: Kind, page: &[u8], used: usize) -> bool {
        let header = Header {
            kind,
            seq: 1,
            volume: 1,
            len: used,
            prev: PageAddr::NONE,
        };
        is_well_formed(&geometry(), page, &header)
    }

    fn extent(index: u32, page: u32, count: u32) -> [u8; 12] {
        Extent::new(index, page, count).encode()
    }

    fn entry(hash: u32, state: RecState, target: Target, ptr: u32) -> [u8; 8] {
        DirRec::new(hash, state, target, ptr).encode()
    }

    /// Demands that a page is believed as made, and not after any of the changes.
    fn demand(kind: Kind, good: &[u8], used: usize, changes: &[Change<'_>]) {
        assert!(believed(kind, good, used), "{kind:?}");
        assert!(!believed(kind, good, used - 1), "{kind:?}, one byte short");
        for (i, change) in changes.iter().enumerate() {
            let mut page = good.to_vec();
            change(&mut page);
            assert!(!believed(kind, &page, used), "{kind:?}, change {i}");
        }
    }

    #[test]
    fn special_files() {
        let mut page = vec![0; PAGE];
        let mut f = FileMut::on(&mut page[..]);
        f.init(FIRST_FILE, ROOT_DIR, MODE_CHAR | 0o644, b"null");
        f.set_size(0x0103);
        f.record_insert(0, &extent(FREED_RUN, 1, 2));
        let used = f.len();
        demand(
            Kind::File,
            &page,
            used,
            &[
                &|p| FileMut::on(p).set_size(1 << 32),
                &|p| FileMut::on(p).set_mode(MODE_FIFO),
                &|p| FileMut::on(p).set_mode(0x3000),
                &|p| FileMut::on(p).record_set(0, &extent(0, 1, 2)),
            ],
        );
    }

    #[test]
    fn files() {
        let mut page = vec![0; PAGE];
        let mut f = FileMut::on(&mut page[..]);
        f.init(FIRST_FILE, ROOT_DIR, MODE_FILE | 0o644, b"name");
        f.set_size(9_000);
        f.fragment_resize(8, 1_000, 24);
        f.pointer_insert(0, 0, PageAddr(5));
        f.pointer_insert(1, 50, PageAddr(PAGES - 1));
        f.set_levels(1);
        f.record_insert(0, &extent(0, 10, 3));
        f.record_insert(1, &extent(3, PAGES - 2, 2));
        f.record_insert(2, &extent(REPLACED_PAGE, 7, 8));
        f.record_insert(3, &extent(REMOVED, 7, 0));
        f.record_insert(4, &extent(REPLACED_MAP, 7, 8));
        f.record_insert(5, &extent(FREED_MAP, 7, 0));
        f.record_insert(6, &extent(FREED_RUN, 1, 2));
        f.record_insert(7, &extent(FREED_RUN, 0, 1));
        let used = f.len();
        let on = |page: &mut [u8], change: &dyn Fn(&mut FileMut<'_>)| {
            change(&mut FileMut::on(page));
        };
        let set =
            |r: usize, rec: [u8; 12]| move |page: &mut [u8]| on(page, &|f| f.record_set(r, &rec));
        demand(
            Kind::File,
            &page,
            used,
            &[
                &|p| put_u32(p, 32, FIRST_FILE - 1),
                &|p| put_u32(p, 36, 0),
                &|p| put_u32(p, 36, FIRST_FILE),
                &|p| on(p, &|f| f.set_nlink(2)),
                &|p| on(p, &|f| f.set_mode(MODE_DIR | 0o644)),
                &|p| on(p, &|f| f.set_mode(0o644)),
                &|p| p[132] = b'/',
                &|p| p[133] = 0,
                &|p| on(p, &|f| f.set_size(u64::MAX)),
                &|p| put_u16(p, 128, 1_001),
                &|p| put_u32(p, 124, INDEX_END),
                &|p| put_u16(p, 116, 9),
                &|p| put_u16(p, 116, u16::MAX),
                &|p| put_u16(p, 118, 3),
                &|p| on(p, &|f| f.set_levels(0)),
                &|p| on(p, &|f| f.set_levels(3)),
                &|p| on(p, &|f| f.pointer_set(0, 50, PageAddr(5))),
                &|p| on(p, &|f| f.pointer_set(1, INDEX_END, PageAddr(5))),
                &|p| on(p, &|f| f.pointer_set(1, 50, PageAddr(PAGES))),
                &|p| on(p, &|f| f.pointer_set(1, 50, PageAddr::NONE)),
                &set(0, extent(0, 10, 4)),
                &set(0, extent(0, 10, 0)),
                &set(0, extent(4, 10, 1)),
                &set(1, extent(3, PAGES - 1, 2)),
                &set(1, extent(3, 0, PAGES - 2)),
                &set(1, extent(INDEX_END - 1, 0, 2)),
                &set(1, extent(3, u32::MAX, 2)),
                &set(2, extent(REPLACED_PAGE, PAGES, 8)),
                &set(2, extent(REPLACED_PAGE, 7, PAGES)),
                &set(2, extent(REPLACED_PAGE - 1, 7, 8)),
                &set(3, extent(REMOVED, PAGES, 0)),
                &set(3, extent(REPLACED_PAGE - 1, 7, 0)),
                &set(4, extent(REPLACED_MAP, 7, PAGES)),
                &set(4, extent(REPLACED_PAGE - 1, 7, 8)),
                &set(5, extent(FREED_MAP, PAGES, 0)),
                &set(6, extent(REPLACED_MAP, 7, 8)),
                &set(6, extent(FREED_RUN, 1, PAGES)),
                // With what the other frees, more than there is.
                &set(6, extent(FREED_RUN, 0, PAGES)),
            ],
        );
    }

    /// A further name, as it is stored.
    fn name(dir: u32, name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; names::HEAD];
        names::put_head(&mut bytes, dir, name.len());
        bytes.extend(name);
        bytes
    }

    #[test]
    fn further_names() {
        let mut page = vec![0; PAGE];
        let mut f = FileMut::on(&mut page[..]);
        f.init(FIRST_FILE, ROOT_DIR, MODE_FILE | 0o644, b"");
        f.set_flags(FLAG_INDIRECT);
        f.set_parent(0);
        // What is inserted last stands first.
        f.names_insert(&name(3, b"b"));
        f.names_insert(&name(PAGES - 1, b""));
        f.names_insert(&name(ROOT_DIR, b"a"));
        let used = f.len();
        demand(
            Kind::File,
            &page,
            used,
            &[
                &|p| p[42] = 0,
                &|p| put_u32(p, 36, ROOT_DIR),
                &|p| put_u16(p, 130, 16),
                &|p| put_u16(p, 130, u16::MAX),
                &|p| put_u32(p, 132, 0),
                &|p| put_u32(p, 132, FIRST_FILE),
                &|p| p[137] = b'/',
                &|p| put_u32(p, 138, PAGES),
                &|p| put_u32(p, 138, u32::MAX),
                &|p| p[136] = 200,
            ],
        );
        let set = |names: &[&[u8]]| {
            let names = names.concat();
            move |page: &mut [u8]| {
                let mut f = FileMut::on(page);
                f.names_remove(0, f.names_len());
                f.names_insert(&names);
            }
        };
        let twice = set(&[&name(5, b""), &name(5, b"")]);
        let many = set(&[&name(3, &[b'n'; 60])]);
        for change in [twice, many] {
            change(&mut page);
            assert!(!believed(Kind::File, &page, PAGE));
        }
        set(&[&name(5, b""), &name(6, b"")])(&mut page);
        assert!(believed(Kind::File, &page, PAGE));
    }

    #[test]
    fn names_pages() {
        let bytes = [name(3, b"a"), name(ROOT_DIR, b"bc")].concat();
        let records: Vec<[u8; 1]> = bytes.iter().map(|byte| [*byte]).collect();
        let page = map(FIRST_FILE, (0, 0), &records);
        demand(
            Kind::Names,
            &page,
            56 + 13,
            &[
                &|p| put_u32(p, 32, 3),
                &|p| put_u32(p, 44, 1),
                &|p| put_u32(p, 48, 1),
                &|p| put_u16(p, 52, 12),
                &|p| put_u16(p, 52, u16::MAX),
                &|p| put_u32(p, 56, FIRST_FILE),
                &|p| p[60] = 0,
                &|p| p[61] = b'/',
            ],
        );
    }

    #[test]
    fn attributes() {
        let bytes = b"\x06\x02\0user.avv\x06\0\0user.b";
        let records: Vec<[u8; 1]> = bytes.iter().map(|byte| [*byte]).collect();
        let used = 56 + bytes.len();
        let page = map(3, (0, 0), &records);
        demand(
            Kind::Attributes,
            &page,
            used,
            &[
                &|p| put_u32(p, 32, 0),
                &|p| put_u32(p, 44, 1),
                &|p| put_u32(p, 48, 1),
                &|p| put_u16(p, 52, 0),
                &|p| put_u16(p, 52, 19),
                &|p| put_u16(p, 52, u16::MAX),
                // Without a name; of the other's name; longer than there is.
                &|p| p[56] = 0,
                &|p| p[75] = b'a',
                &|p| p[74] = 0,
                &|p| p[57] = 3,
                &|p| p[58] = 1,
            ],
        );
    }

    #[test]
    fn directories() {
        let mut page = vec![0; PAGE];
        let mut d = DirMut::on(&mut page[..]);
        d.init(3, ROOT_DIR, MODE_DIR | 0o755, b"name");
        let records = [
            entry(5, RecState::Delete, Target::File, 700),
            entry(5, RecState::New, Target::File, u32::MAX),
            entry(9, RecState::Update, Target::Dir, 4),
            entry(9, RecState::New, Target::Indirect, FIRST_FILE),
            entry(NO_HASH, RecState::Freed, Target::Orphan, 7),
            entry(NO_HASH, RecState::Freed, Target::Dir, 4),
        ];
        for (r, rec) in records.iter().enumerate() {
            d.record_insert(r, rec);
        }
        d.pointer_insert(0, 0, PageAddr(5));
        d.pointer_insert(1, 50, PageAddr(6));
        d.set_levels(1);
        let used = d.len();
        let set =
            |r: usize, rec: [u8; 8]| move |page: &mut [u8]| DirMut::on(page).record_set(r, &rec);
        demand(
            Kind::Dir,
            &page,
            used,
            &[
                &|p| put_u32(p, 32, 0),
                &|p| put_u32(p, 32, FIRST_FILE),
                &|p| put_u32(p, 36, 3),
                // The root has no name.
                &|p| put_u32(p, 32, ROOT_DIR),
                &|p| p[43] = 0,
                &|p| p[132..136].copy_from_slice(b"a/..".as_slice()),
                &|p| DirMut::on(p).set_mode(MODE_FILE),
                &|p| DirMut::on(p).pointer_set(1, NO_HASH, PageAddr(6)),
                &set(0, entry(6, RecState::Delete, Target::File, 700)),
                &set(0, entry(5, RecState::Delete, Target::File, PAGES)),
                &set(2, entry(9, RecState::Update, Target::Dir, ROOT_DIR)),
                &set(2, entry(9, RecState::Update, Target::Dir, INDEX_DIR)),
                &set(2, entry(9, RecState::Update, Target::Dir, FIRST_FILE)),
                &set(3, entry(9, RecState::New, Target::Indirect, 4)),
                &set(3, entry(NO_HASH, RecState::New, Target::File, 4)),
                &set(4, entry(9, RecState::Gone, Target::Orphan, u32::MAX)),
                &set(4, entry(NO_HASH, RecState::Freed, Target::File, u32::MAX)),
            ],
        );
        let mut root = vec![0; PAGE];
        DirMut::on(&mut root[..]).init(ROOT_DIR, ROOT_DIR, MODE_DIR, b"");
        demand(Kind::Dir, &root, 132, &[&|p| put_u32(p, 36, 3)]);
    }

    fn map<const REC: usize>(ino: u32, range: (u32, u32), records: &[[u8; REC]]) -> Vec<u8> {
        let mut page = vec![0xff; PAGE];
        let mut m: MapPage<_, REC> = MapPage(&mut page[..]);
        let owner = mappage::Owner {
            ino,
            dir: 1,
            hash: 2,
        };
        m.init(owner, range.0, range.1);
        for (i, rec) in records.iter().enumerate() {
            m.insert(i, rec);
        }
        page
    }

    #[test]
    fn maps() {
        let names = [
            entry(10, RecState::New, Target::File, 1),
            entry(19, RecState::New, Target::Dir, 5),
        ];
        let page = map(3, (10, 20), &names);
        let set =
            |r: usize, rec: [u8; 8]| move |page: &mut [u8]| MapPage::<_, 8>(page).set(r, &rec);
        demand(
            Kind::HashMap,
            &page,
            56 + 16,
            &[
                &|p| put_u32(p, 32, FIRST_FILE),
                &|p| put_u32(p, 44, 11),
                &|p| put_u32(p, 48, 19),
                &|p| put_u32(p, 48, NO_HASH + 1),
                &|p| put_u16(p, 52, 3),
                &|p| put_u16(p, 52, u16::MAX),
                &set(1, entry(10, RecState::New, Target::Orphan, 1)),
                &set(1, entry(19, RecState::Update, Target::Dir, 5)),
                &set(1, entry(19, RecState::New, Target::File, u32::MAX)),
            ],
        );
        let page = map(FIRST_FILE, (10, 20), &[extent(10, 5, 3), extent(13, 1, 7)]);
        let set =
            |r: usize, rec: [u8; 12]| move |page: &mut [u8]| MapPage::<_, 12>(page).set(r, &rec);
        demand(
            Kind::ExtentMap,
            &page,
            56 + 24,
            &[
                &|p| put_u32(p, 32, 3),
                &|p| put_u32(p, 44, 11),
                &|p| put_u32(p, 48, INDEX_END + 1),
                &set(0, extent(10, 5, 4)),
                &set(0, extent(9, 5, 3)),
                &set(1, extent(13, 1, 8)),
                &set(1, extent(FREED_RUN, 1, 1)),
                &set(1, extent(13, PAGES - 6, 7)),
            ],
        );
        let page = map::<8>(
            3,
            (10, 20),
            &[[10, 0, 0, 0, 1, 0, 0, 0], [11, 0, 0, 0, 2, 0, 0, 0]],
        );
        for (kind, limit) in [(Kind::HashIndex, NO_HASH), (Kind::ExtentIndex, INDEX_END)] {
            let changes: [Change<'_>; 5] = [
                &|p| put_u16(p, 52, 0),
                &|p| put_u32(p, 44, 11),
                &|p| put_u32(p, 56 + 8, 10),
                &|p| put_u32(p, 56 + 8, limit),
                &|p| put_u32(p, 56 + 12, PAGES),
            ];
            demand(kind, &page, 56 + 16, &changes);
        }
    }

    #[test]
    fn the_rest() {
        let mut page = vec![0xff; PAGE];
        put_u16(&mut page, 32, 2);
        put_u32(&mut page, 36, 99);
        put_u32(&mut page, 40, 7 << 16 | 98);
        demand(
            Kind::Alloc,
            &page,
            44,
            &[
                &|p| put_u16(p, 32, 3),
                &|p| put_u16(p, 32, u16::MAX),
                &|p| put_u32(p, 36, 100),
                &|p| put_u32(p, 40, 8 << 16),
            ],
        );
        let mut page = vec![0xff; PAGE];
        put_u32(&mut page, 500, PAGES - 1);
        for kind in [Kind::DirMap, Kind::Places] {
            demand(kind, &page, PAGE, &[&|p| put_u32(p, 500, PAGES)]);
        }
        let mut page = vec![0; PAGE];
        put_u32(&mut page, 48, 99);
        put_u32(&mut page, 52, 3);
        demand(
            Kind::Root,
            &page,
            64,
            &[&|p| put_u32(p, 48, 100), &|p| put_u32(p, 52, ROOT_BLOCKS)],
        );
        demand(Kind::Second, &page, 36, &[]);
        demand(Kind::Snapshot, &page, 36, &[]);
        // The table, the places of 64 pages of the DirInode map, nothing open.
        page[35..].fill(0);
        page[35] = 2;
        for (i, run) in [(100, 0xff), (256, 0xff), (4, 0)].into_iter().enumerate() {
            page[36 + 4 * i] = 255;
            put_u16(&mut page, 37 + 4 * i, run.0);
            page[39 + 4 * i] = run.1;
        }
        demand(
            Kind::Snapshot,
            &page,
            48,
            &[
                &|p| p[35] = 3,
                &|p| put_u16(p, 37, 0),
                &|p| put_u16(p, 37, u16::MAX),
                &|p| put_u16(p, 32, 1000),
                &|p| p[34] = 1,
                &|p| p[44] = 127,
            ],
        );
        page[32] = 3;
        demand(
            Kind::Checkpoint,
            &page,
            crate::format::leaf::FIELDS,
            &[&|p| p[32] = 2, &|p| p[32] |= 32],
        );
    }
}
