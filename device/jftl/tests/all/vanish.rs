//! What a cut leaves of a page reads as complete for a mount, and is gone for the next one, or the
//! other way round. What mounts wrote that saw it, and were cut too, must never be taken for what
//! was written since. `FLASHKIT_FULL=1` has more of them; a failure prints a seed, and
//! `FLASHKIT_REPLAY=seed` repeats it.

use crate::common::{Model, Op, SETUPS, Setup, apply, run, script, seeds, starts};
use crate::failing::Failing;
use flashkit_jftl::{Error, Jftl};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Cut, CutError, EraseTear, Metered, PowerCut, Rng, Rot, SimNand, Tear};

/// A page that a cut has hit, and what it was to hold.
#[derive(Clone)]
struct Torn {
    page: PageAddr,
    erases: u32,
    bytes: Vec<u8>,
    spare: Vec<u8>,
    is_seen: bool,
}

/// A chip that was cut, and what may be on it.
#[derive(Clone)]
struct Left {
    chip: SimNand,
    model: Model,
    torn: Vec<Torn>,
}

fn erases(chip: &SimNand, page: PageAddr) -> u32 {
    let block = chip.geometry().block_of(page);
    chip.erase_counts()[block.0 as usize]
}

fn read(chip: &mut SimNand, page: PageAddr) -> (Vec<u8>, Vec<u8>) {
    let mut bytes = vec![0; chip.geometry().page_size() as usize];
    let mut spare = vec![0; chip.geometry().spare_size() as usize];
    chip.read(page, 0, &mut bytes, &mut spare).unwrap();
    (bytes, spare)
}

/// The pages that differ.
fn changed(old: &SimNand, new: &SimNand) -> Vec<PageAddr> {
    let (mut old, mut new) = (old.clone(), new.clone());
    let pages = (0..old.geometry().pages()).map(PageAddr);
    pages
        .filter(|page| read(&mut old, *page) != read(&mut new, *page))
        .collect()
}

impl Left {
    /// Mounts, and runs with a cut after so many programs and erases; whether there were as many.
    fn session(&self, setup: Setup, ops: &[Op], after: u64, id: &str) -> (Left, bool) {
        let Left {
            chip,
            mut model,
            torn,
        } = self.clone();
        let cut = Cut {
            after,
            program: Tear::NotBegun,
            erase: EraseTear::NotBegun,
            seed: 0,
        };
        let mut nand = PowerCut::new(chip, cut);
        let mut ram = setup.ram();
        let ran = Jftl::mount(&mut nand, &mut ram).and_then(|mut disk| {
            match model.compare(&mut disk, true) {
                Ok(()) => run(&mut disk, &mut model, ops),
                Err(e) if e.contains("PowerOff") => Err(CutError::PowerOff.into()),
                Err(e) => panic!("{id}: {e}"),
            }
        });
        let is_cut = match ran {
            Ok(()) => false,
            Err(Error::Flash(CutError::PowerOff)) => true,
            Err(e) => panic!("{id}: {e:?}"),
        };
        let chip = nand.into_inner();
        (Left { chip, model, torn }, is_cut)
    }

    /// The same with a cut in one of the operations. A page that it has hit is seen from now on, or
    /// not.
    fn cut_in(
        &self,
        setup: Setup,
        ops: &[Op],
        after: u64,
        is_seen: bool,
        id: &str,
    ) -> Option<Left> {
        let (mut left, is_cut) = self.session(setup, ops, after, id);
        let (whole, _) = self.session(setup, ops, after + 1, id);
        if !is_cut {
            return None;
        }
        if let [page] = changed(&left.chip, &whole.chip)[..]
            && erases(&left.chip, page) == erases(&whole.chip, page)
        {
            let (bytes, spare) = read(&mut whole.chip.clone(), page);
            left.torn.push(Torn {
                page,
                erases: erases(&left.chip, page),
                bytes,
                spare,
                is_seen,
            });
            if is_seen {
                left.chip = whole.chip;
            }
        }
        Some(left)
    }

    /// Pages that were seen go, and others come up.
    fn turn(&mut self, rng: &mut Rng) {
        let Left { chip, torn, .. } = self;
        torn.retain(|torn| torn.erases == erases(chip, torn.page));
        for torn in torn {
            if !rng.one_in(2) {
                continue;
            }
            if torn.is_seen {
                chip.rot(torn.page, Rot::Lost).unwrap();
            } else {
                torn.is_seen = chip.program(torn.page, &torn.bytes, &torn.spare).is_ok();
            }
        }
    }
}

fn writes(from: u32, count: u32) -> Vec<Op> {
    let write = |i| [Op::Write(i % 7, 1, from + i), Op::Flush];
    (0..count).flat_map(write).collect()
}

/// Mounts in a row that are cut, and a session that writes on from what is left; nothing ends it.
fn case(setup: Setup, start: &Left, seed: u64) {
    let id = format!("FLASHKIT_REPLAY={seed} ({})", setup.name);
    let mut rng = Rng::new(seed);
    let mut left = start.clone();
    for round in 0..2 + rng.below(6) as u32 {
        let ops = writes(1_000 + 100 * round, 3);
        // Mostly in what a mount writes.
        let most = if rng.one_in(4) { 16 } else { 6 };
        let after = rng.below(most);
        let is_seen = rng.one_in(2);
        let Some(next) = left.cut_in(setup, &ops, after, is_seen, &id) else {
            break;
        };
        left = next;
        left.turn(&mut rng);
    }
    let ops = writes(2_000, rng.below(20) as u32);
    for ops in [&ops, &[][..]] {
        let (next, _) = left.session(setup, ops, u64::MAX, &id);
        left = next;
        left.turn(&mut rng);
    }
}

/// A disk that was written, with blocks for anchors that were bad from the beginning.
fn start(setup: Setup, is_orderly: bool, bad: &[u32]) -> Left {
    let mut ops = script(3, setup.sectors(), 40, 60);
    if is_orderly {
        ops.push(Op::Close);
    }
    let left = Left {
        chip: setup.formatted_with(bad),
        model: Model::new(setup.sectors()),
        torn: Vec::new(),
    };
    left.session(setup, &ops, u64::MAX, "start").0
}

#[test]
fn what_a_mount_has_seen_and_lost_is_not_taken_for_what_came_after() {
    let starts = starts(start);
    for seed in seeds(1_000) {
        let (setup, start) = &starts[seed as usize % starts.len()];
        case(*setup, start, seed);
    }
}

/// A disk whose log has passed over a block that could not be erased, and has a page behind it that
/// was flushed. Nothing: there was no such erase.
fn behind_a_bad_block(setup: Setup, erase: u64) -> Option<Left> {
    let mut nand = Failing::new(setup.formatted(), erase..erase + 1, 0..0);
    let mut model = Model::new(setup.sectors());
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(&mut nand, &mut ram).unwrap();
    for op in writes(1, 200) {
        model.begin(&op);
        apply(&mut disk, &op).unwrap();
        model.end(&op);
        // If it was in a flush, it was that of a block for the log.
        if disk.nand().erased >= erase && op == Op::Flush {
            break;
        }
    }
    let left = Left {
        chip: nand.nand,
        model,
        torn: Vec::new(),
    };
    (nand.erased >= erase).then_some(left)
}

/// The page that was flushed is the only one that is complete, until a mount has repeated it.
#[test]
fn a_page_behind_a_bad_block_is_not_erased_before_it_is_repeated() {
    for setup in SETUPS {
        for erase in 1..12 {
            let Some(start) = behind_a_bad_block(setup, erase) else {
                break;
            };
            for seed in seeds(100) {
                case(setup, &start, seed);
            }
        }
    }
}

/// A short history of mounts and sessions that are cut, where what a cut leaves of a page can be
/// read so many times and then no more: often it goes while a mount looks for the log's end.
fn history(setup: Setup, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut chip = setup.formatted();
    let mut model = Model::new(setup.sectors());
    // Mounts in a row that did not come to their end.
    let mut cut_mounts = 0;
    for round in 0..24 {
        let after = match rng.below(3) {
            _ if cut_mounts == 4 => 60,
            0 => 5 + rng.below(20),
            _ => rng.below(6),
        };
        let mut is_mounted = false;
        let cut = Cut {
            after,
            program: Tear::Unstable {
                reads: 1 + rng.below(40) as u32,
            },
            erase: [EraseTear::NotBegun, EraseTear::Partial][rng.below(2) as usize],
            seed: round,
        };
        let ops = writes(1 + 100 * round as u32, 20);
        let id = format!("FLASHKIT_REPLAY={seed} ({}), round {round}", setup.name);
        let mut nand = PowerCut::new(chip, cut);
        let mut ram = setup.ram();
        let ran = Jftl::mount(&mut nand, &mut ram).and_then(|mut disk| {
            assert_eq!(disk.damage(), None, "{id}");
            is_mounted = true;
            (model.compare(&mut disk, true)).unwrap_or_else(|e| panic!("{id}: {e}"));
            run(&mut disk, &mut model, &ops)
        });
        if let Err(e) = ran
            && !matches!(e, Error::Flash(CutError::PowerOff))
        {
            panic!("{id}: {e:?}");
        }
        cut_mounts = if is_mounted { 0 } else { cut_mounts + 1 };
        chip = nand.into_inner();
    }
}

#[test]
fn a_page_that_goes_while_it_is_looked_for_takes_no_other_with_it() {
    for seed in seeds(600) {
        history(SETUPS[seed as usize % 2], seed);
    }
}
