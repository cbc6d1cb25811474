//! The simulated NOR chip: strictness, timing, tears, image files.

use flashkit_nor::{BankedNorFlash, EraseStatus, NorFlash, NorFlashError, ReadNorFlash};
use flashkit_sim::nor::{
    NOR_DEFAULT, NorCut, NorCutError, NorEraseTear, NorPowerCut, NorSpec, NorTearable, NorTiming,
    SimNor, SimNorError, WordTear, nor_preset,
};
use flashkit_sim::{Access, ImageError};

/// 2 banks of 2 segments of 64 bytes.
type Chip = SimNor<64>;

const TIMING: NorTiming = NorTiming {
    read_ns: 1,
    program_ns: 10,
    erase_ns: 1_000,
    suspend_ns: 5,
};

fn spec() -> NorSpec {
    NorSpec::new(2, 2, TIMING)
}

fn chip() -> Chip {
    SimNor::new(spec())
}

fn byte(nor: &mut impl ReadNorFlash, at: u32) -> u8 {
    let mut byte = [0];
    nor.read(at, &mut byte).unwrap();
    byte[0]
}

#[test]
fn the_preset_is_the_papers_table_3() {
    let spec = nor_preset(NOR_DEFAULT).unwrap();
    let nor: SimNor = SimNor::new(spec.clone());
    assert_eq!((spec.banks(), spec.segments_per_bank()), (8, 8));
    assert_eq!(nor.capacity(), 16 << 20);
    // 4 bytes a word: 4 MB/s read, 400 KB/s written.
    assert_eq!(4 * 1_000_000_000 / spec.timing().read_ns, 4_000_000);
    assert_eq!(4 * 1_000_000_000 / spec.timing().program_ns, 400_000);
    assert_eq!(spec.timing().erase_ns, 1_000_000_000);
    assert_eq!(spec.endurance(), 100_000);
}

#[test]
fn bits_clear_without_an_erase_byte_by_byte_and_word_by_word() {
    let mut nor = chip();
    nor.write(0, &[0xF0, 0xFF]).unwrap();
    nor.write(0, &[0x30]).unwrap();
    nor.write(1, &[0x0F, 0x55, 0x12, 0x34]).unwrap();
    let mut bytes = [0; 6];
    nor.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0x30, 0x0F, 0x55, 0x12, 0x34, 0xFF]);
    // One word, one word, then two words, for the range crosses a border.
    assert_eq!(nor.counters().word_programs, 4);
    assert_eq!(nor.counters().word_reads, 2);
    assert_eq!(nor.now_ns(), 42);
    // Filler over programmed bytes changes nothing.
    nor.write(0, &[0xFF; 6]).unwrap();
    assert_eq!(byte(&mut nor, 0), 0x30);
}

#[test]
fn banks_erase_while_others_work_and_reads_suspend() {
    let mut nor = chip();
    nor.write(0, &[1]).unwrap();
    nor.write(64, &[2]).unwrap();
    let start = nor.now_ns();
    nor.erase_start(0).unwrap();
    assert_eq!(nor.now_ns(), start);
    nor.write(128, &[3]).unwrap();
    assert_eq!(nor.erase_status(0).unwrap(), EraseStatus::Busy);
    assert_eq!(nor.erase_status(1).unwrap(), EraseStatus::Done);
    // The other segment of the bank: suspended, and the erase ends later by that.
    assert_eq!(byte(&mut nor, 64), 2);
    assert_eq!(nor.counters().suspends, 1);
    assert_eq!(nor.now_ns(), start + 10 + 6);
    // The other bank erases at the same time.
    nor.erase_start(192).unwrap();
    assert_eq!(nor.erase_wait(0).unwrap(), EraseStatus::Done);
    assert_eq!(nor.now_ns(), start + 1_000 + 6);
    assert_eq!(nor.erase_wait(1).unwrap(), EraseStatus::Done);
    assert_eq!(nor.now_ns(), start + 16 + 1_000);
    assert_eq!(byte(&mut nor, 0), 0xFF);
    assert_eq!(nor.erase_counts(), [1, 0, 0, 1]);
    // Idle time erases too.
    nor.erase_start(0).unwrap();
    nor.idle(999);
    assert_eq!(nor.erase_status(0).unwrap(), EraseStatus::Busy);
    nor.idle(1);
    assert_eq!(nor.erase_status(0).unwrap(), EraseStatus::Done);
}

#[test]
fn a_blocking_erase_is_the_ecosystems() {
    let mut nor = chip();
    nor.write(70, &[0; 100]).unwrap();
    nor.erase(64, 256).unwrap();
    assert_eq!(nor.counters().time_ns, 26 * 10 + 3_000);
    assert!((0..256).all(|at| byte(&mut nor, at) == 0xFF));
    assert_eq!(nor.erase(0, 32), Err(SimNorError::NotAligned));
    assert_eq!(nor.erase(64, 320), Err(SimNorError::OutOfBounds));
    assert_eq!(nor.write(255, &[0, 0]), Err(SimNorError::OutOfBounds));
    assert_eq!(nor.read(u32::MAX, &mut [0]), Err(SimNorError::OutOfBounds));
    let kind = SimNorError::OutOfBounds.kind();
    assert_eq!(kind, flashkit_nor::NorFlashErrorKind::OutOfBounds);
}

#[test]
#[should_panic(expected = "program at 0x40: bank 0 is erasing segment 0")]
fn no_program_in_a_bank_that_erases() {
    let mut nor = chip();
    nor.erase_start(0).unwrap();
    let _ = nor.write(64, &[0]);
}

#[test]
#[should_panic(expected = "erase of segment 1: bank 0 is erasing segment 0")]
fn no_second_erase_in_a_bank() {
    let mut nor = chip();
    nor.erase_start(0).unwrap();
    let _ = nor.erase_start(64);
}

#[test]
#[should_panic(expected = "segment 0 is being erased")]
fn no_read_of_what_is_being_erased() {
    let mut nor = chip();
    nor.erase_start(0).unwrap();
    let _ = nor.read(3, &mut [0]);
}

#[test]
#[should_panic(expected = "program at 0x1: 0xf0 over 0x0f would have to set bits")]
fn no_bit_is_set_by_a_program() {
    let mut nor = chip();
    nor.write(0, &[0xFF, 0x0F]).unwrap();
    let _ = nor.write(0, &[0xFF, 0xF0]);
}

#[test]
#[should_panic(expected = "the last erase of segment 0 did not complete")]
fn no_program_after_a_torn_erase() {
    let mut nor = chip();
    nor.erase_start(0).unwrap();
    nor.tear_erases(NorEraseTear::LooksErased { reads: 9 }, 1)
        .unwrap();
    let _ = nor.write(0, &[0]);
}

#[test]
fn worn_segments_fail_to_erase() {
    let mut nor: Chip = SimNor::new(spec().with_endurance(2));
    nor.erase(0, 64).unwrap();
    nor.erase(0, 64).unwrap();
    assert_eq!(nor.erase(0, 64), Err(SimNorError::EraseFailed));
    nor.erase_start(0).unwrap();
    assert_eq!(nor.erase_wait(0).unwrap(), EraseStatus::Failed);
    assert_eq!(nor.erase_status(0).unwrap(), EraseStatus::Done);
    nor.erase(64, 128).unwrap();
}

/// What each tear of a word shows, read by read.
#[test]
fn torn_words() {
    let torn = |tear| {
        let mut nor = chip();
        nor.write(4, &[0xFF, 0x0F]).unwrap();
        nor.write_torn(5, &[0x00, 0xF0], tear, 3).unwrap();
        nor
    };
    let shown = |nor: &mut Chip| {
        let mut bytes = [0; 4];
        nor.read(4, &mut bytes).unwrap();
        bytes
    };
    let (before, after) = ([0xFF, 0x0F, 0xFF, 0xFF], [0xFF, 0x00, 0xF0, 0xFF]);
    assert_eq!(shown(&mut torn(WordTear::NotBegun)), before);
    assert_eq!(shown(&mut torn(WordTear::Complete)), after);
    let mut nor = torn(WordTear::LooksDone { reads: 2 });
    assert_eq!([shown(&mut nor), shown(&mut nor)], [after, after]);
    assert_eq!([shown(&mut nor), shown(&mut nor)], [before, before]);
    let mut nor = torn(WordTear::LooksUndone { reads: 1 });
    assert_eq!([shown(&mut nor), shown(&mut nor)], [before, after]);

    let mut nor = torn(WordTear::Partial);
    let partial = shown(&mut nor);
    assert!(partial != before && partial != after, "{partial:x?}");
    assert_eq!(shown(&mut nor), partial);
    let mut nor = torn(WordTear::Noisy);
    let seen: Vec<_> = (0..8).map(|_| shown(&mut nor)).collect();
    assert!(seen.windows(2).any(|pair| pair[0] != pair[1]), "{seen:x?}");
    for bytes in seen {
        // Bits that were not on their way are certain.
        assert_eq!(
            (bytes[0], bytes[1] & 0xF0, bytes[2] & 0xF0, bytes[3]),
            (0xFF, 0, 0xF0, 0xFF)
        );
    }
    // A program makes bits certain, an erase all of them.
    nor.write(5, &[0]).unwrap();
    assert!((0..20).all(|_| byte(&mut nor, 5) == 0));
    nor.erase(0, 64).unwrap();
    assert!((0..20).all(|_| shown(&mut nor) == [0xFF; 4]));
}

#[test]
fn torn_erases() {
    let torn = |tear| {
        let mut nor = chip();
        nor.write(0, &[0x5A; 64]).unwrap();
        nor.write(64, &[0x77; 64]).unwrap();
        nor.erase_start(0).unwrap();
        nor.tear_erases(tear, 9).unwrap();
        let mut bytes = [0; 64];
        nor.read(0, &mut bytes).unwrap();
        assert_eq!(byte(&mut nor, 64), 0x77);
        (nor, bytes)
    };
    assert_eq!(torn(NorEraseTear::NotBegun).1, [0x5A; 64]);
    assert_eq!(torn(NorEraseTear::Zeroed).1, [0; 64]);
    assert_eq!(torn(NorEraseTear::Complete).1, [0xFF; 64]);
    let partial = torn(NorEraseTear::Partial).1;
    assert!(partial != [0x5A; 64] && partial != [0xFF; 64]);
    let (mut nor, bytes) = torn(NorEraseTear::LooksErased { reads: 1 });
    assert_eq!(bytes, [0xFF; 64]);
    let mut again = [0; 64];
    nor.read(0, &mut again).unwrap();
    assert_ne!(again, bytes);
    nor.erase(0, 64).unwrap();
    nor.write(0, &[0]).unwrap();
}

#[test]
fn the_power_is_cut_inside_a_write() {
    let cut = NorCut {
        after: 3,
        program: WordTear::Partial,
        erase: NorEraseTear::Zeroed,
        seed: 5,
    };
    let mut nor = NorPowerCut::new(chip(), cut);
    nor.erase_start(128).unwrap();
    // Bytes 2 to 11: three words, of which the third is torn.
    assert_eq!(nor.write(2, &[0; 10]), Err(NorCutError::PowerOff));
    assert!(nor.is_off());
    assert_eq!(nor.ops(), 4);
    assert_eq!(nor.read(0, &mut [0]), Err(NorCutError::PowerOff));
    let mut nor = nor.into_inner();
    let mut bytes = [0; 16];
    nor.read(0, &mut bytes).unwrap();
    assert_eq!(bytes[..8], [0xFF, 0xFF, 0, 0, 0, 0, 0, 0]);
    assert!(
        bytes[8..12] != [0; 4] && bytes[8..12] != [0xFF; 4],
        "{bytes:x?}"
    );
    assert_eq!(bytes[12..], [0xFF; 4]);
    // The erase under way was torn with it.
    assert_eq!(byte(&mut nor, 128), 0);

    let mut nor = NorPowerCut::new(chip(), NorCut { after: 0, ..cut });
    assert_eq!(nor.erase_start(0), Err(NorCutError::PowerOff));
    assert_eq!(byte(&mut nor.into_inner(), 9), 0);
    let mut nor = NorPowerCut::never(chip());
    nor.write(0, &[0; 64]).unwrap();
    nor.erase(0, 128).unwrap();
    assert_eq!(nor.ops(), 18);
}

#[test]
fn images_keep_everything_and_say_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nor.img");
    let mut nor: Chip = SimNor::create(&path, spec().with_endurance(7)).unwrap();
    nor.write(60, &[1, 2, 3, 4]).unwrap();
    nor.erase(128, 192).unwrap();
    nor.write(130, &[9]).unwrap();
    assert!(matches!(
        Chip::open(&path, Access::ReadWrite),
        Err(ImageError::InUse)
    ));
    nor.erase_start(192).unwrap();
    nor.sync().unwrap();
    drop(nor);
    let mut nor = Chip::open(&path, Access::ReadOnlyCow).unwrap();
    assert_eq!(nor.spec(), &spec().with_endurance(7));
    assert_eq!(nor.erase_counts(), [0, 0, 1, 0]);
    assert_eq!([byte(&mut nor, 63), byte(&mut nor, 130)], [4, 9]);
    nor.write(0, &[0]).unwrap();
    drop(nor);
    let mut nor = Chip::open(&path, Access::ReadWrite).unwrap();
    assert_eq!(byte(&mut nor, 0), 0xFF);
    // Ended while it erased: to be erased again.
    nor.erase(192, 256).unwrap();
    nor.write(192, &[0]).unwrap();
    drop(nor);

    let other = SimNor::<128>::open(&path, Access::ReadWrite).unwrap_err();
    assert_eq!(
        other.to_string(),
        "the image is of a NOR chip with other segments"
    );
    let nand = flashkit_sim::SimNand::open(&path, Access::ReadWrite).unwrap_err();
    assert_eq!(
        nand.to_string(),
        "the image is of a NOR chip, not of a NAND chip"
    );
    let good = std::fs::read(&path).unwrap();
    for bit in 0..128 * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bad).unwrap();
        assert!(Chip::open(&path, Access::ReadOnlyCow).is_err(), "bit {bit}");
    }
    std::fs::write(&path, &good[..good.len() - 1]).unwrap();
    let short = Chip::open(&path, Access::ReadOnlyCow);
    assert!(matches!(short, Err(ImageError::TooShort { .. })));
}

/// After `distrust` each broken promise is an error that says which, and changes nothing.
#[test]
fn a_distrusted_chip_has_errors_for_broken_promises() {
    let mut nor = chip();
    nor.distrust();
    nor.write(1, &[0x0F]).unwrap();
    let broken = |result: Result<(), SimNorError>, what: &str| {
        let Err(SimNorError::Promise(told)) = result else {
            panic!("{result:?}, not {what}");
        };
        assert!(told.contains(what), "{told}");
    };
    let set = "0xf0 over 0x0f would have to set bits";
    broken(nor.write(1, &[0xF0]), set);
    let torn = |nor: &mut Chip, seed| nor.write_torn(1, &[0xF0], WordTear::Partial, seed);
    broken(torn(&mut nor, 1), set);
    assert_eq!(byte(&mut nor, 1), 0x0F);
    nor.erase_start(0).unwrap();
    broken(nor.write(64, &[0]), "bank 0 is erasing segment 0");
    broken(nor.erase_start(64), "bank 0 is erasing segment 0");
    broken(nor.read(0, &mut [0]), "segment 0 is being erased");
    nor.tear_erases(NorEraseTear::Zeroed, 0).unwrap();
    // A copy is as distrustful.
    let mut copy = nor.clone();
    broken(
        copy.write(2, &[0]),
        "the last erase of segment 0 did not complete",
    );
    let error = copy.write(2, &[0]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the image is damaged: program at 0x2")
    );
    copy.erase(0, 64).unwrap();
    copy.write(2, &[0]).unwrap();
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// A header may name any size. What was never written takes no memory, and what offsets do not
/// reach is refused.
#[test]
fn a_sparse_image_takes_little_memory() {
    let dir = std::env::temp_dir().join(format!("flashkit-nor-sparse-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("sparse.img");
    // 512 MiB.
    let mut nor: SimNor = SimNor::create(&path, NorSpec::new(2, 1024, TIMING)).unwrap();
    nor.write(7 << 18, &[1, 2, 3]).unwrap();
    drop(nor);
    let before = resident();
    let mut nor: SimNor = SimNor::open(&path, Access::ReadOnlyCow).unwrap();
    assert!(resident() < before + (64 << 20));
    assert_eq!(
        (byte(&mut nor, 7 << 18), byte(&mut nor, 8 << 18)),
        (1, 0xFF)
    );
    drop(nor);
    // 16 GiB, as the header alone says.
    drop(SimNor::<262_144>::create(&path, NorSpec::new(2, 32_768, TIMING)).unwrap());
    let refused = SimNor::<262_144>::open(&path, Access::ReadOnlyCow).map(|_| ());
    assert!(
        matches!(refused, Err(ImageError::DamagedHeader)),
        "{refused:?}"
    );
    std::fs::remove_dir_all(&dir).unwrap();
}
