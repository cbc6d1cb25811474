//! Pages of flash as the records they are, without a mounted volume: for dumps and the curious.
//!
//! [`inspect`] believes nothing but a checksum: whatever the bytes, it returns.

use crate::format::attributes::Attributes;
use crate::format::dirrec::{self, DirRec};
use crate::format::extent::{
    self, Extent, FREED_MAP, FREED_RUN, REMOVED, REPLACED_MAP, REPLACED_PAGE,
};
use crate::format::hash::name_hash;
use crate::format::header::{self, Bad, HEADER, Header, Kind};
use crate::format::inode::{
    DirView, FLAG_EXCHANGED, FLAG_INDIRECT, FLAG_KEPT, FLAG_ORPHAN, FileView, Inode, Stamp, Time,
};
use crate::format::mappage::MapPage;
use crate::format::names::{Item, Names};
use crate::format::tag::{self, Form, Tag};
use crate::format::validity::{self, entry_bits};
use flashkit_bytes::get_u32;
use flashkit_nand::{Geometry, PageAddr};

mod checkpoint;

pub use checkpoint::{Alloc, Checkpoint, LogHead, Reserved, Root, Snapshot, TablePage};

/// What a page holds.
pub enum Inspected<'a> {
    /// Nothing: it reads as erased.
    Erased,
    /// A metadata page.
    Record(Header, Record<'a>),
    /// A metadata page whose counts contradict each other.
    Malformed(Header),
    /// A metadata page of another format version.
    Version(u8),
    /// No metadata page: file data, or damaged.
    Other,
}

/// A metadata page's contents.
pub enum Record<'a> {
    /// The volume's geometry, and where the checkpoint's second level is.
    Root(Root),
    /// Where the leaf block is.
    Second {
        /// The block that checkpoints are written to.
        leaf: u32,
    },
    /// A checkpoint.
    Checkpoint(Checkpoint<'a>),
    /// Blocks taken since the checkpoint.
    Alloc(Alloc<'a>),
    /// A piece of the block table.
    Snapshot(Snapshot<'a>),
    /// A page of the DirInode map.
    DirMap(DirMapPage<'a>),
    /// Places of pages of the DirInode map.
    Places(DirMapPage<'a>),
    /// A directory.
    Dir(Dir<'a>),
    /// Entries of a directory.
    HashMap(Map<'a, { dirrec::SIZE }>),
    /// Where hash maps are.
    HashIndex(Map<'a, 8>),
    /// A file or symbolic link.
    File(File<'a>),
    /// Extents of a file.
    ExtentMap(Map<'a, { extent::SIZE }>),
    /// Where extent maps are.
    ExtentIndex(Map<'a, 8>),
    /// Further names of a file.
    Names(Map<'a, 1>),
    /// Extended attributes of an inode.
    Attributes(Map<'a, 1>),
    /// A page of a block table that lies on flash.
    Table(TablePage<'a>),
    /// Which pages of some blocks are valid.
    Validity(ValidityPage<'a>),
}

/// What a directory of a volume has in place of a name ([`NameEntry::hash`]). No flash operation.
pub fn hash_of_name(volume: u32, name: &[u8]) -> u32 {
    name_hash(volume, name)
}

/// Reads a whole page, read from `at`, as what it is.
pub fn inspect<'a>(geometry: &Geometry, page: &'a [u8], at: PageAddr) -> Inspected<'a> {
    if page.iter().all(|&b| b == 0xff) {
        return Inspected::Erased;
    }
    if page.len() != geometry.page_size() as usize {
        return Inspected::Other;
    }
    match header::parse(page, at) {
        Err(Bad::Version(version)) => Inspected::Version(version),
        Err(Bad::Invalid) => Inspected::Other,
        Ok(header) => match record(geometry, page, &header) {
            Some(record) => Inspected::Record(header, record),
            None => Inspected::Malformed(header),
        },
    }
}

fn record<'a>(geometry: &Geometry, page: &'a [u8], header: &Header) -> Option<Record<'a>> {
    let used = header.len;
    Some(match header.kind {
        Kind::Root => Record::Root(Root {
            page_size: get_u32(page, 32),
            spare_size: get_u32(page, 36),
            pages_per_block: get_u32(page, 40),
            blocks: get_u32(page, 44),
            second: get_u32(page, 48),
            last_root: get_u32(page, 52),
            round: get_u32(page, 56),
            good: get_u32(page, 60),
        }),
        Kind::Second => Record::Second {
            leaf: get_u32(page, 32),
        },
        Kind::Checkpoint => Record::Checkpoint(Checkpoint::on(geometry, page, used)?),
        Kind::Alloc => Record::Alloc(Alloc::on(page)?),
        Kind::Snapshot => Record::Snapshot(Snapshot::on(geometry, page, used)?),
        Kind::DirMap => Record::DirMap(DirMapPage(&page[HEADER..])),
        Kind::Places => Record::Places(DirMapPage(&page[HEADER..])),
        Kind::Dir => {
            let view = DirView::on(page);
            (view.is_sane() && view.len() <= used).then_some(Record::Dir(Dir(view)))?
        }
        Kind::File => {
            let view = FileView::on(page);
            (view.is_sane() && view.len() <= used).then_some(Record::File(File(view)))?
        }
        Kind::HashMap => Record::HashMap(Map::on(page)?),
        Kind::HashIndex => Record::HashIndex(Map::on(page)?),
        Kind::ExtentMap => Record::ExtentMap(Map::on(page)?),
        Kind::ExtentIndex => Record::ExtentIndex(Map::on(page)?),
        Kind::Names => {
            let map = Map::on(page)?;
            map.bytes().are_sane().then_some(Record::Names(map))?
        }
        Kind::Attributes => {
            let sane = Attributes::on(page).are_sane();
            sane.then_some(Record::Attributes(Map::on(page)?))?
        }
        Kind::Table => Record::Table(TablePage::on(geometry, page, used)?),
        Kind::Validity => Record::Validity(ValidityPage::on(geometry, page, used)?),
    })
}

/// What is known of the pages of a range of blocks; of use to the session that has written it only.
pub struct ValidityPage<'a> {
    first: u32,
    bits: &'a [u8],
    size: usize,
}

impl<'a> ValidityPage<'a> {
    fn on(geometry: &Geometry, page: &'a [u8], used: usize) -> Option<Self> {
        validity::is_well_formed(geometry, page, used).then(|| ValidityPage {
            first: get_u32(page, HEADER),
            bits: &page[validity::BITS..used],
            size: entry_bits(geometry.pages_per_block()),
        })
    }

    /// Blocks that have pages which are known to be invalid, and how many others.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let count = |bits: &[u8]| bits.iter().map(|b| b.count_ones()).sum();
        (self.first..)
            .zip(self.bits.chunks_exact(self.size))
            .filter(|(_, bits)| bits.iter().any(|&b| b != 0xff))
            .map(move |(block, bits)| (block, count(bits)))
    }
}

/// A page of the DirInode map, or a page of places of such.
pub struct DirMapPage<'a>(&'a [u8]);

impl DirMapPage<'_> {
    /// Directories, or pages of the map, by their position in this page, and their pages.
    pub fn dirs(&self) -> impl Iterator<Item = (u32, PageAddr)> + '_ {
        let entries = self
            .0
            .chunks_exact(4)
            .map(|entry| PageAddr(get_u32(entry, 0)));
        (0..).zip(entries).filter(|(_, page)| page.is_some())
    }
}

/// What the fields of an inode page say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct InodeFields<'a> {
    pub ino: u32,
    pub parent: u32,
    pub name: &'a [u8],
    /// With the type in the top four bits, as `stat` has it.
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    /// Bytes, or entries of a directory.
    pub size: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// Found through the index directory.
    pub indirect: bool,
    /// Has no name any more.
    pub orphan: bool,
    /// Directory and hash of the name that this page removes.
    pub moved_from: Option<(u32, u32)>,
    /// That name stays; from this page on its entry holds the file's number.
    pub kept: bool,
    /// Object whose life this page ends, or that goes on under the name that this page removes,
    /// when the two were `exchanged`.
    pub replaced: Option<(Target, u32)>,
    /// See `replaced`.
    pub exchanged: bool,
    /// Levels below the inode: 0 none, 1 maps, 2 index pages.
    pub levels: u8,
    /// Where its extended attributes are.
    pub attributes: Option<PageAddr>,
}

fn fields<'a, const REC: usize>(view: &'a Inode<&[u8], REC>) -> InodeFields<'a> {
    let moved = view.moved();
    InodeFields {
        ino: view.ino(),
        parent: view.parent(),
        name: view.name(),
        mode: view.mode(),
        uid: view.uid(),
        gid: view.gid(),
        nlink: view.nlink(),
        size: view.size(),
        atime: view.time(Stamp::Access),
        mtime: view.time(Stamp::Modify),
        ctime: view.time(Stamp::Change),
        indirect: view.flags() & FLAG_INDIRECT != 0,
        orphan: view.flags() & FLAG_ORPHAN != 0,
        moved_from: (moved.0 != 0).then_some(moved),
        kept: view.flags() & FLAG_KEPT != 0,
        replaced: view
            .replaced()
            .map(|(kind, ptr)| (Target::of(u32::from(kind)), ptr)),
        exchanged: view.flags() & FLAG_EXCHANGED != 0,
        levels: view.levels(),
        attributes: Some(view.xattr()).filter(|page| page.is_some()),
    }
}

/// What an entry's pointer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file's page.
    File,
    /// A directory's number.
    Dir,
    /// A file's number, found through the index directory.
    Indirect,
    /// The page of a file without a name; where something is freed: a map page.
    Orphan,
}

impl Target {
    fn of(kind: u32) -> Target {
        match kind & 3 {
            0 => Target::File,
            1 => Target::Dir,
            2 => Target::Indirect,
            _ => Target::Orphan,
        }
    }
}

/// State of an entry in a directory's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// A name.
    New,
    /// A name that hides the hash map's.
    Update,
    /// No name any more.
    Delete,
    /// No entry: an object whose life has ended.
    Freed,
    /// No name any more: that of several of its hash in the hash map that has this pointer.
    Gone,
}

/// A directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct NameEntry {
    /// Of the name; means nothing when something is freed.
    pub hash: u32,
    pub state: EntryState,
    pub target: Target,
    pub pointer: u32,
}

fn name_entry(b: &[u8]) -> NameEntry {
    let rec = DirRec::decode(b);
    NameEntry {
        hash: rec.hash,
        state: match rec.state {
            dirrec::RecState::New => EntryState::New,
            dirrec::RecState::Update => EntryState::Update,
            dirrec::RecState::Delete => EntryState::Delete,
            dirrec::RecState::Freed => EntryState::Freed,
            dirrec::RecState::Gone => EntryState::Gone,
        },
        target: Target::of(rec.target as u32),
        pointer: rec.ptr,
    }
}

/// A DirInode page.
pub struct Dir<'a>(DirView<'a>);

impl Dir<'_> {
    /// The fields.
    pub fn fields(&self) -> InodeFields<'_> {
        fields(&self.0)
    }
    /// Hash maps or index pages: first hash, and page.
    pub fn pointers(&self) -> impl Iterator<Item = (u32, PageAddr)> + '_ {
        (0..self.0.pointers()).map(|i| self.0.pointer(i))
    }
    /// The log.
    pub fn entries(&self) -> impl Iterator<Item = NameEntry> + '_ {
        (0..self.0.records()).map(|i| name_entry(self.0.record(i)))
    }
}

/// A record of a file's log, or of an extent map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FileEntry {
    /// A run of pages: first index in the file, first page on the chip, how many; and whether what
    /// the next page below says of it, and what the page replaced said, had been given back.
    Extent {
        index: u32,
        page: PageAddr,
        count: u32,
        masks: bool,
        covers: bool,
    },
    /// These pages are free since the page before.
    FreedRun { page: PageAddr, count: u32 },
    /// This extent map and all that it maps are free.
    FreedMap { page: PageAddr },
    /// What `old` maps and `new` does not is free, and `old` itself, if it says so.
    ReplacedMap {
        old: PageAddr,
        new: PageAddr,
        with_page: bool,
    },
    /// The file of this page was removed, before this one came, in the same directory.
    Removed { page: PageAddr },
}

fn file_entry(b: &[u8]) -> FileEntry {
    let e = Extent::decode(b);
    let (index, page, count) = (e.index, PageAddr(e.page), e.count);
    match index {
        FREED_RUN => FileEntry::FreedRun { page, count },
        FREED_MAP => FileEntry::FreedMap { page },
        REPLACED_MAP | REPLACED_PAGE => FileEntry::ReplacedMap {
            old: page,
            new: PageAddr(count),
            with_page: index == REPLACED_PAGE,
        },
        REMOVED => FileEntry::Removed { page },
        _ => FileEntry::Extent {
            index,
            page,
            count,
            masks: e.masks,
            covers: e.covers,
        },
    }
}

/// A FileInode page.
pub struct File<'a>(FileView<'a>);

/// A further name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileName<'a> {
    /// A name.
    Name {
        /// The directory that has it.
        dir: u32,
        /// The name.
        name: &'a [u8],
    },
    /// A page with more of them.
    Page(PageAddr),
}

fn file_names(names: Names<'_>) -> impl Iterator<Item = FileName<'_>> {
    names.iter().map(|(_, item)| match item {
        Item::Name { dir, name } => FileName::Name { dir, name },
        Item::Page(page) => FileName::Page(page),
    })
}

impl File<'_> {
    /// The fields.
    pub fn fields(&self) -> InodeFields<'_> {
        fields(&self.0)
    }
    /// Names beyond that of the fields.
    pub fn names(&self) -> impl Iterator<Item = FileName<'_>> + '_ {
        file_names(self.0.names())
    }
    /// The piece of file data in the page: index of its page in the file, offset there, bytes.
    pub fn fragment(&self) -> Option<(u32, usize, &[u8])> {
        let fragment = self.0.fragment()?;
        Some((fragment.page, fragment.off, self.0.fragment_bytes()))
    }
    /// Extent maps or index pages: first index in the file, and page.
    pub fn pointers(&self) -> impl Iterator<Item = (u32, PageAddr)> + '_ {
        (0..self.0.pointers()).map(|i| self.0.pointer(i))
    }
    /// The log.
    pub fn entries(&self) -> impl Iterator<Item = FileEntry> + '_ {
        (0..self.0.records()).map(|i| file_entry(self.0.record(i)))
    }
}

/// A hash map, an extent map, an index page of them, or a names page.
pub struct Map<'a, const REC: usize>(MapPage<&'a [u8], REC>);

impl<'a, const REC: usize> Map<'a, REC> {
    fn on(page: &'a [u8]) -> Option<Self> {
        let view = MapPage::on(page);
        view.is_sane().then_some(Map(view))
    }
    /// The inode it belongs to, with the directory and hash by which that was found.
    pub fn owner(&self) -> (u32, u32, u32) {
        let owner = self.0.owner();
        (owner.ino, owner.dir, owner.hash)
    }
    /// First key, and the key after the last (all ones: open).
    pub fn range(&self) -> (u32, u32) {
        (self.0.first_key(), self.0.end_key())
    }
    fn records(&self) -> impl Iterator<Item = &[u8]> + '_ {
        (0..self.0.count()).map(|i| self.0.record(i))
    }
}

impl Map<'_, 1> {
    fn bytes(&self) -> Names<'_> {
        crate::format::names::page_names(self.0.0)
    }
    /// Of a names page: its names.
    pub fn file_names(&self) -> impl Iterator<Item = FileName<'_>> + '_ {
        file_names(self.bytes())
    }
    /// Of a page of extended attributes: names and values.
    pub fn attributes(&self) -> impl Iterator<Item = (&[u8], &[u8])> + '_ {
        Attributes::on(self.0.0)
            .iter()
            .map(|(_, name, value)| (name, value))
    }
}

impl Map<'_, 8> {
    /// Of a hash map: its entries.
    pub fn names(&self) -> impl Iterator<Item = NameEntry> + '_ {
        self.records().map(name_entry)
    }
    /// Of an index page: first keys, and pages.
    pub fn pointers(&self) -> impl Iterator<Item = (u32, PageAddr)> + '_ {
        (0..self.0.count()).map(|i| self.0.pointer(i))
    }
    /// Of an index page of extent maps: extents that wait to be moved to them.
    pub fn waiting(&self) -> impl Iterator<Item = FileEntry> + '_ {
        (0..self.0.waiting()).map(|i| file_entry(&self.0.extent(i).encode()))
    }
}

impl Map<'_, { extent::SIZE }> {
    /// Of an extent map: its extents.
    pub fn extents(&self) -> impl Iterator<Item = FileEntry> + '_ {
        self.records().map(file_entry)
    }
}

/// Spare bytes that a chip must have for data pages to be tagged.
pub const TAG_SIZE: usize = tag::SIZE;

/// What the spare bytes of a data page say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataTag {
    /// The file.
    pub ino: u32,
    /// The directory that it was found by.
    pub dir: u32,
    /// The hash that it was found by.
    pub hash: u32,
    /// Index of the page in the file.
    pub index: u32,
    /// Low half of a sequence number.
    pub seq: u32,
    /// Whether page and tag are as they were written, but for one bit of the tag.
    pub intact: bool,
}

/// Reads the tag of a data page; `None` where there is none.
pub fn data_tag(page: &[u8], spare: &[u8]) -> Option<DataTag> {
    let read: &[u8; tag::SIZE] = spare.first_chunk()?;
    // Which form it has, it does not say; the page fits one of them, if any. One that it fits as it
    // is comes first: with a bit flipped, and any upper half of a number, one page in some millions
    // fits the other form as well.
    let forms = match spare.len() < tag::UPDATE_SIZE {
        true => [Form::Short, Form::Wide],
        false => [Form::Wide, Form::Short],
    };
    let read_as = |form| {
        let mut bytes = *read;
        let checked = Tag::check(form, &mut bytes, page, NUMBERS_MOST);
        Some((checked, Tag::decode(form, &bytes)?))
    };
    let (checked, tag) = forms
        .into_iter()
        .filter_map(read_as)
        .min_by_key(|(checked, _)| checked.map_or(2, |checked| u8::from(checked.mended)))?;
    let intact = checked.is_some();
    Some(DataTag {
        ino: tag.owner.ino,
        dir: tag.owner.dir,
        hash: tag.owner.hash,
        index: tag.index,
        seq: tag.seq,
        intact,
    })
}

/// More numbers than the chips whose tags have an upper half of them can take.
const NUMBERS_MOST: u64 = 1 << 35;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Else a check calls a sound page one of another file's.
    #[test]
    fn a_tag_is_not_taken_for_one_of_the_other_form_with_a_flipped_bit() {
        let owner = crate::format::mappage::Owner {
            ino: 1_048_578,
            dir: 3,
            hash: 17,
        };
        let (index, seq) = (31_906, 13_780);
        let written = Tag { owner, index, seq }.encode(Form::Wide, &[], seq.into());
        let mut bytes = written;
        let other = Tag::check(Form::Short, &mut bytes, &[], NUMBERS_MOST);
        assert!(other.is_some_and(|tag| tag.mended));
        for len in [tag::SIZE, tag::UPDATE_SIZE] {
            let mut spare = std::vec![0xff; len];
            spare[..tag::SIZE].copy_from_slice(&written);
            let read = data_tag(&[], &spare).unwrap();
            assert!(read.intact);
            assert_eq!((read.ino, read.index), (owner.ino, index));
        }
    }

    /// Reads all that a record has; gives how many entries it had.
    fn drain(record: &Record<'_>) -> usize {
        match record {
            Record::Root(_) | Record::Second { .. } => 1,
            Record::Checkpoint(c) => {
                let heads = c.heads().count() + c.bitmap_blocks().count();
                let table = c.table_pages().count() + c.table_changes().count();
                let lists = c.reserved().count() + c.snapshot_pages().count() + table;
                heads + lists + c.dirty_list().count()
            }
            Record::Alloc(a) => a.blocks().count(),
            Record::Snapshot(s) => {
                s.states().count()
                    + s.map_pages().count()
                    + s.partial_blocks().count()
                    + s.deferred().count()
            }
            Record::DirMap(m) | Record::Places(m) => m.dirs().count(),
            Record::Dir(d) => d.fields().name.len() + d.pointers().count() + d.entries().count(),
            Record::HashMap(m) => m.names().count(),
            Record::HashIndex(m) | Record::ExtentIndex(m) => {
                m.pointers().count() + m.waiting().count()
            }
            Record::File(f) => {
                let fragment = f.fragment().map_or(0, |(_, _, bytes)| bytes.len());
                fragment + f.names().count() + f.pointers().count() + f.entries().count()
            }
            Record::ExtentMap(m) => m.extents().count(),
            Record::Names(m) => m.file_names().count(),
            Record::Attributes(m) => m.attributes().count(),
            Record::Table(t) => t.states().count(),
            Record::Validity(v) => v.blocks().count(),
        }
    }

    /// A page with a good checksum around bytes that mean nothing.
    #[test]
    fn nonsense_is_read_without_harm() {
        let mut state = 1u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for (page_size, pages_per_block) in [(1024, 32), (2048, 64), (4096, 128)] {
            let geometry = Geometry::new(page_size, 40, pages_per_block, 100).unwrap();
            let mut seen = 0;
            for round in 0..4_000 {
                let mut page: Vec<u8> = (0..page_size).map(|_| byte()).collect();
                // Small counts are believed more often.
                for at in (32..200).filter(|at| round % 3 == 0 && at % 2 == 1) {
                    page[at] = 0;
                }
                let len = HEADER + 4 + usize::from(byte()) * 4 % (page_size as usize - HEADER - 4);
                let at = PageAddr(round);
                let kind = Kind::ALL[round as usize % Kind::ALL.len()];
                header::seal(&mut page[..len], kind, 7, at, 1, PageAddr::NONE);
                if let Inspected::Record(header, record) = inspect(&geometry, &page, at) {
                    assert_eq!(header.kind, kind);
                    seen += drain(&record).min(1);
                }
            }
            assert!(seen > 500, "{seen}");
        }
    }

    #[test]
    fn what_is_no_record_is_told_apart() {
        let geometry = Geometry::new(1024, 40, 32, 100).unwrap();
        let is = |page: &[u8]| match inspect(&geometry, page, PageAddr(3)) {
            Inspected::Erased => "erased",
            Inspected::Record(..) => "record",
            Inspected::Malformed(_) => "malformed",
            Inspected::Version(_) => "version",
            Inspected::Other => "other",
        };
        assert_eq!(is(&[0xff; 1024]), "erased");
        assert_eq!(is(&[0; 1024]), "other");
        let mut page = [0; 1024];
        page[HEADER] = 200;
        header::seal(
            &mut page[..40],
            Kind::Alloc,
            1,
            PageAddr(3),
            1,
            PageAddr::NONE,
        );
        assert_eq!(is(&page), "record");
        page[HEADER + 1] = 200;
        header::seal(
            &mut page[..40],
            Kind::Alloc,
            1,
            PageAddr(3),
            1,
            PageAddr::NONE,
        );
        assert_eq!(is(&page), "malformed");
        assert_eq!(is(&page[..40]), "other");
    }
}
