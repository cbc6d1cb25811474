//! What must be on the chip by what the image has said, and whether it is.

use crate::told::{Told, lines};

/// Slots of the ring, and pages of each.
pub const SLOTS: usize = 16;
/// Records that one sync makes durable, at most.
const BATCH: u32 = 3;
/// The ring is overwritten in rounds whose number is a multiple of this.
const EVERY: u32 = 4;

/// What is on the chip: the first and the last record of the two logs, and the numbers of the
/// pages of the ring, 0 where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub old: Option<(u32, u32)>,
    pub log: Option<(u32, u32)>,
    pub slots: [[u32; 2]; SLOTS],
}

impl Found {
    fn last(&self) -> u32 {
        self.log.or(self.old).map_or(0, |(_, last)| last)
    }
}

/// What the image has said to be durable.
#[derive(Default)]
pub struct Ledger {
    formatted: bool,
    synced: u32,
    /// The last records of logs that were turned.
    turned: Vec<u32>,
    slots: [[u32; 2]; SLOTS],
    /// What the image has found since its last mount.
    found: Option<Found>,
    /// Nothing is under way: the volume was unmounted, or there is none.
    at_rest: bool,
    /// Since the last cut.
    has_mounted: bool,
    /// The most stack with nothing but a mount, and ever.
    pub stack: [u32; 2],
}

impl Ledger {
    /// How many records are said to be durable.
    pub fn synced(&self) -> u32 {
        self.synced
    }

    /// Whether the volume is said to have been made.
    pub fn is_formatted(&self) -> bool {
        self.formatted
    }

    /// The power was cut, and the image starts again.
    pub fn cut(&mut self) {
        self.found = None;
        self.has_mounted = false;
    }

    /// Takes down what the image has printed in a session.
    ///
    /// # Errors
    /// What it has found is not what must be there; or it says something else.
    pub fn take(&mut self, printed: &str) -> Result<(), String> {
        lines(printed).iter().try_for_each(|told| self.line(told))
    }

    fn line(&mut self, told: &Told) -> Result<(), String> {
        match &told.word[..] {
            "formatted" if self.formatted => return Err("the volume was gone".into()),
            "formatted" => self.formatted = true,
            "mounted" => {
                let [stack] = told.numbers()?;
                if !std::mem::replace(&mut self.has_mounted, true) {
                    self.stack[0] = self.stack[0].max(stack);
                }
                self.found = Some(Found::default());
                // Also where an earlier start made it and the power went before it said so.
                self.formatted = true;
            }
            "old" | "log" | "slot" => self.finding(told)?,
            "ready" => self.ready(told)?,
            "synced" => {
                let [number] = told.numbers()?;
                if !(self.synced + 1..=self.synced + BATCH).contains(&number) {
                    return Err(format!("{number} is synced after {}", self.synced));
                }
                self.synced = number;
                self.at_rest = false;
            }
            "put" => {
                let [number] = told.numbers()?;
                let slot = slot_of(number).ok_or_else(|| format!("{number} is put"))?;
                self.slots[slot] = [number; 2];
            }
            "turned" => {
                let [number] = told.numbers()?;
                self.turned.push(number);
            }
            "unmounted" => self.at_rest = true,
            "stack" => {}
            _ => return Err(format!("the image says {} {:?}", told.word, told.numbers)),
        }
        if told.word == "stack" || told.word == "mounted" {
            let [stack] = told.numbers()?;
            self.stack[1] = self.stack[1].max(stack);
        }
        Ok(())
    }

    fn finding(&mut self, told: &Told) -> Result<(), String> {
        let found = self.found.as_mut().ok_or("it finds before it mounts")?;
        match &told.word[..] {
            "old" => found.old = Some(told.numbers().map(|[first, last]| (first, last))?),
            "log" => found.log = Some(told.numbers().map(|[first, last]| (first, last))?),
            _ => {
                let [slot, pages @ ..] = told.numbers::<3>()?;
                let place = found.slots.get_mut(slot as usize);
                *place.ok_or_else(|| format!("slot {slot}"))? = pages;
            }
        }
        Ok(())
    }

    /// The image has read everything.
    fn ready(&mut self, told: &Told) -> Result<(), String> {
        let [last] = told.numbers()?;
        let found = self.found.take().ok_or("it is ready before it mounts")?;
        if last != found.last() {
            return Err(format!("it goes on from {last}: {found:?}"));
        }
        self.check(&found)?;
        self.at_rest = false;
        // What a mount has found is durable.
        self.synced = last;
        self.slots = found.slots;
        if let Some((_, old)) = found.old
            && self.turned.last() != Some(&old)
        {
            self.turned.push(old);
        }
        Ok(())
    }

    /// Checks what was found after a cut.
    ///
    /// # Errors
    /// Something is missing that was said to be durable, or is there that nobody wrote.
    pub fn check(&self, found: &Found) -> Result<(), String> {
        let (synced, last) = (self.synced, found.last());
        let most = if self.at_rest { synced } else { synced + BATCH };
        if last < synced {
            return Err(format!(
                "record {synced} was synced, the last one is {last}"
            ));
        }
        if last > most {
            return Err(format!(
                "record {last} was not written, {synced} was synced"
            ));
        }
        self.check_logs(found)?;
        let pages = self
            .slots
            .iter()
            .flatten()
            .zip(found.slots.iter().flatten());
        for (page, (said, is)) in pages.enumerate() {
            let slot = page / 2;
            // A round puts after it has synced.
            let is_under_way = !self.at_rest && *is == synced && slot_of(synced) == Some(slot);
            if is != said && !is_under_way {
                return Err(format!(
                    "page {page} of the ring is of {is}, {said} was made durable"
                ));
            }
        }
        Ok(())
    }

    /// The two logs follow each other, and the older one is whole.
    fn check_logs(&self, found: &Found) -> Result<(), String> {
        let wrong = || Err(format!("{found:?}, turned were {:?}", self.turned));
        if let (Some((_, end)), Some((begin, _))) = (found.old, found.log)
            && begin != end + 1
        {
            return wrong();
        }
        let mut turns = self.turned.iter().rev();
        let last = turns.next().copied().unwrap_or(0);
        let before = turns.next().copied().unwrap_or(0);
        match found.old.or(found.log) {
            None if self.synced > 0 => wrong(),
            None => Ok(()),
            Some((first, _)) if found.old.is_none() => match self.turned[..] {
                [] if first == 1 => Ok(()),
                _ => wrong(),
            },
            Some((first, end)) if end == last => match first == before + 1 {
                true => Ok(()),
                false => wrong(),
            },
            // It was turned, and could not say so.
            Some((first, end)) => match first == last + 1 && end >= self.synced && !self.at_rest {
                true => Ok(()),
                false => wrong(),
            },
        }
    }
}

/// Which slot a round puts.
pub fn slot_of(number: u32) -> Option<usize> {
    let puts = number != 0 && number.is_multiple_of(EVERY);
    puts.then_some((number / EVERY) as usize % SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ledger of 600 records; the log was turned at 257 and 514, and all puts were told.
    fn ledger() -> Ledger {
        let mut printed = String::from("formatted\nmounted 100\nready 0\n");
        for number in 1..=600 {
            printed += &format!("synced {number}\n");
            if number % EVERY == 0 {
                printed += &format!("put {number}\n");
            }
            if number % 257 == 0 {
                printed += &format!("turned {number}\n");
            }
        }
        let mut ledger = Ledger::default();
        ledger.take(&printed).unwrap();
        ledger.cut();
        ledger
    }

    fn found(ledger: &Ledger) -> Found {
        Found {
            old: Some((258, 514)),
            log: Some((515, 600)),
            slots: ledger.slots,
        }
    }

    fn says(found: &Found) -> String {
        let (old, log) = (found.old.unwrap(), found.log.unwrap());
        let mut says = format!(
            "mounted 7\nold {} {}\nlog {} {}\n",
            old.0, old.1, log.0, log.1
        );
        for (slot, pages) in found.slots.iter().enumerate() {
            says += &format!("slot {slot} {} {}\n", pages[0], pages[1]);
        }
        says + &format!("ready {}\n", log.1)
    }

    #[test]
    fn what_was_said_is_there() {
        let ledger = ledger();
        let whole = found(&ledger);
        assert_eq!(ledger.check(&whole), Ok(()));
        // A sync that could not be told, of up to three records.
        let log = Some((515, 603));
        assert_eq!(ledger.check(&Found { log, ..whole }), Ok(()));
    }

    #[test]
    fn what_is_missing_is_found_out() {
        let ledger = ledger();
        let whole = found(&ledger);
        let wrong = |change: &dyn Fn(&mut Found)| {
            let mut found = whole.clone();
            change(&mut found);
            ledger.check(&found).is_err()
        };
        assert!(!wrong(&|_| ()));
        assert!(wrong(&|found| found.log = Some((515, 599))));
        assert!(wrong(&|found| found.log = Some((515, 604))));
        assert!(wrong(&|found| found.log = Some((516, 600))));
        assert!(wrong(&|found| found.log = None));
        assert!(wrong(&|found| found.old = Some((259, 514))));
        assert!(wrong(&|found| found.old = Some((258, 513))));
        assert!(wrong(&|found| found.old = None));
        assert!(wrong(&|found| found.slots[3][0] = 0));
        assert!(wrong(&|found| found.slots[3][1] -= 64));
        assert!(wrong(&|found| found.slots[3][1] += 64));
        assert!(wrong(&|found| *found = Found::default()));
    }

    /// A round was cut in the middle: what it had begun is as before or as after, page by page.
    #[test]
    fn what_was_under_way_is_old_or_new() {
        let mut ledger = ledger();
        ledger.take("synced 601\nsynced 604\n").unwrap();
        ledger.cut();
        let slot = slot_of(604).unwrap();
        let mut found = found(&ledger);
        found.log = Some((515, 604));
        assert_eq!(ledger.check(&found), Ok(()));
        found.slots[slot][1] = 604;
        assert_eq!(ledger.check(&found), Ok(()));
        // What a mount has found is durable from then on.
        ledger.take(&says(&found)).unwrap();
        ledger.cut();
        found.slots[slot][1] -= 64;
        assert!(ledger.check(&found).is_err());
    }

    #[test]
    fn a_log_is_turned_and_cannot_say_so() {
        let mut ledger = ledger();
        let turned = Found {
            old: Some((515, 600)),
            log: None,
            slots: ledger.slots,
        };
        assert_eq!(ledger.check(&turned), Ok(()));
        // The older one must have been whole.
        let old = Some((516, 600));
        assert!(
            ledger
                .check(&Found {
                    old,
                    ..turned.clone()
                })
                .is_err()
        );
        let log = Some((601, 601));
        let says = says(&Found {
            log,
            ..turned.clone()
        });
        ledger.take(&says).unwrap();
        assert_eq!((ledger.synced, ledger.turned.last()), (601, Some(&600)));
    }

    #[test]
    fn after_an_unmount_nothing_is_under_way() {
        let mut ledger = ledger();
        ledger.take("unmounted\n").unwrap();
        let mut found = found(&ledger);
        assert_eq!(ledger.check(&found), Ok(()));
        found.log = Some((515, 601));
        assert!(ledger.check(&found).is_err());
    }

    #[test]
    fn what_an_image_may_not_say() {
        for says in [
            "formatted\n",
            "wrong 3\n",
            "panic 0\n",
            "synced 600\n",
            "synced 604\n",
            "put 601\n",
            "log 1 2\n",
            "ready 600\n",
            "mounted 7\nready 599\n",
            "mounted 7\nslot 16 1 1\n",
            "synced\n",
        ] {
            assert!(ledger().take(says).is_err(), "{says}");
        }
    }
}
