//! Lives of disks: chips of many shapes, with bad blocks from the factory, full or nearly empty,
//! cut again and again. Meanwhile reads fail for a while, blocks go bad, bits rot, the driver
//! returns errors, the map has another part of the RAM, and nothing is done in a session, or
//! transactions. What was flushed is there, and all else as it was at one moment since. Reads that
//! fail once, and not when they are done again, lose nothing.
//!
//! `FLASHKIT_FULL=1` has more of them; a failure prints a seed, and `FLASHKIT_REPLAY=seed` repeats
//! it.

use std::collections::BTreeMap;

use crate::common::{Setup, content, seeds};
use crate::rough::{Gone, Rough, Wrong};
use flashkit_jftl::{Damage, Error, Jftl, MapCache, ram_bytes};
use flashkit_nand::{BlockAddr, Nand};
use flashkit_sim::spi::CopyRange;
use flashkit_sim::{Cut, CutError, EraseTear, PowerCut, Rng, Rot, SimNand, Tear};

/// What a sector holds: the contents of a sector in a version.
type Held = (u32, u32);

/// What a disk may hold: of each sector that was changed since the last flush, what it held at
/// which moment. The state after a cut is that of one moment.
#[derive(Clone)]
struct Model {
    held: Vec<Held>,
    since: BTreeMap<u32, Vec<(u32, Held)>>,
    now: u32,
    /// Sectors may be errors, as pages could not be read.
    may_lose: bool,
}

impl Model {
    fn new(sectors: u32) -> Model {
        Model {
            held: vec![(0, 0); sectors as usize],
            since: BTreeMap::new(),
            now: 0,
            may_lose: false,
        }
    }

    fn newest(&self, sector: u32) -> Held {
        let since = self.since.get(&sector);
        since.map_or(self.held[sector as usize], |all| all.last().unwrap().1)
    }

    /// At the next moment a sector holds something else; with `joins` at this one.
    fn change(&mut self, sector: u32, held: Held, joins: bool) {
        self.now += u32::from(!joins);
        self.since.entry(sector).or_default().push((self.now, held));
    }

    /// All that was changed is durable.
    fn flushed(&mut self) {
        for (sector, all) in std::mem::take(&mut self.since) {
            self.held[sector as usize] = all.last().unwrap().1;
        }
    }

    /// The state that a mount has found: that of a moment. It stays.
    fn found(&mut self, found: &[Option<Held>]) -> Result<(), String> {
        let first = self.since.values().map(|all| all[0].0).min();
        let moments = first.unwrap_or(self.now + 1) - 1..=self.now;
        let at = |sector: u32, moment: u32| {
            let since = self.since.get(&sector).into_iter().flatten();
            let last = since.take_while(|(when, _)| *when <= moment).last();
            last.map_or(self.held[sector as usize], |(_, held)| *held)
        };
        let fits = |sector: u32, moment| {
            let found = found[sector as usize];
            found.is_none() || found == Some(at(sector, moment))
        };
        for sector in (0..found.len() as u32).filter(|s| !self.since.contains_key(s)) {
            if !fits(sector, 0) {
                let held = self.held[sector as usize];
                return Err(format!(
                    "sector {sector}: {:?}, not {held:?}",
                    found[sector as usize]
                ));
            }
        }
        let moment = moments.into_iter().find(|moment| {
            let mut changed = self.since.keys();
            changed.all(|sector| fits(*sector, *moment))
        });
        let Some(moment) = moment else {
            let changed = self.since.iter();
            let all: Vec<_> = changed
                .map(|(s, all)| (s, found[*s as usize], all))
                .collect();
            return Err(format!("of no moment: {all:?}"));
        };
        let now: Vec<Held> = (0..found.len() as u32).map(|s| at(s, moment)).collect();
        self.held = now;
        self.since.clear();
        Ok(())
    }
}

type Disk<'a, 'b> = Jftl<'a, &'b mut Rough>;

/// What each sector holds; none: it cannot be read.
fn look(disk: &mut Disk<'_, '_>, model: &Model) -> Result<Vec<Option<Held>>, Error<Gone>> {
    let len = disk.sector_size() as usize;
    let mut all = Vec::new();
    for sector in 0..disk.sector_count() {
        let mut bytes = vec![0xEE; len];
        let read = disk.read(sector, &mut bytes);
        let read = match read {
            // Once more: it may have failed on the way.
            Err(Error::Unreadable { .. }) => disk.read(sector, &mut bytes),
            read => read,
        };
        match read {
            Ok(()) => {}
            Err(Error::Unreadable { .. }) if model.may_lose => {
                all.push(None);
                continue;
            }
            Err(e) => return Err(e),
        }
        let may = [(sector, 0), model.held[sector as usize]];
        let since = model
            .since
            .get(&sector)
            .into_iter()
            .flatten()
            .map(|(_, held)| *held);
        let held = may
            .into_iter()
            .chain(since)
            .find(|(of, v)| content(*of, *v, len) == bytes);
        // Zeros are those of any sector.
        let held = held.map(|(of, v)| if v == 0 { (0, 0) } else { (of, v) });
        all.push(Some(held.unwrap_or((
            u32::MAX,
            u32::from_le_bytes(bytes[..4].try_into().unwrap()),
        ))));
    }
    Ok(all)
}

/// One thing that is done with a disk.
fn act(
    disk: &mut Disk<'_, '_>,
    model: &mut Model,
    rng: &mut Rng,
    version: &mut u32,
) -> Result<(), Error<Gone>> {
    let sectors = disk.sector_count();
    let len = disk.sector_size() as usize;
    let hot = (sectors / 8).max(4);
    *version += 1;
    match rng.below(32) {
        0..=2 => {
            let most = if rng.one_in(8) { 40 } else { 4 };
            let count = 1 + rng.below(most) as u32;
            let first = rng.below(u64::from(sectors)) as u32;
            let count = count.min(sectors - first);
            for sector in first..first + count {
                model.change(sector, (0, 0), false);
            }
            disk.trim(first, count)
        }
        3..=6 => {
            disk.flush()?;
            model.flushed();
            Ok(())
        }
        7 => disk.background().map(drop),
        8 if rng.one_in(4) => {
            disk.close()?;
            model.flushed();
            Ok(())
        }
        9 => (0..rng.below(40) as u32).try_for_each(|n| disk.patrol(n * 3).map(drop)),
        10 | 11 => transact(disk, model, rng, *version),
        12 => {
            let sector = rng.below(u64::from(sectors)) as u32;
            match disk.read(sector, &mut vec![0; len]) {
                Err(Error::Unreadable { .. })
                    if model.may_lose || disk.nand().wrong.once.is_some() =>
                {
                    Ok(())
                }
                other => other,
            }
        }
        _ => {
            let within = if rng.one_in(2) { hot } else { sectors };
            let first = rng.below(u64::from(within)) as u32;
            let count = if rng.one_in(6) {
                1 + rng.below(20) as u32
            } else {
                1
            };
            let count = count.min(sectors - first);
            let mut data = Vec::new();
            for sector in first..first + count {
                model.change(sector, (sector, *version), false);
                data.extend(content(sector, *version, len));
            }
            disk.write(first, &data)
        }
    }
}

/// A transaction of few homes or of as many as are allowed, in one place or all over the disk.
fn transact(
    disk: &mut Disk<'_, '_>,
    model: &mut Model,
    rng: &mut Rng,
    version: u32,
) -> Result<(), Error<Gone>> {
    let (sectors, len) = (disk.sector_count(), disk.sector_size() as usize);
    let area = sectors / 3;
    let most = disk.remap_max().min(area - 1);
    let count = match rng.below(4) {
        0 => most,
        1 => 1 + rng.below(u64::from(most)) as u32,
        _ => (1 + rng.below(12) as u32).min(most),
    };
    // A third for the journal, two for homes.
    let stride = if rng.one_in(2) {
        1
    } else {
        (2 * area / count).max(1)
    };
    let first = rng.below(u64::from(area)) as u32;
    let homes = (0..count).map(|i| area + (first + i * stride) % (2 * area));
    let mut pairs: Vec<(u32, u32)> = homes.zip(0..).collect();
    pairs.sort_unstable();
    pairs.dedup_by_key(|pair| pair.0);
    let is_told = !rng.one_in(3);
    for (home, journal) in &pairs {
        model.change(*journal, (*home, version), false);
        let bytes = content(*home, version, len);
        if is_told {
            disk.write_for(*journal, *home, &bytes)?;
        } else {
            disk.write(*journal, &bytes)?;
        }
    }
    let given_up: &[(u32, u32)] = if rng.one_in(2) && (pairs.len() as u32) < most {
        &[(0, 1)]
    } else {
        &[]
    };
    let before = model.clone();
    model.now += 1;
    for (home, journal) in &pairs {
        let held = model.newest(*journal);
        model.change(*home, held, true);
    }
    for (first, _) in given_up {
        model.change(*first, (0, 0), true);
    }
    match disk.remap(&pairs, given_up) {
        Ok(()) => model.flushed(),
        // Before anything is changed.
        Err(Error::Full) if disk.damage().is_none() => {
            *model = before;
            return Err(Error::Full);
        }
        Err(e) => return Err(e),
    }
    Ok(())
}

/// A chip, its shape and what RAM its mounts may have.
fn shape(rng: &mut Rng) -> Setup {
    let is_large = rng.one_in(5);
    let mut setup = Setup {
        name: "life",
        page: if is_large { 2048 } else { 512 },
        spare: if rng.one_in(3) { 0 } else { 8 },
        pages: [8, 8, 16, 20, 32][rng.below(5) as usize],
        blocks: [48, 64, 90, 120, 200, 256][rng.below(6) as usize],
        cache: MapCache::Whole,
        copies: [CopyRange::Nothing, CopyRange::Parity, CopyRange::All][rng.below(3) as usize],
    };
    if is_large {
        (setup.pages, setup.blocks) = (8, 120);
    }
    while ram_bytes(&setup.chip().geometry(), setup.cache).is_err() {
        setup.blocks += 8;
    }
    setup
}

const PROGRAMS: [Tear; 6] = [
    Tear::NotBegun,
    Tear::Complete,
    Tear::Garbage,
    Tear::Unstable { reads: 3 },
    Tear::Unstable { reads: 30 },
    Tear::LooksBlank,
];
const ERASES: [EraseTear; 4] = [
    EraseTear::Partial,
    EraseTear::LooksErased,
    EraseTear::NotBegun,
    EraseTear::Complete,
];

/// What has been met.
#[derive(Debug, Default)]
struct Met {
    sessions: u64,
    cuts: u64,
    cuts_in_mounts: u64,
    errors: u64,
    unreadable: u64,
    failed: usize,
    ended: u64,
    damaged: u64,
}

struct Life {
    setup: Setup,
    rng: Rng,
    model: Model,
    version: u32,
    budget: usize,
    /// Mounts in a row that did not come to their end.
    cut_mounts: u32,
    /// Pieces of the map that the session before had in RAM; none: all of it.
    pieces: Option<u32>,
    is_orderly: bool,
    has_failed: bool,
    /// Many mounts, and little in between.
    is_hasty: bool,
    met: Met,
}

/// How a session ended.
enum End {
    On,
    /// Nothing can be written any more, as is allowed.
    Over,
}

impl Life {
    fn draw(&mut self) -> (Option<Cut>, Wrong) {
        let rng = &mut self.rng;
        let after = match rng.below(4) {
            _ if self.cut_mounts == 4 => 60 + rng.below(100),
            0 => rng.below(6),
            _ if self.is_hasty => rng.below(20),
            1 => rng.below(30),
            2 => rng.below(200),
            _ => rng.below(1_500),
        };
        let cut = Cut {
            after,
            program: PROGRAMS[rng.below(6) as usize],
            erase: ERASES[rng.below(4) as usize],
            seed: rng.next_u64(),
        };
        let cut = (!rng.one_in(4)).then_some(cut);
        let from = rng.below(1_500);
        let is_error = rng.one_in(6) && self.cut_mounts < 4;
        let wrong = Wrong {
            unreadable: None,
            once: rng.one_in(4).then(|| 1 + rng.below(300)),
            rots: rng.one_in(5).then(|| 1 + rng.below(200)),
            errors: if is_error {
                from..from + 1 + rng.below(3)
            } else {
                0..0
            },
            fails: (self.budget > 0 && rng.one_in(3)).then(|| 20 + rng.below(200)),
        };
        (cut, wrong)
    }

    /// Mounts a copy while reads fail: there is a disk, whatever they hide. What was not written is
    /// as it was.
    fn peek(&mut self, chip: &SimNand) -> Result<(), String> {
        let wrong = Wrong {
            unreadable: Some((1 + self.rng.below(12), 0..self.rng.below(3_000))),
            ..Wrong::default()
        };
        let seed = self.rng.next_u64();
        let mut rough = Rough::new(PowerCut::never(chip.clone()), wrong, seed, 0);
        let mut ram = self.setup.ram();
        match Jftl::mount(&mut rough, &mut ram).map(drop) {
            Ok(()) | Err(Error::Damaged { .. }) => {}
            Err(e) => return Err(format!("peek: {e:?}")),
        }
        if rough.nand.ops() > 0 {
            return Ok(());
        }
        rough.wrong = Wrong::default();
        let mut disk = Jftl::mount(&mut rough, &mut ram).map_err(|e| format!("peeked: {e:?}"))?;
        let mut model = self.model.clone();
        let found = look(&mut disk, &model).map_err(|e| format!("peeked: {e:?}"))?;
        model.found(&found).map_err(|e| format!("peeked: {e}"))
    }

    /// Mounts a copy of which no block can be erased any more: all is there, in any order.
    fn worn(&mut self, chip: &SimNand) -> Result<(), String> {
        let mut rough = Rough::new(PowerCut::never(chip.clone()), Wrong::default(), 0, 0);
        rough.is_worn = true;
        let cache = self.pieces.map_or(MapCache::Whole, MapCache::Pieces);
        let mut ram = Setup {
            cache,
            ..self.setup
        }
        .ram();
        let mut disk = Jftl::mount(&mut rough, &mut ram).map_err(|e| format!("worn: {e:?}"))?;
        if let Some(Damage::Page { .. }) = disk.damage() {
            return Err(format!("worn: {:?}", disk.damage()));
        }
        let mut model = self.model.clone();
        for _ in 0..2 {
            let found = look(&mut disk, &model).map_err(|e| format!("worn: {e:?}"))?;
            model.found(&found).map_err(|e| format!("worn: {e}"))?;
        }
        Ok(())
    }

    /// A copy is formatted with the same number, and the power may go meanwhile: then it is
    /// formatted again. Nothing of the disk before is left.
    fn anew(&mut self, chip: &SimNand, volume: u32) -> Result<(), String> {
        let cut = Cut {
            after: self.rng.below(40),
            program: PROGRAMS[self.rng.below(6) as usize],
            erase: ERASES[self.rng.below(4) as usize],
            seed: self.rng.next_u64(),
        };
        let mut ram = self.setup.ram();
        let mut nand = PowerCut::new(chip.clone(), cut);
        let first = Jftl::format(&mut nand, &mut ram, volume).err();
        let is_cut = nand.is_off();
        let mut chip = nand.into_inner();
        let again = is_cut.then(|| Jftl::format(&mut chip, &mut ram, volume).err());
        match (again.flatten(), first) {
            // Of the first four blocks two have gone bad.
            (Some(Error::Config(_)), _) | (_, Some(Error::Config(_))) if self.has_failed => {
                return Ok(());
            }
            (None, None | Some(Error::Flash(CutError::PowerOff))) => {}
            ended => return Err(format!("format: {ended:?}")),
        }
        let mut bytes = vec![0; self.setup.page as usize];
        for session in 0..3 {
            let mut disk = Jftl::mount(&mut chip, &mut ram).map_err(|e| format!("anew: {e:?}"))?;
            for sector in 0..disk.sector_count() {
                let read = disk.read(sector, &mut bytes);
                if read.is_err() || bytes.iter().any(|byte| *byte != 0) {
                    return Err(format!("anew, {session}: sector {sector}: {read:?}"));
                }
            }
            // It is begun, and left.
            let written = disk.write(0, &vec![0; self.setup.page as usize]);
            written.map_err(|e| format!("anew: {e:?}"))?;
            let written = disk.write(1, &vec![1; self.setup.page as usize]);
            let written = written
                .and_then(|()| disk.trim(1, 1))
                .and_then(|()| disk.flush());
            written.map_err(|e| format!("anew: {e:?}"))?;
        }
        Ok(())
    }

    fn ram(&mut self) -> Vec<u8> {
        let pieces = match (self.is_orderly, self.pieces) {
            (true, _) => (!self.rng.one_in(3)).then(|| 4 + self.rng.below(3) as u32),
            // As much as before, or more.
            (false, Some(pieces)) => (!self.rng.one_in(3)).then_some(pieces),
            (false, None) => None,
        };
        self.pieces = pieces;
        let cache = pieces.map_or(MapCache::Whole, MapCache::Pieces);
        Setup {
            cache,
            ..self.setup
        }
        .ram()
    }

    fn session(&mut self, chip: SimNand) -> Result<(SimNand, End), String> {
        let (cut, wrong) = self.draw();
        let mut ram = self.ram();
        let nand = cut.map_or(PowerCut::never(chip.clone()), |cut| {
            PowerCut::new(chip, cut)
        });
        let mut rough = Rough::new(nand, wrong, self.rng.next_u64(), self.budget);
        self.met.sessions += 1;
        let was_orderly = std::mem::take(&mut self.is_orderly);
        let is_once = rough.wrong.once.is_some();
        let mounted = Jftl::mount(&mut rough, &mut ram);
        let ended = match mounted {
            Ok(mut disk) => {
                self.cut_mounts = 0;
                self.work(&mut disk)
            }
            Err(Error::Flash(gone)) => {
                self.cut_mounts += 1;
                self.met.cuts_in_mounts += u64::from(gone == Gone::Off);
                Ok(End::On)
            }
            // Another one reads it.
            Err(Error::Damaged { .. }) if is_once => Ok(End::On),
            Err(e) => Err(format!("mount: {e:?}")),
        }?;
        let is_as_before = was_orderly && rough.nand.ops() == 0;
        self.is_orderly |= is_as_before;
        self.budget -= rough.failed.len();
        self.met.failed += rough.failed.len();
        self.has_failed |= !rough.failed.is_empty();
        self.met.errors += u64::from(rough.has_erred);
        self.met.cuts += u64::from(rough.nand.is_off());
        Ok((rough.nand.into_inner(), ended))
    }

    fn compare(&mut self, disk: &mut Disk<'_, '_>) -> Result<bool, String> {
        let found = match look(disk, &self.model) {
            Ok(found) => found,
            Err(Error::Flash(_)) => return Ok(false),
            Err(Error::Damaged { .. }) if disk.nand().wrong.once.is_some() => return Ok(false),
            Err(e) => return Err(format!("read: {e:?}")),
        };
        self.model.found(&found).map(|()| true)
    }

    fn work(&mut self, disk: &mut Disk<'_, '_>) -> Result<End, String> {
        match disk.damage() {
            None => {}
            // So many blocks at once that none was left for an anchor.
            Some(Damage::NoBlock) if self.has_failed || !disk.nand().failed.is_empty() => {
                return self.over(disk);
            }
            Some(Damage::Page { .. }) if disk.nand().wrong.once.is_some() => return Ok(End::On),
            Some(damage) => return Err(damage.to_string()),
        }
        if !self.compare(disk)? {
            return Ok(End::On);
        }
        if self.rng.one_in(6) {
            // A session that only reads.
            return Ok(End::On);
        }
        if self.rng.one_in(5) {
            let from = disk.nand().done + self.rng.below(400);
            let window = from..from + 1 + self.rng.below(300);
            disk.nand_mut().wrong.unreadable = Some((1 + self.rng.below(8), window));
            self.model.may_lose = true;
            self.met.unreadable += 1;
        }
        if self.rng.one_in(6) {
            self.rot(disk);
        }
        let most = [4, 40, 300][self.rng.below(3) as usize];
        let most = if self.is_hasty { 6 } else { most };
        for _ in 0..self.rng.below(most) {
            let wrong = &disk.nand().wrong;
            let has_window = wrong.unreadable.is_some() || wrong.once.is_some();
            match act(disk, &mut self.model, &mut self.rng, &mut self.version) {
                Ok(()) => {}
                Err(Error::Flash(Gone::Off)) => return Ok(End::On),
                Err(Error::Flash(Gone::Driver)) => return self.erred(disk),
                // The power went when a read pushed a piece of the map out.
                Err(Error::Latched) if disk.nand().nand.is_off() || disk.nand().has_erred => {
                    return Ok(End::On);
                }
                Err(Error::Damaged { .. } | Error::Latched) if has_window => {
                    self.met.damaged += 1;
                    return Ok(End::On);
                }
                Err(Error::Full) if self.has_failed || !disk.nand().failed.is_empty() => {
                    return self.over(disk);
                }
                Err(e) => return Err(format!("{e:?}, {} free", disk.free_blocks())),
            }
        }
        if self.rng.one_in(3) && disk.close().is_ok() {
            self.model.flushed();
            self.is_orderly = true;
            return Ok(End::On);
        }
        let Wrong {
            unreadable, once, ..
        } = &disk.nand().wrong;
        if !disk.nand().nand.is_off() && unreadable.is_none() && once.is_none() {
            disk.nand_mut().wrong = Wrong::default();
            disk.check().map_err(|e| format!("check: {e:?}"))?;
        }
        Ok(End::On)
    }

    /// Pages of sectors are lost: one, or many.
    fn rot(&mut self, disk: &mut Disk<'_, '_>) {
        let sectors = disk.sector_count();
        let first = self.rng.below(u64::from(sectors)) as u32;
        let stride = if self.rng.one_in(2) { sectors } else { 20 };
        for sector in (first..sectors).step_by(stride as usize) {
            if let Ok(Some(page)) = disk.page_of(sector) {
                let chip = disk.nand_mut().nand.inner_mut();
                chip.rot(page, Rot::Lost).unwrap();
                self.model.may_lose = true;
            }
        }
    }

    /// After an error of the driver all can be read, and nothing is written.
    fn erred(&mut self, disk: &mut Disk<'_, '_>) -> Result<End, String> {
        disk.nand_mut().wrong = Wrong::default();
        let after = disk.nand().after;
        let Ok(_) = look(disk, &self.model) else {
            return Ok(End::On);
        };
        if disk.nand().after != after
            && disk.write(0, &vec![3; disk.sector_size() as usize]) == Err(Error::Latched)
        {
            return Err("reads after an error have written".into());
        }
        Ok(End::On)
    }

    /// A disk that can only be read: all is there.
    fn over(&mut self, disk: &mut Disk<'_, '_>) -> Result<End, String> {
        self.met.ended += 1;
        disk.nand_mut().wrong = Wrong::default();
        let found = match look(disk, &self.model) {
            Ok(found) => found,
            Err(Error::Flash(_)) => return Ok(End::Over),
            Err(e) => return Err(format!("for reading: {e:?}")),
        };
        self.model.found(&found).map(|()| End::Over)
    }
}

/// A chip with blocks that are bad from the factory: one of the first four at most, and some right
/// behind them. How many more it may lose.
fn made(setup: Setup, rng: &mut Rng) -> (SimNand, usize) {
    let mut chip = setup.chip();
    let mut budget = (setup.blocks / 50) as usize;
    for _ in 0..rng.below(budget as u64 + 1) {
        let first = chip.is_bad(BlockAddr(rng.below(4) as u32)).unwrap();
        let block = if !first && budget == (setup.blocks / 50) as usize && rng.one_in(2) {
            rng.below(4) as u32
        } else {
            let most = if rng.one_in(2) {
                8
            } else {
                u64::from(setup.blocks) - 4
            };
            4 + rng.below(most) as u32
        };
        if !chip.is_bad(BlockAddr(block)).unwrap() {
            chip.mark_bad(BlockAddr(block)).unwrap();
            budget -= 1;
        }
    }
    (chip, budget)
}

fn life(seed: u64, met: Met) -> Result<Met, String> {
    let mut rng = Rng::new(seed);
    let setup = shape(&mut rng);
    let (mut chip, budget) = made(setup, &mut rng);
    let mut ram = setup.ram();
    Jftl::format(&mut chip, &mut ram, seed as u32).map_err(|e| format!("format: {e:?}"))?;
    let sectors = setup.sectors();
    let mut life = Life {
        setup,
        model: Model::new(sectors),
        version: 1,
        budget,
        cut_mounts: 0,
        pieces: None,
        is_orderly: true,
        has_failed: false,
        is_hasty: rng.one_in(3),
        met,
        rng,
    };
    let fill = sectors * [10, 60, 100][life.rng.below(3) as usize] / 100;
    {
        let mut rough = Rough::new(PowerCut::never(chip), Wrong::default(), 0, 0);
        let mut ram = life.ram();
        let mut disk = Jftl::mount(&mut rough, &mut ram).map_err(|e| format!("{e:?}"))?;
        let len = disk.sector_size() as usize;
        for sector in 0..fill {
            life.model.change(sector, (sector, 1), false);
            let written = disk.write(sector, &content(sector, 1, len));
            written.map_err(|e| format!("fill: {e:?}"))?;
        }
        disk.flush().map_err(|e| format!("fill: {e:?}"))?;
        life.model.flushed();
        life.is_orderly = false;
        chip = rough.nand.into_inner();
    }
    for round in 0..if life.is_hasty { 40 } else { 12 } {
        if life.rng.one_in(4) {
            let setup = life.setup;
            life.peek(&chip)
                .map_err(|why| format!("{setup:?}, session {round}: {why}"))?;
        }
        if life.rng.one_in(6) {
            let setup = life.setup;
            life.worn(&chip)
                .map_err(|why| format!("{setup:?}, session {round}: {why}"))?;
        }
        let setup = life.setup;
        let (left, end) =
            (life.session(chip)).map_err(|why| format!("{setup:?}, session {round}: {why}"))?;
        chip = left;
        if matches!(end, End::Over) {
            break;
        }
    }
    life.anew(&chip, seed as u32)
        .map_err(|why| format!("{setup:?}: {why}"))?;
    Ok(life.met)
}

#[test]
fn disks_hold_what_they_may_all_their_lives() {
    let mut met = Met::default();
    for seed in seeds(60) {
        met = life(seed, met).unwrap_or_else(|why| panic!("FLASHKIT_REPLAY={seed}: {why}"));
    }
    println!("{met:?}");
}
