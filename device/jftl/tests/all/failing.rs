//! Programs and erases that fail: several in a row, wherever that is, and so many blocks in a
//! chip's life as it may lose, with cuts in between. The disk goes on. `FLASHKIT_FULL=1` has
//! failures everywhere.

use std::ops::Range;

use crate::common::{Model, Op, SETUPS, Setup, run, script, seeds};
use flashkit_jftl::{Error, Jftl, MapCache};
use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::{
    Cut, CutError, EraseTear, Faults, PowerCut, Rate, Rng, SimError, SimNand, Tear,
};

/// Fails the erases with the given numbers, and the programs; some pages cannot be read.
pub struct Failing {
    pub nand: SimNand,
    erases: Range<u64>,
    programs: Range<u64>,
    pub erased: u64,
    programmed: u64,
    /// A page whose program fails can be read all the same.
    pub leaves: bool,
    pub unreadable: Vec<PageAddr>,
    /// So many reads are to be in vain, of whatever page, after so many others.
    pub blind: u32,
    pub sees: u32,
}

impl Failing {
    pub fn new(nand: SimNand, erases: Range<u64>, programs: Range<u64>) -> Failing {
        Failing {
            nand,
            erases,
            programs,
            erased: 0,
            programmed: 0,
            leaves: false,
            unreadable: Vec::new(),
            blind: 0,
            sees: 0,
        }
    }
}

impl Nand for Failing {
    type Error = SimError;

    fn geometry(&self) -> Geometry {
        self.nand.geometry()
    }

    fn correctable_bits(&self) -> u32 {
        self.nand.correctable_bits()
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, SimError> {
        let is_blind = self.sees == 0 && self.blind > 0;
        self.sees = self.sees.saturating_sub(1);
        if is_blind || self.unreadable.contains(&page) {
            self.blind = self.blind.saturating_sub(1);
            return Ok(ReadStatus::Uncorrectable);
        }
        self.nand.read(page, offset, data, spare)
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, SimError> {
        self.programmed += 1;
        if self.programs.contains(&self.programmed) {
            if self.leaves {
                self.nand.program(page, data, spare)?;
            }
            return Ok(OpStatus::Failed);
        }
        self.nand.program(page, data, spare)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, SimError> {
        self.erased += 1;
        if self.erases.contains(&self.erased) {
            return Ok(OpStatus::Failed);
        }
        self.nand.erase(block)
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, SimError> {
        self.nand.is_bad(block)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), SimError> {
        self.nand.mark_bad(block)
    }
}

/// A chip that may lose six blocks.
fn setup() -> Setup {
    Setup {
        blocks: 300,
        ..SETUPS[0]
    }
}

/// A session that is left, a recovery, another session, and an orderly end; how many erases and
/// programs that took. Nothing: no good block was left, and the disk could only be read.
fn sessions(
    start: &(SimNand, Model),
    erases: Range<u64>,
    programs: Range<u64>,
) -> Option<(u64, u64)> {
    let (nand, mut model) = start.clone();
    let id = format!("erases {erases:?}, programs {programs:?}");
    let mut nand = Failing::new(nand, erases, programs);
    let sectors = setup().sectors();
    for round in 0..3 {
        let mut ram = setup().ram();
        let mut disk = Jftl::mount(&mut nand, &mut ram).unwrap_or_else(|e| panic!("{id}: {e:?}"));
        let compared = model.compare(&mut disk, true);
        assert_eq!(compared, Ok(()), "{id}, round {round}");
        let ops = script(round, sectors, 8, 40);
        let done = run(&mut disk, &mut model, &ops).and_then(|()| match round {
            1 => disk.close(),
            _ => Ok(()),
        });
        match done {
            Ok(()) if disk.damage().is_none() => {}
            Err(Error::Full) => {
                let compared = model.compare(&mut disk, true);
                assert_eq!(compared, Ok(()), "{id}, for reading");
                return None;
            }
            other => panic!("{id}: {other:?} {:?}", disk.damage()),
        }
        if round == 1 {
            model.end(&Op::Close);
        }
    }
    Some((nand.erased, nand.programmed))
}

/// Three blocks of the log are set aside, and three for the next anchor.
#[test]
fn failures_in_a_row_do_not_end_the_disk() {
    let setup = setup();
    let mut chip = setup.formatted();
    let mut model = Model::new(setup.sectors());
    {
        let mut ram = setup.ram();
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
        let ops = script(9, setup.sectors(), setup.sectors(), 400);
        run(&mut disk, &mut model, &ops).unwrap();
    }
    let start = (chip, model);
    let (erases, programs) = sessions(&start, 0..0, 0..0).unwrap();
    assert!(erases > 20 && programs > 150, "{erases} {programs}");
    let (counts, stride) = if full() { (1..=6, 1) } else { (2..=2, 3) };
    let mut ended = 0;
    for first in 1..=erases {
        for count in counts.clone() {
            let done = sessions(&start, first..first + count, 0..0);
            assert!(
                done.is_some() || count > 2,
                "erases {first}, {count} in a row"
            );
            ended += u32::from(done.is_none());
        }
        ended += u32::from(sessions(&start, first..first + 6, 0..0).is_none());
    }
    for first in (1..=programs).step_by(stride) {
        for count in counts.clone() {
            let done = sessions(&start, 0..0, first..first + count);
            assert!(
                done.is_some() || count > 2,
                "programs {first}, {count} in a row"
            );
        }
    }
    // All that could take an anchor was hit at once: at the first mount, and where another of the
    // blocks for anchors had gone bad before.
    assert!(ended > 0);
}

/// So many blocks go bad, one after another, as a chip may lose, and there is cut after cut, also
/// in recoveries. Blocks for anchors are erased most, and so it hits them. (The three that could
/// take an anchor fail in a row once in 216,000 anchors.)
#[test]
fn so_many_blocks_as_a_chip_may_lose_do_not_end_the_disk() {
    let seeds = if full() { 0..1_000 } else { 0..16 };
    for seed in seeds {
        let in_band = Setup {
            blocks: 100 + 100 * (seed as u32 / 2 % 4),
            ..SETUPS[2]
        };
        let mut rng = Rng::new(seed);
        lose_blocks(
            if seed % 2 == 0 { setup() } else { in_band },
            seed,
            &mut rng,
        )
        .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

/// Mounts that are cut make the list of the log's blocks long; one that comes to its end must make
/// it short again, and a block whose first page fails must not take another's place in it. So with
/// four mounts cut in a row at most, any program and any erase of the next one may fail.
#[test]
fn a_failure_in_a_mount_after_cuts_does_not_end_the_disk() {
    let seeds = if full() { 0..4_000 } else { 0..200 };
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let setup = setup();
        let mut chip = setup.formatted();
        let mut model = Model::new(setup.sectors());
        for round in 0..12 {
            let id = format!("seed {seed}, round {round}");
            for cut_mounts in (0..=rng.below(5)).rev() {
                let (erases, programs) = mounted(setup, &chip, 0..0, 0..0, &id);
                // The last one is cut in what follows.
                let (begin, most) = match cut_mounts {
                    0 => (erases + programs, [12, 24, 80][rng.below(3) as usize]),
                    _ => (0, erases + programs),
                };
                let cut = Cut {
                    after: begin + rng.below(most.max(1)),
                    program: [Tear::Complete, Tear::Garbage][rng.below(2) as usize],
                    erase: EraseTear::Partial,
                    seed: round,
                };
                let ops = script(100 * seed + round, setup.sectors(), 8, 30);
                let mut nand = PowerCut::new(chip, cut);
                let _ = session(setup, &mut nand, &mut model, &ops);
                chip = nand.into_inner();
            }
            let (erases, programs) = mounted(setup, &chip, 0..0, 0..0, &id);
            for first in 1..=erases {
                mounted(setup, &chip, first..first + 1, 0..0, &id);
            }
            for first in 1..=programs {
                mounted(setup, &chip, 0..0, first..first + 1, &id);
            }
        }
    }
}

/// Sessions that a cut ends before they have flushed anything leave the log where the mount has
/// written it last, and mounts in between come to their end, or are cut: four in a row at most. The
/// list of the log's blocks must not fill up with copies of its last page, nor the disk with blocks
/// that a mount has opened for cleaning.
#[test]
fn mounts_and_sessions_that_write_little_do_not_end_the_disk() {
    let whole = Setup {
        blocks: 90,
        pages: 20,
        ..SETUPS[0]
    };
    let in_band = Setup {
        blocks: 248,
        pages: 20,
        ..SETUPS[2]
    };
    let pieces = Setup {
        cache: MapCache::Pieces(5),
        ..in_band
    };
    let setups = [whole, in_band, pieces, SETUPS[1]];
    for seed in seeds(300) {
        let setup = setups[seed as usize % setups.len()];
        little(setup, seed / 4 % 2 == 1, seed)
            .unwrap_or_else(|why| panic!("FLASHKIT_REPLAY={seed} ({}): {why}", setup.name));
    }
}

/// Such sessions on a disk that is full, or nearly empty. An erase and a program of each mount may
/// fail.
fn little(setup: Setup, is_full: bool, seed: u64) -> Result<(), String> {
    let (mut rng, mut fail) = (Rng::new(seed), Rng::new(!seed));
    let mut chip = setup.formatted();
    let sectors = setup.sectors();
    let mut model = Model::new(sectors);
    let fill = if is_full { sectors } else { 8 };
    let mut ops = script(seed, sectors, fill, 200);
    ops.push(Op::Flush);
    session(setup, &mut chip, &mut model, &ops).map_err(|e| format!("begin: {e:?}"))?;
    let mut cut_mounts = 0;
    for round in 0..40 {
        let id = format!("FLASHKIT_REPLAY={seed} ({}), round {round}", setup.name);
        let (erases, programs) = mounted(setup, &chip, 0..0, 0..0, &id);
        let erase = 1 + fail.below(erases.max(1));
        mounted(setup, &chip, erase..erase + 1, 0..0, &id);
        let program = 1 + fail.below(programs.max(1));
        mounted(setup, &chip, 0..0, program..program + 1, &id);
        let is_cut = cut_mounts < 4 && !rng.one_in(3);
        cut_mounts = if is_cut { cut_mounts + 1 } else { 0 };
        let most = [2, 6, 60][rng.below(3) as usize];
        let cut = Cut {
            after: if is_cut {
                rng.below((erases + programs).max(1))
            } else {
                erases + programs + rng.below(most)
            },
            program: [Tear::Complete, Tear::Garbage, Tear::Unstable { reads: 30 }]
                [rng.below(3) as usize],
            erase: EraseTear::Partial,
            seed: round,
        };
        let version = 1_000 + 100 * round as u32;
        let ops: Vec<Op> = (0..30)
            .map(|i| Op::Write(rng.below(u64::from(sectors)) as u32, 1, version + i))
            .chain([Op::Flush])
            .collect();
        let mut nand = PowerCut::new(chip, cut);
        let mut ram = setup.ram();
        let ran = Jftl::mount(&mut nand, &mut ram).and_then(|mut disk| {
            if let Some(damage) = disk.damage() {
                return Ok(Err(damage.to_string()));
            }
            match model.compare(&mut disk, true) {
                Err(e) if e.contains("PowerOff") => Err(CutError::PowerOff.into()),
                Err(e) => Ok(Err(e)),
                Ok(()) => run(&mut disk, &mut model, &ops).map(Ok),
            }
        });
        match ran {
            Ok(compared) => compared.map_err(|e| format!("round {round}: {e}"))?,
            Err(Error::Flash(CutError::PowerOff)) => {}
            Err(e) => return Err(format!("round {round}: {e:?}")),
        }
        chip = nand.into_inner();
    }
    Ok(())
}

/// Mounts a copy, where some erases and programs fail; how many there were. It is whole.
fn mounted(
    setup: Setup,
    chip: &SimNand,
    erases: Range<u64>,
    programs: Range<u64>,
    id: &str,
) -> (u64, u64) {
    let id = format!("{id}, erases {erases:?}, programs {programs:?}");
    let mut nand = Failing::new(chip.clone(), erases, programs);
    let mut ram = setup.ram();
    let mounted = Jftl::mount(&mut nand, &mut ram).map(|disk| disk.damage());
    assert_eq!(mounted, Ok(None), "{id}");
    (nand.erased, nand.programmed)
}

fn lose_blocks(setup: Setup, seed: u64, rng: &mut Rng) -> Result<(), String> {
    let mut chip = setup.chip();
    let sectors = setup.sectors();
    Jftl::format(&mut chip, &mut setup.ram(), 7).unwrap();
    let mut model = Model::new(sectors);
    // A full disk: what goes bad, and what takes the anchors, is missing for cleaning.
    let ops = [Op::Write(0, sectors, 1), Op::Close];
    session(setup, &mut chip, &mut model, &ops).unwrap();
    chip.set_faults(Faults {
        seed,
        program_fail: Rate(1_000),
        erase_fail: Rate(60),
        failing_max: setup.blocks / 50,
        ..Faults::default()
    })
    .unwrap();
    for cycle in 0..60 {
        let most = [8, 40, 200, 1_500][rng.below(4) as usize];
        // Cut after cut makes the log long: now and then a session comes to its end.
        let cut = Cut {
            after: if cycle % 4 == 3 {
                u64::MAX
            } else {
                rng.below(most)
            },
            program: [Tear::Complete, Tear::Garbage, Tear::Unstable { reads: 30 }]
                [rng.below(3) as usize],
            erase: EraseTear::Partial,
            seed: cycle,
        };
        let ops = script(seed * 100 + cycle, sectors, 8, 400);
        let mut nand = PowerCut::new(chip, cut);
        let done = session(setup, &mut nand, &mut model, &ops);
        chip = nand.into_inner();
        match done {
            Ok(()) | Err(Error::Flash(CutError::PowerOff)) => {}
            Err(e) => return Err(format!("cycle {cycle}: {e:?}")),
        }
        let mut ram = setup.ram();
        let mut copy = chip.clone();
        let mut disk = Jftl::mount(&mut copy, &mut ram).map_err(|e| format!("{cycle}: {e:?}"))?;
        if let Some(damage) = disk.damage() {
            return Err(format!("cycle {cycle}: {damage}"));
        }
        (model.compare(&mut disk, true)).map_err(|e| format!("cycle {cycle}: {e}"))?;
    }
    Ok(())
}

/// A mount and a script, until they end or are cut.
fn session<N: Nand>(
    setup: Setup,
    nand: &mut N,
    model: &mut Model,
    ops: &[Op],
) -> Result<(), Error<N::Error>> {
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(nand, &mut ram)?;
    run(&mut disk, model, ops)
}

/// A driver whose answer to one program is lost: the page is there.
struct Mute {
    chip: SimNand,
    programs: u64,
    fails: u64,
    /// Programs and erases since.
    after: u32,
}

impl Nand for Mute {
    type Error = Lost;

    fn geometry(&self) -> Geometry {
        self.chip.geometry()
    }

    fn correctable_bits(&self) -> u32 {
        self.chip.correctable_bits()
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, Lost> {
        (self.chip.read(page, offset, data, spare)).map_err(|e| panic!("{e:?}"))
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, Lost> {
        self.programs += 1;
        self.after += u32::from(self.programs > self.fails);
        let status = self.chip.program(page, data, spare).unwrap();
        if self.programs == self.fails {
            return Err(Lost);
        }
        Ok(status)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Lost> {
        self.after += u32::from(self.programs >= self.fails);
        Ok(self.chip.erase(block).unwrap())
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, Lost> {
        Ok(self.chip.is_bad(block).unwrap())
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Lost> {
        self.chip.mark_bad(block).unwrap();
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Lost;

/// After an error of the driver the disk is read, to copy it, with a part of the map in RAM. What
/// has changed in that part stays where it is: written after the error, the log would go over the
/// page that met it, and the next mount would find the volume in pieces.
#[test]
fn reads_after_an_error_change_nothing() {
    let setup = SETUPS[1];
    let sectors = setup.sectors();
    let mut start = (setup.formatted(), Model::new(sectors));
    let (mut ram, ops) = (setup.ram(), [Op::Write(0, sectors, 1), Op::Close]);
    run(
        &mut Jftl::mount(&mut start.0, &mut ram).unwrap(),
        &mut start.1,
        &ops,
    )
    .unwrap();
    for fails in (1..400).step_by(3) {
        let (chip, mut model) = start.clone();
        let mut driver = Mute {
            chip,
            programs: 0,
            fails,
            after: 0,
        };
        let mut ram = setup.ram();
        let mut disk = Jftl::mount(&mut driver, &mut ram).unwrap();
        let mut rng = Rng::new(fails);
        let writes = (2..).map(|version| Op::Write(rng.below(sectors.into()) as u32, 1, version));
        let ops: Vec<_> = writes.take(1_000).collect();
        let ended = run(&mut disk, &mut model, &ops);
        assert_eq!(ended, Err(Error::Flash(Lost)), "program {fails}");
        for sector in 0..sectors {
            disk.read(sector, &mut [0; 512]).unwrap();
        }
        assert_eq!(disk.write(0, &[3; 512]), Err(Error::Latched));
        assert_eq!(driver.after, 0, "program {fails}");
        let mut ram = setup.ram();
        let mut disk = Jftl::mount(&mut driver.chip, &mut ram).unwrap();
        let compared = model.compare(&mut disk, true);
        assert_eq!(compared, Ok(()), "program {fails}");
    }
}

fn full() -> bool {
    std::env::var_os("FLASHKIT_FULL").is_some_and(|v| v == "1")
}
