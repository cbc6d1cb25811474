//! The decoders of single pages: whatever the bytes, and with a checksum that is right.

use flashkit_flashlight::inspect::{Inspected, Record, data_tag, inspect};
use flashkit_nand::{Geometry, PageAddr};

use crate::seal;

/// Shapes of chips: page size, spare bytes, pages per block.
const SHAPES: [(u32, u32, u32); 4] = [(1024, 24, 8), (2048, 40, 64), (4096, 80, 128), (512, 0, 4)];

/// Runs an input: a byte for the shape, then a page, which the decoders get as it is and with a
/// header that is right.
///
/// # Panics
/// That is a finding.
pub fn run(bytes: &[u8]) {
    let Some((shape, bytes)) = bytes.split_first() else {
        return;
    };
    let (page_size, spare, pages_per_block) = SHAPES[usize::from(*shape) % SHAPES.len()];
    let geometry = Geometry::new(page_size, spare, pages_per_block, 100).expect("a valid shape");
    let mut page = bytes[..bytes.len().min(page_size as usize)].to_vec();
    look(&geometry, &page);
    page.resize(page_size as usize, 0xff);
    look(&geometry, &page);
    let mut tag = page[..spare as usize].to_vec();
    assert!(data_tag(&page, &tag).is_none_or(|_| tag.len() >= seal::TAG));
    seal::seal_data(&page, &mut tag);
    assert!(data_tag(&page, &tag).is_none_or(|tag| tag.intact));
    page[4..6].copy_from_slice(b"FL");
    page[6] = 1 + page[6] % 13;
    page[7] = flashkit_flashlight::FORMAT_VERSION;
    // Larger sequence numbers are not believed.
    page[15] = 0;
    page[16..20].fill(0);
    let used = seal::used(&page) as u16;
    page[24..26].copy_from_slice(&used.to_le_bytes());
    seal::seal(&mut page);
    assert!(!matches!(
        inspect(&geometry, &page, PageAddr(0)),
        Inspected::Other | Inspected::Version(_)
    ));
    look(&geometry, &page);
}

/// Reads all that a page has.
fn look(geometry: &Geometry, page: &[u8]) {
    let Inspected::Record(_, record) = inspect(geometry, page, PageAddr(0)) else {
        return;
    };
    // No list is longer than what a page can hold of the smallest entries.
    let entries = match &record {
        Record::Root(_) | Record::Second { .. } => 0,
        Record::Checkpoint(c) => {
            let _ = (c.is_clean(), c.root(), c.second(), c.next_leaves());
            let _ = (c.next_file(), c.live_pages(), c.orphans(), c.cursor());
            let _ = c.next_dir();
            let lists = c.heads().count() + c.bitmap_blocks().count() + c.reserved().count();
            let table = c.table_pages().count() + c.table_changes().count();
            lists + c.snapshot_pages().count() + table + c.dirty_list().count()
        }
        Record::Alloc(a) => a.blocks().count(),
        Record::Snapshot(s) => {
            // A run is of as many blocks as there are.
            assert!(s.states().count() <= geometry.blocks() as usize);
            // 4 bytes each at least, of a string of which a run says many bytes at once.
            let of_string =
                s.map_pages().count() + s.partial_blocks().count() + s.deferred().count();
            // The tail's length has 16 bits; before it are the table, the map's pages and blocks.
            let longest = usize::from(u16::MAX) + 512 + 16 * geometry.blocks() as usize;
            assert!(4 * of_string <= longest, "{of_string} in a string");
            0
        }
        Record::Table(t) => {
            let _ = t.number();
            t.states().count()
        }
        Record::Validity(v) => {
            assert!(v.blocks().count() <= geometry.blocks() as usize);
            v.blocks().count()
        }
        Record::DirMap(m) | Record::Places(m) => m.dirs().count(),
        Record::Dir(d) => {
            let _ = d.fields();
            d.pointers().count() + d.entries().count()
        }
        Record::File(f) => {
            let _ = (f.fields(), f.fragment());
            f.pointers().count() + f.entries().count() + f.names().count()
        }
        Record::HashMap(m) => {
            let _ = (m.owner(), m.range());
            m.names().count()
        }
        Record::HashIndex(m) | Record::ExtentIndex(m) => {
            let _ = (m.owner(), m.range());
            m.pointers().count() + m.waiting().count()
        }
        Record::ExtentMap(m) => {
            let _ = (m.owner(), m.range());
            m.extents().count()
        }
        Record::Names(m) => {
            let _ = (m.owner(), m.range());
            m.file_names().count()
        }
        Record::Attributes(m) => {
            let _ = (m.owner(), m.range());
            m.attributes().count()
        }
    };
    assert!(entries <= page.len(), "{entries} entries in a page");
}
