//! A volume made on one chip and written to another by a programmer that passes over bad
//! blocks: every file is there, whichever blocks are bad, whenever the power goes, and blocks
//! that go bad later move nothing.
//!
//! A failure names the bad blocks, and the operation that was cut with its tear.

use crate::common::{self, chip};
use flashkit_flashlight::boot::{self, Boot};
use flashkit_flashlight::transfer::{Transferred, send};
use flashkit_flashlight::{
    BlockState, Config, Error, FlashLight, New, Node, ROOT_DIR, Time, ram_needed,
};
use flashkit_nand::{BlockAddr, Geometry, Nand, PageAddr};
use flashkit_sim::{
    Cut, EraseTear, Faults, Metered, PowerCut, Rate, Rng, Rot, SimNand, Tear, Weak,
};
use flashkit_vfs::any::{AnyError, AnyNand};

const PAGE: u32 = 1024;
const PAGES: u32 = 16;
const BLOCKS: u32 = 96;
const SLACK: u32 = 7;
const SPARE: u32 = 40;
const NOW: Time = Time { secs: 9, nanos: 7 };

type Volume<'c> = FlashLight<'static, Transferred<'static, AnyNand<'c>>>;
type Failure = Error<AnyError>;

fn target() -> SimNand {
    chip(PAGE, SPARE, PAGES, BLOCKS)
}

fn page_ram() -> &'static mut [u8] {
    vec![0; PAGE as usize].leak()
}

fn ram(geo: &Geometry) -> &'static mut [u8] {
    vec![0; ram_needed(geo)].leak()
}

fn open(chip: AnyNand<'_>, config: Config) -> Result<Volume<'_>, Failure> {
    let ram = ram(&chip.geometry());
    FlashLight::mount_transferred(chip, page_ram(), ram, config)
}

/// What file `i` holds.
fn content(i: usize) -> Vec<u8> {
    let mut rng = Rng::new(i as u64);
    let mut data = vec![0; i * 977 % 9_000];
    rng.fill(&mut data);
    data
}

const FILES: usize = 24;

fn put(fs: &mut Volume<'_>, name: &str, data: &[u8]) -> Result<(), Failure> {
    let node = match fs.lookup(ROOT_DIR, name.as_bytes()) {
        Ok(attr) => attr.node,
        Err(Error::NotFound) => fs.create(ROOT_DIR, name.as_bytes(), &New::default())?,
        Err(e) => return Err(e),
    };
    let Node::File(file) = node else { panic!() };
    fs.write(file, 0, data, NOW)?;
    fs.fsync(node)
}

fn get(fs: &mut Volume<'_>, name: &str) -> Result<Vec<u8>, Failure> {
    let attr = fs.lookup(ROOT_DIR, name.as_bytes())?;
    let Node::File(file) = attr.node else {
        panic!()
    };
    let mut data = vec![0; attr.size as usize];
    let n = fs.read(file, 0, &mut data)?;
    assert_eq!(n, data.len());
    Ok(data)
}

/// Every file that the image came with is as it was, and nothing is wrong.
fn verify(fs: &mut Volume<'_>, id: &str) {
    for i in 0..FILES {
        let data = get(fs, &format!("file{i}")).unwrap_or_else(|e| panic!("{id}: file {i}: {e}"));
        assert!(data == content(i), "{id}: file {i}");
    }
    let found = flashkit_vfs::check::check(fs).unwrap_or_else(|e| panic!("{id}: {e}"));
    assert!(found.findings.is_empty(), "{id}: {:?}", found.findings);
}

/// The pages of an image that is to be sent, with their spare bytes.
struct Image(Vec<(Vec<u8>, Vec<u8>)>);

impl Image {
    fn new(spare: u32) -> Image {
        let chip = Transferred::begin(AnyNand::new(target()), page_ram(), SLACK, spare).unwrap();
        let chip = FlashLight::format(chip, ram(&target().geometry()), 5, &New::default()).unwrap();
        let mut fs = open(chip.into_inner(), Config::default()).unwrap();
        for i in 0..FILES {
            put(&mut fs, &format!("file{i}"), &content(i)).unwrap();
        }
        let mut chip = fs.unmount().map_err(|(_, e)| e).unwrap().into_inner();
        let mut pages = Vec::new();
        for page in 0..BLOCKS * PAGES {
            let (mut data, mut spare) = (vec![0; PAGE as usize], vec![0; spare as usize]);
            let status = chip.read(PageAddr(page), 0, &mut data, &mut spare).unwrap();
            assert!(status.is_readable());
            pages.push((data, spare));
        }
        for block in 0..2 {
            let blocks = send(&mut pages[block * PAGES as usize].0).unwrap();
            assert_eq!(blocks, BLOCKS - SLACK);
        }
        pages.truncate(((BLOCKS - SLACK) * PAGES) as usize);
        Image(pages)
    }

    /// What a programmer makes of a chip: erased, and every page of the image programmed, blank
    /// or not, in the good blocks.
    fn flash(&self, bad: &[u32]) -> SimNand {
        let mut chip = target();
        let bad_blocks = bad.to_vec();
        chip.set_faults(Faults {
            bad_blocks,
            ..Faults::default()
        })
        .unwrap();
        let good: Vec<u32> = (0..BLOCKS).filter(|b| !bad.contains(b)).collect();
        for &block in &good {
            chip.erase(BlockAddr(block)).unwrap();
        }
        for (i, (data, spare)) in self.0.iter().enumerate() {
            let (block, index) = (good[i / PAGES as usize], i as u32 % PAGES);
            let at = PageAddr(block * PAGES + index);
            chip.program(at, data, spare).unwrap();
        }
        chip.clear_counters();
        chip
    }
}

fn sets() -> Vec<Vec<u32>> {
    let mut sets = vec![
        vec![],
        vec![0],
        vec![1],
        vec![0, 1],
        vec![2],
        vec![0, 2, 4, 6],
        vec![2, 3, 4, 5],
        vec![BLOCKS - 1],
        (0..SLACK).collect(),
        (BLOCKS - SLACK..BLOCKS).collect(),
    ];
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut set: Vec<u32> = (0..SLACK)
            .map(|_| rng.below(u64::from(BLOCKS)) as u32)
            .collect();
        set.sort_unstable();
        set.dedup();
        sets.push(set);
    }
    sets
}

#[test]
fn every_file_is_there_whichever_blocks_are_bad() {
    for spare in [SPARE, 0] {
        let image = Image::new(spare);
        for bad in sets() {
            let id = format!("spare {spare}, bad {bad:?}");
            let chip = image.flash(&bad);
            // To be looked at, nothing is written.
            let config = Config {
                read_only: true,
                ..Config::default()
            };
            let mut fs = open(AnyNand::new(chip), config).unwrap();
            verify(&mut fs, &id);
            let chip = fs.unmount().map_err(|(_, e)| e).unwrap().into_inner();
            let c = chip.counters();
            assert_eq!((c.page_programs, c.block_erases), (0, 0), "{id}");
            let mut fs = open(chip, Config::default()).unwrap();
            assert!(fs.nand().is_settled());
            assert_eq!(fs.nand().skipped().collect::<Vec<_>>(), bad, "{id}");
            verify(&mut fs, &id);
            // Blocks go bad, and what is stored stays where it is.
            for round in 0..4 {
                let faults = Faults {
                    seed: round,
                    bad_blocks: bad.clone(),
                    erase_fail: Rate(60),
                    ..Faults::default()
                };
                let chip: &mut SimNand = fs.nand_mut().inner_mut().get_mut();
                chip.set_faults(faults).unwrap();
                for i in 0..40 {
                    // A chip that wears out in this test has done its part.
                    match put(&mut fs, &format!("new{}", i % 5), &content(40 + i)) {
                        Ok(()) | Err(Error::ReadOnly | Error::NoSpace) => {}
                        Err(e) => panic!("{id}: {e}"),
                    }
                }
                let chip = fs.unmount().map_err(|(_, e)| e).unwrap().into_inner();
                fs = open(chip, Config::default()).unwrap();
                assert_eq!(fs.nand().skipped().collect::<Vec<_>>(), bad, "{id}");
                verify(&mut fs, &id);
            }
        }
    }
}

/// Opens a chip, writes a file, unmounts.
fn first_use(chip: AnyNand<'_>) -> Result<AnyNand<'_>, Failure> {
    let mut fs = open(chip, Config::default())?;
    put(&mut fs, "first", &content(31))?;
    Ok(fs.unmount().map_err(|(_, e)| e)?.into_inner())
}

#[test]
fn the_first_mount_can_be_cut_anywhere_and_again() {
    let image = Image::new(SPARE);
    let bad = [1, 4, 50];
    let whole = AnyNand::new(PowerCut::never(image.flash(&bad)));
    let whole: PowerCut<SimNand> = first_use(whole).unwrap().take();
    let ops = whole.ops();
    let tears = [
        (Tear::LooksBlank, EraseTear::Partial),
        (Tear::Random, EraseTear::LooksErased),
        (Tear::Unstable { reads: 1 }, EraseTear::Complete),
        (Tear::Unstable { reads: 3 }, EraseTear::NotBegun),
        (Tear::Complete, EraseTear::Partial),
    ];
    // Blocks that are erased for it: some of these fail, and are marked bad.
    let erased = whole.inner().erase_counts();
    let weak = (8..BLOCKS).filter(|&b| erased[b as usize] > 1).take(3);
    let weak: Vec<Weak> = weak.map(|at| Weak { at, good: 0 }).collect();
    assert_eq!(weak.len(), 3);
    let mut cuts = 0;
    for after in 0..ops {
        for (i, (program, erase)) in tears.into_iter().enumerate() {
            let id = format!("cut after {after}, tear {i}");
            let mut chip = image.flash(&bad);
            let faults = Faults {
                bad_blocks: bad.to_vec(),
                weak_blocks: weak.clone(),
                ..Faults::default()
            };
            chip.set_faults(faults).unwrap();
            // And the mount after it, a little later each time.
            for again in [after, (after * 7 + i as u64 * 3) % ops] {
                let cut = Cut {
                    after: again,
                    program,
                    erase,
                    seed: after,
                };
                let mut power = PowerCut::new(chip, cut);
                let ended = first_use(AnyNand::lent(&mut power)).map(|_| ());
                assert!(power.is_off() || ended.is_ok(), "{id}: {ended:?}");
                chip = power.into_inner();
                cuts += 1;
            }
            let mut fs =
                open(AnyNand::new(chip), Config::default()).unwrap_or_else(|e| panic!("{id}: {e}"));
            verify(&mut fs, &id);
            assert_eq!(fs.nand().skipped().collect::<Vec<_>>(), bad, "{id}");
            put(&mut fs, "last", &content(33)).unwrap();
            let chip = fs.unmount().map_err(|(_, e)| e).unwrap().into_inner();
            let mut fs = open(chip, Config::default()).unwrap();
            verify(&mut fs, &id);
            assert!(get(&mut fs, "last").unwrap() == content(33), "{id}");
        }
    }
    println!("{cuts} cuts");
}

/// What befalls a copy of the record beside the cuts.
#[derive(Clone, Copy, Debug)]
enum Spoilt {
    Nothing,
    /// The copy in this block cannot be read when the chip comes.
    Lost(u32),
    /// This block fails when it is erased.
    Fails(u32),
}

/// A board whose power fails in its first mount, and again in the next one, at any two operations.
/// The record is all that says where the volume is: with it go all files. One of its copies may be
/// lost when the chip comes, or its block fail; then the other must never be erased alone.
#[test]
fn two_cuts_in_the_first_mounts_lose_nothing() {
    let image = Image::new(SPARE);
    let bad = [1, 4, 50];
    // Those of the mount.
    let ops = 28;
    // The copies of the record are in blocks 0 and 2.
    let cases = [
        Spoilt::Nothing,
        Spoilt::Lost(0),
        Spoilt::Lost(2),
        Spoilt::Fails(0),
        Spoilt::Fails(2),
    ];
    let tears = [
        (Tear::Garbage, EraseTear::Partial),
        (Tear::Unstable { reads: 2 }, EraseTear::Mixed),
    ];
    let mut lost = Vec::new();
    for spoilt in cases {
        for (first, second) in (0..ops * ops).map(|i| (i / ops, i % ops)) {
            for (i, (program, erase)) in tears.into_iter().enumerate() {
                let mut chip = image.flash(&bad);
                spoil(&mut chip, &bad, spoilt);
                for after in [first, second] {
                    let seed = first * ops + second;
                    let cut = Cut {
                        after,
                        program,
                        erase,
                        seed,
                    };
                    let mut power = PowerCut::new(chip, cut);
                    let ended = first_use(AnyNand::lent(&mut power)).map(|_| ());
                    assert!(power.is_off() || ended.is_ok(), "{spoilt:?}: {ended:?}");
                    chip = power.into_inner();
                }
                match open(AnyNand::new(chip), Config::default()) {
                    Ok(mut fs) => {
                        let id = format!("{spoilt:?}, cuts after {first}, {second}, tear {i}");
                        verify(&mut fs, &id);
                        assert_eq!(fs.nand().skipped().collect::<Vec<_>>(), bad, "{id}");
                    }
                    Err(e) => lost.push((spoilt, first, second, i, e)),
                }
            }
        }
    }
    assert!(
        lost.is_empty(),
        "{} of the pairs: {:?}",
        lost.len(),
        lost[0]
    );
}

fn spoil(chip: &mut SimNand, bad: &[u32], spoilt: Spoilt) {
    match spoilt {
        Spoilt::Nothing => {}
        Spoilt::Lost(block) => {
            chip.rot(PageAddr(block * PAGES), Rot::Lost).unwrap();
        }
        Spoilt::Fails(at) => chip
            .set_faults(Faults {
                bad_blocks: bad.to_vec(),
                weak_blocks: vec![Weak { at, good: 0 }],
                ..Faults::default()
            })
            .unwrap(),
    }
}

/// As long as the list of blocks passed over can be written nowhere, no block is marked bad on the
/// chip: the mark would move the volume. The files stay, in any number of mounts.
#[test]
fn blocks_that_go_bad_before_the_list_is_written_move_nothing() {
    let image = Image::new(SPARE);
    let mut chip = image.flash(&[1]);
    // The first copy of the record fails whenever it is written, as do blocks of the volume.
    let faults = Faults {
        bad_blocks: vec![1],
        weak_blocks: (0..BLOCKS)
            .filter(|b| b % 30 < 2 && *b != 1)
            .map(|at| Weak { at, good: 0 })
            .collect(),
        ..Faults::default()
    };
    chip.set_faults(faults).unwrap();
    let mut chip = AnyNand::new(chip);
    let mut failed_blocks = 0;
    for round in 0..4 {
        let mut fs = open(chip, Config::default()).unwrap();
        verify(&mut fs, &format!("round {round}"));
        assert!(!fs.nand().is_settled());
        assert_eq!(fs.nand().skipped().collect::<Vec<_>>(), [1]);
        for i in 0..40 {
            put(&mut fs, &format!("new{}", i % 5), &content(40 + i)).unwrap();
        }
        failed_blocks = (0..fs.nand().geometry().blocks())
            .filter(|&block| fs.block_state(block) == BlockState::Bad)
            .count();
        chip = fs.unmount().map_err(|(_, e)| e).unwrap().into_inner();
    }
    let marked: Vec<u32> = (0..BLOCKS)
        .filter(|&block| chip.is_bad(BlockAddr(block)).unwrap())
        .collect();
    assert_eq!(marked, [1]);
    assert!(failed_blocks > 1, "{failed_blocks}");
}

/// The boot reader says of such a volume what it is, and finds the files when it is opened over the
/// record: placed or not.
#[test]
fn the_boot_reader_is_told_of_the_record() {
    let bad = [1, 4];
    let image = Image::new(SPARE);
    let placed = first_use(AnyNand::new(image.flash(&bad))).unwrap();
    for chip in [image.flash(&bad), placed.take()] {
        let mut ram = vec![0; boot::ram_needed(&chip.geometry())];
        let refused = Boot::open(chip.clone(), &mut ram).map(|_| ()).unwrap_err();
        assert_eq!(refused, boot::Error::Transferred);
        let chip = Transferred::open(chip, page_ram()).unwrap();
        let mut reader = Boot::open(chip, &mut ram).unwrap();
        for i in 0..FILES {
            let file = reader.find(format!("file{i}").as_bytes()).unwrap();
            let mut data = vec![0; file.size() as usize];
            reader.read(&file, 0, &mut data).unwrap();
            assert!(data == content(i), "file {i}");
        }
    }
}

/// A file may hold such records: the image of another board, say. On a volume whose two root blocks
/// cannot be read, one of its pages passed for the record, and the root blocks were then erased.
#[test]
fn a_record_in_a_file_is_none() {
    let image = Image::new(SPARE);
    for stage in 0..3 {
        let mut chip = image.flash(&[]);
        if stage > 0 {
            chip = first_use(AnyNand::new(chip)).unwrap().take();
        }
        let mut page = vec![0; PAGE as usize];
        chip.read(PageAddr(0), 0, &mut page, &mut []).unwrap();
        let mut other = target();
        for block in 0..BLOCKS {
            other.erase(BlockAddr(block)).unwrap();
        }
        for block in [5, 6] {
            other.program(PageAddr(block * PAGES), &page, &[]).unwrap();
        }
        let found = Transferred::open(other, page_ram()).unwrap();
        assert!(!found.is_transferred(), "stage {stage}");
    }
}

/// Reads, programs and erases of the first mount, of a later one, and of one of a volume
/// that was made on its chip: a read more than without a look for a record, which takes
/// two on a transferred volume.
#[test]
fn what_it_costs() {
    let image = Image::new(SPARE);
    let cost = |chip: SimNand| {
        let mut chip = open(AnyNand::new(chip), Config::default()).unwrap();
        let chip = chip.nand_mut().inner_mut();
        let c = chip.counters();
        (c.page_reads, c.page_programs, c.block_erases)
    };
    assert_eq!(cost(image.flash(&[1, 4])), (45, 18, 8));
    let chip = first_use(AnyNand::new(image.flash(&[1, 4]))).unwrap();
    let mut chip: SimNand = chip.take();
    chip.clear_counters();
    let later = cost(chip);
    let mut chip = common::format(target(), 5);
    chip.clear_counters();
    let plain = cost(chip);
    assert_eq!((later, plain), ((37, 0, 0), (36, 0, 0)));
}

#[test]
fn what_does_not_fit_is_refused() {
    let image = Image::new(SPARE);
    let bad: Vec<u32> = (20..20 + SLACK + 1).collect();
    let mut chip = target();
    chip.set_faults(Faults {
        bad_blocks: bad.clone(),
        ..Faults::default()
    })
    .unwrap();
    let good: Vec<u32> = (0..BLOCKS).filter(|b| !bad.contains(b)).collect();
    for (i, (data, spare)) in image
        .0
        .iter()
        .enumerate()
        .take((good.len() - 1) * PAGES as usize)
    {
        let block = BlockAddr(good[i / PAGES as usize]);
        if (i as u32).is_multiple_of(PAGES) {
            chip.erase(block).unwrap();
        }
        chip.program(PageAddr(block.0 * PAGES + i as u32 % PAGES), data, spare)
            .unwrap();
    }
    let refused = open(AnyNand::new(chip), Config::default())
        .map(|_| ())
        .unwrap_err();
    assert_eq!(refused, Error::TooManyBad(SLACK + 1));
    // A chip of another size.
    let mut other = common::chip(PAGE, SPARE, PAGES, BLOCKS + 1);
    for (i, (data, spare)) in image.0.iter().enumerate() {
        if (i as u32).is_multiple_of(PAGES) {
            other.erase(BlockAddr(i as u32 / PAGES)).unwrap();
        }
        other.program(PageAddr(i as u32), data, spare).unwrap();
    }
    assert_eq!(
        open(AnyNand::new(other), Config::default())
            .map(|_| ())
            .unwrap_err(),
        Error::Geometry
    );
    assert_eq!(
        open(AnyNand::new(target()), Config::default())
            .map(|_| ())
            .unwrap_err(),
        Error::NotFormatted
    );
    let too_much = Transferred::begin(target(), page_ram(), BLOCKS, SPARE).map(|_| ());
    assert_eq!(too_much.unwrap_err(), Error::Geometry);
    let small = Transferred::begin(target(), vec![0; 99].leak(), SLACK, SPARE).map(|_| ());
    assert_eq!(small.unwrap_err(), Error::RamTooSmall(PAGE as usize));
    // What was placed around bad blocks cannot be sent on.
    let mut chip = first_use(AnyNand::new(image.flash(&[7]))).unwrap();
    let mut page = vec![0; PAGE as usize];
    chip.read(PageAddr(0), 0, &mut page, &mut []).unwrap();
    assert_eq!(send(&mut page), None);
}

#[test]
fn one_copy_of_the_record_may_rot() {
    let image = Image::new(SPARE);
    for lost in [0, 2] {
        let mut chip = first_use(AnyNand::new(image.flash(&[1]))).unwrap();
        chip.erase(BlockAddr(lost)).unwrap();
        chip.program(PageAddr(lost * PAGES), &[0; PAGE as usize], &[])
            .unwrap();
        chip.get_mut::<SimNand>().clear_counters();
        let mut fs = open(chip, Config::default()).unwrap();
        verify(&mut fs, "a copy of the record is lost");
        let chip = fs.unmount().map_err(|(_, e)| e).unwrap().into_inner();
        assert_eq!(chip.counters().block_erases, 1, "it is written anew");
        let mut fs = open(chip, Config::default()).unwrap();
        verify(&mut fs, "after that");
        let chip = fs.unmount().map_err(|(_, e)| e).unwrap().into_inner();
        assert_eq!(chip.counters().block_erases, 1, "once");
    }
}
