//! Which segment is cleaned, and when.

use flashkit_nor::BankedNorFlash;

use crate::ram::{Segment, State};
use crate::{LogDisk, Start, Victim};

/// Accounts are kept in this many parts of their unit.
const SCALE: u64 = 256;

/// Which segments a bounded disk cleans while there is no haste: see [`crate::Config::bounded`].
#[derive(Clone, Copy)]
struct Limits {
    /// Most valid blocks.
    fullest: u32,
    /// Banks.
    banks: u64,
}

impl<F: BankedNorFlash> LogDisk<'_, F> {
    /// The segment to clean: one whose erase was cut, one for the sake of wear, one without valid
    /// blocks, or the policy's choice above the threshold. Forced, the policy's choice whatever its
    /// account, if there is anything to gain.
    pub(crate) fn select(&mut self, forced: bool) -> Option<u32> {
        let torn = self.find(|disk, segment| {
            disk.ram.segment(segment).state == State::Torn
                && !disk.is_erasing(disk.layout.bank_of(segment))
                && disk.can_announce(segment)
        });
        if torn.is_some() {
            return torn;
        }
        if forced && self.is_reserve_begun() {
            return self.most_dead();
        }
        let threshold = if forced { 0 } else { self.threshold()? };
        let calm = self.config.is_bounded() && !forced;
        let mut limits = Limits {
            fullest: if calm { self.mean_valid() } else { u32::MAX },
            banks: if calm {
                self.banks_to_spare()
            } else {
                u64::MAX
            },
        };
        // Never twice in a row: it gains nothing.
        self.levelled = !self.levelled && self.config.wear_gap > 0;
        if let Some(segment) = self.levelled.then(|| self.least_worn(limits)).flatten() {
            self.stats.segments_levelled += 1;
            return Some(segment);
        }
        self.levelled = false;
        let empty = self.find(|disk, segment| {
            disk.is_candidate(segment, limits) && disk.ram.segment(segment).valid == 0
        });
        if empty.is_some() {
            return empty;
        }
        let mut best = self.best(limits);
        if best.is_none() && calm && self.is_short() {
            limits.fullest = self.fullest_paid();
            best = self.best(limits);
        }
        if best.is_none() && (self.erasing == 0 || self.is_short()) {
            // No bank can be spared, and waiting will not change that.
            limits.banks = u64::MAX;
            best = self.best(limits);
        }
        if forced && best.is_none() && self.erasing == 0 {
            return self.most_dead();
        }
        let (segment, account) = best?;
        (account > threshold).then_some(segment)
    }

    /// The banks that may erase without a wait, a bit for each; those from
    /// the 64th on share theirs.
    fn banks_to_spare(&self) -> u64 {
        let spared = (0..self.layout.banks).filter(|bank| self.can_spare(*bank));
        spared.fold(0, |banks, bank| banks | 1 << bank.min(63))
    }

    /// Valid blocks of the fullest segment that [`crate::Config::moves_max`] pays for.
    fn fullest_paid(&self) -> u32 {
        let moves = u32::from(self.config.moves_max);
        self.layout.blocks * moves / (moves + 1)
    }

    /// Valid blocks of a closed segment on average, rounded down: one at least has no more.
    pub(crate) fn mean_valid(&self) -> u32 {
        let all = (0..self.layout.segments).map(|segment| self.ram.segment(segment));
        let closed = all.filter(|record| record.state == State::Closed);
        let (valid, count) = closed.fold((0, 0), |(sum, n), record| (sum + record.valid, n + 1));
        u32::checked_div(valid, count).unwrap_or(0)
    }

    /// Whether a segment may be cleaned: written to its end, in a bank that does not erase and may.
    fn is_candidate(&self, segment: u32, limits: Limits) -> bool {
        let bank = self.layout.bank_of(segment);
        self.ram.segment(segment).state == State::Closed
            && !self.is_erasing(bank)
            && limits.banks >> bank.min(63) & 1 == 1
            && self.can_announce(segment)
    }

    /// Whether an erase of a segment can be announced, perhaps once those under way are done: else
    /// cleaning it gains nothing.
    fn can_announce(&self, segment: u32) -> bool {
        self.erasing > 0 || self.has_intents(segment)
    }

    fn find(&self, is_it: impl Fn(&Self, u32) -> bool) -> Option<u32> {
        (0..self.layout.segments).find(|segment| is_it(self, *segment))
    }

    /// The account that a segment must exceed; `None` while there is enough free.
    fn threshold(&self) -> Option<u64> {
        match self.config.start {
            Start::Reserve { segments } => {
                (self.free + self.erasing < u32::from(segments)).then_some(0)
            }
            Start::Threshold {
                segments,
                account,
                curve,
            } => {
                let (n, free) = (u64::from(segments), u64::from(self.free));
                if free >= n {
                    return None;
                }
                // account x (1 - (1 - free / n) ^ curve), with 16 bits behind the point.
                let mut rest = 1 << 16;
                for _ in 0..curve {
                    rest = rest * (n - free) / n;
                }
                Some((u64::from(account) * SCALE * ((1 << 16) - rest)) >> 16)
            }
        }
    }

    /// The segment with the greatest account, among all or among some drawn by chance.
    fn best(&mut self, limits: Limits) -> Option<(u32, u64)> {
        let least = self.least_erases();
        let mut best: Option<(u32, u64)> = None;
        let mut consider = |disk: &Self, segment: u32| {
            let record = disk.ram.segment(segment);
            if !disk.is_candidate(segment, limits) || !disk.pays(&record, limits) {
                return;
            }
            let account = disk.account(&record, least);
            if best.is_none_or(|(_, most)| account > most) {
                best = Some((segment, account));
            }
        };
        for _ in 0..self.config.choices {
            let drawn = self.draw();
            consider(self, drawn);
        }
        if best.is_none() {
            let mut all = None;
            for segment in 0..self.layout.segments {
                let record = self.ram.segment(segment);
                if !self.is_candidate(segment, limits) || !self.pays(&record, limits) {
                    continue;
                }
                let account = self.account(&record, least);
                if all.is_none_or(|(_, most)| account > most) {
                    all = Some((segment, account));
                }
            }
            best = all;
        }
        best
    }

    /// The segment with the most dead blocks, of those whose valid ones find room elsewhere. Cuts
    /// have taken some of the reserve, and may have left all dead blocks in segments that are
    /// partly written. Such a one counts as well; it loses the blocks that are not written yet.
    fn most_dead(&self) -> Option<u32> {
        let dead = |segment: u32| {
            let record = self.ram.segment(segment);
            let idle = !self.is_erasing(self.layout.bank_of(segment));
            let unwritten = match record.state {
                State::Closed => 0,
                State::Open => self.layout.blocks - record.used,
                _ => return None,
            };
            let fits = record.valid + unwritten <= self.total_room();
            let dead = record.used - record.valid;
            let gains = idle && fits && dead > 0 && self.can_announce(segment);
            gains.then_some((dead, segment))
        };
        let most = (0..self.layout.segments).filter_map(dead).max();
        most.map(|(_, segment)| segment)
    }

    /// Whether there is something to gain, and room for what is valid. After cuts in a row only
    /// those may fit that were being cleaned before.
    fn pays(&self, record: &Segment, limits: Limits) -> bool {
        let most = self.total_room().min(limits.fullest);
        record.valid < self.layout.blocks && record.valid <= most
    }

    /// What cleaning a segment is worth.
    fn account(&self, record: &Segment, least_erases: u32) -> u64 {
        let (valid, dead) = (u64::from(record.valid), self.layout.blocks - record.valid);
        let age = u64::from(self.clock.saturating_sub(record.stamp)) + 1;
        let benefit = age * u64::from(dead) * SCALE / (2 * valid).max(1);
        match self.config.victim {
            Victim::Greedy => u64::from(dead) * SCALE,
            Victim::CostBenefit | Victim::CostBenefitData => benefit.max(1),
            Victim::CostAgeTimes => {
                (benefit / (u64::from(record.erases - least_erases) + 1)).max(1)
            }
        }
    }

    fn least_erases(&self) -> u32 {
        let all = (0..self.layout.segments).map(|segment| self.ram.segment(segment));
        let usable = all.filter(|record| record.state != State::Retired);
        usable.map(|record| record.erases).min().unwrap_or(0)
    }

    /// The least worn segment, if it lags behind the most worn one by more than is allowed.
    fn least_worn(&self, limits: Limits) -> Option<u32> {
        let erases = |segment: u32| self.ram.segment(segment).erases;
        let most = (0..self.layout.segments).map(erases).max()?;
        let fits = |segment: u32| self.ram.segment(segment).valid <= self.total_room();
        let candidates =
            (0..self.layout.segments).filter(|s| self.is_candidate(*s, limits) && fits(*s));
        let least = candidates.min_by_key(|segment| erases(*segment))?;
        (most - erases(least) > self.config.wear_gap).then_some(least)
    }

    /// A segment drawn by chance (xorshift).
    fn draw(&mut self) -> u32 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 17;
        self.chance ^= self.chance << 5;
        self.chance % self.layout.segments
    }
}
