//! The simulator's image files: header and block table.

use std::io::Write;
use std::os::unix::fs::FileExt;

use flashkit_nand::{BlockAddr, Nand, PageAddr};
use flashkit_sim::{Access, Metered, SimNand};

/// Longest file; the rest of a larger chip is not there.
const LEN_MAX: u64 = 1 << 30;

/// Where the block table begins.
const TABLE: u64 = 4096;

/// Runs an input: a byte that says how to go on, then an image file's header, and what follows it
/// or the beginning of its block table. The header's checksum is made right, and the file as long
/// as a header may demand (1 GiB, sparse), when the first byte says so.
///
/// # Panics
/// That is a finding.
pub fn run(bytes: &[u8]) {
    let Some((how, bytes)) = bytes.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if how & 1 != 0 && bytes.len() >= 128 {
        let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(&bytes[..124]);
        bytes[124..128].copy_from_slice(&crc.to_le_bytes());
    }
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    let (header, rest) = bytes.split_at(bytes.len().min(128));
    file.write_all(header).expect("room");
    if how & 4 != 0 {
        file.as_file().write_all_at(rest, TABLE).expect("room");
    } else {
        file.write_all(rest).expect("room");
    }
    if how & 2 != 0 {
        file.as_file().set_len(LEN_MAX).expect("sparse files");
    }
    for access in [Access::ReadOnlyCow, Access::ReadWrite] {
        if let Ok(chip) = SimNand::open(file.path(), access) {
            look(chip);
        }
    }
}

/// Reads from the first blocks and the last.
fn look(mut chip: SimNand) {
    let geometry = chip.geometry();
    let mut data = vec![0; geometry.page_size() as usize];
    let mut spare = vec![0; geometry.spare_size() as usize];
    let blocks = geometry.blocks();
    for block in (0..blocks.min(8)).chain(blocks - 1..blocks).map(BlockAddr) {
        let _ = chip.is_bad(block);
        for index in 0..geometry.pages_per_block().min(8) {
            let at = geometry.page(block, index);
            let _ = chip.read(at, 0, &mut data, &mut spare);
        }
    }
    let _ = chip.read(PageAddr(geometry.pages() - 1), 0, &mut data, &mut spare);
    let _ = (
        chip.bad_blocks(),
        chip.erase_counts(),
        chip.spec().name().len(),
    );
}
