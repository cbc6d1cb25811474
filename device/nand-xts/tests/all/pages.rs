//! Pages through the cipher and beside it.

use flashkit_nand::{Nand, PageAddr};
use flashkit_nand_xts::{UNIT, XtsError, XtsNand};
use flashkit_sim::{Metered, Rng, SimNand, preset};

pub fn key(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 73 + 5) as u8).collect()
}

fn chip() -> SimNand {
    SimNand::new(preset("w25n01gv").unwrap())
}

/// Every program and read, of any length from any byte, against what was programmed; and the chip
/// beside it has the same number of operations, the same spare bytes and other data.
#[test]
fn reads_what_was_programmed() {
    for len in [32, 64] {
        let mut rng = Rng::new(len as u64);
        let mut page = [0; 2048];
        let mut nand = XtsNand::new(chip(), &key(len), &mut page).unwrap();
        let mut plain = chip();
        for number in 0..64 {
            let at = PageAddr(number);
            let mut data = vec![0; rng.below(2049) as usize];
            rng.fill(&mut data);
            let spare = [number as u8; 24];
            nand.program(at, &data, &spare).unwrap();
            plain.program(at, &data, &spare).unwrap();
            for _ in 0..20 {
                let offset = rng.below(2049) as u32;
                let mut got = vec![0; rng.below(2049 - u64::from(offset)) as usize];
                let (mut want, mut got_spare) = (got.clone(), [0; 24]);
                nand.read(at, offset, &mut got, &mut got_spare).unwrap();
                plain.read(at, offset, &mut want, &mut []).unwrap();
                // What was not given is padded to whole units, and erased behind.
                assert!(got == want && got_spare == spare, "{at:?} {offset}");
            }
            let used = rng.below(2049) as usize;
            let mut got = vec![0; 2048];
            nand.read_used(at, &mut got, 32, &|_| used).unwrap();
            let mut want = vec![0; 2048];
            plain.read_used(at, &mut want, 32, &|_| used).unwrap();
            let used = used.max(32);
            assert_eq!(got[..used], want[..used], "{at:?} {used}");
            let mut sealed = vec![0; data.len()];
            nand.inner_mut().read(at, 0, &mut sealed, &mut []).unwrap();
            assert!(data.len() < 16 || sealed != data, "{at:?}");
        }
        let (a, b) = (nand.inner().counters(), plain.counters());
        assert_eq!(a.page_programs, b.page_programs);
        // The looks at the chip itself.
        assert_eq!(
            a.page_reads + a.spare_reads - 64,
            b.page_reads + b.spare_reads
        );
    }
}

#[test]
fn erased_pages_read_as_erased() {
    let mut page = [0; 2048];
    let mut nand = XtsNand::new(chip(), &key(64), &mut page).unwrap();
    let (mut data, mut spare) = ([0; 2048], [0; 24]);
    nand.read(PageAddr(9), 0, &mut data, &mut spare).unwrap();
    assert!(data.iter().chain(&spare).all(|byte| *byte == 0xFF));
    // Ones that are programmed are no erased page to the chip.
    nand.program(PageAddr(9), &[0xFF; 2048], &[]).unwrap();
    nand.read(PageAddr(9), 0, &mut data, &mut []).unwrap();
    assert_eq!(data, [0xFF; 2048]);
    nand.inner_mut()
        .read(PageAddr(9), 0, &mut data, &mut [])
        .unwrap();
    assert!(data.chunks(UNIT).all(|unit| unit != [0xFF; UNIT]));
}

/// A head of a metadata page moves its units, and not the page.
#[test]
fn a_few_bytes_move_few_bytes() {
    let mut page = [0; 2048];
    let mut nand = XtsNand::new(chip(), &key(32), &mut page).unwrap();
    nand.program(PageAddr(0), &[7; 2048], &[]).unwrap();
    let mut read = |used: usize| {
        let before = nand.inner().counters();
        let mut data = [0; 2048];
        nand.read_used(PageAddr(0), &mut data, 32, &|_| used)
            .unwrap();
        (nand.inner().counters() - before).bus_bytes
    };
    // 13, 0F, 03 and 64 bytes; with more used a second 03.
    assert_eq!(read(32), 7 + 4 + 64);
    assert_eq!(read(64), 7 + 4 + 64);
    assert_eq!(read(65), 7 + 2 * 4 + 128);
    assert_eq!(read(2048), 7 + 2 * 4 + 2048);
}

#[test]
fn no_chip_without_a_key_and_a_page() {
    let refused = |key: &[u8], ram: usize| {
        let mut page = vec![0; ram];
        XtsNand::new(chip(), key, &mut page).map(drop).unwrap_err()
    };
    assert_eq!(refused(&key(16), 2048), XtsError::KeyLength(16));
    assert_eq!(refused(&[9; 64], 2048), XtsError::KeyHalves);
    assert_eq!(refused(&key(64), 2047), XtsError::RamTooSmall);
}
