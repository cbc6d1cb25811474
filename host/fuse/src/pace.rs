//! When the patrol reads its next page.

use std::time::{Duration, Instant};

/// Between two pages, so that a request that came meanwhile goes first.
const PAUSE: Duration = Duration::from_millis(1);

/// Spreads the pages of a chip evenly over a time. What was not read for want of idle time is
/// read when there is some.
pub(crate) struct Pace {
    interval: Duration,
    /// When the next page should be read.
    due: Instant,
    /// Not before.
    idle_at: Instant,
}

impl Pace {
    /// So many pages in such a time; none if either is 0.
    pub(crate) fn new(period: Duration, pages: u64, now: Instant) -> Option<Pace> {
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        let interval = period.checked_div(pages).filter(|i| !i.is_zero())?;
        Some(Pace {
            interval,
            due: now + interval,
            idle_at: now,
        })
    }

    /// How long until the next page.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.due.max(self.idle_at).saturating_duration_since(now)
    }

    /// A page has been read.
    pub(crate) fn stepped(&mut self, now: Instant) {
        self.due += self.interval;
        self.idle_at = now + PAUSE;
    }

    /// There are requests: a little later.
    pub(crate) fn put_off(&mut self, now: Instant, by: Duration) {
        self.idle_at = now + by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_spread_and_what_was_missed_is_caught_up_with() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        assert!(Pace::new(Duration::ZERO, 100, start).is_none());
        assert!(Pace::new(second, 0, start).is_none());
        let mut pace = Pace::new(100 * second, 50, start).unwrap();
        assert_eq!(pace.left(start), 2 * second);
        assert_eq!(pace.left(start + second), second);
        let now = start + 2 * second;
        assert_eq!(pace.left(now), Duration::ZERO);
        pace.stepped(now);
        assert_eq!(pace.left(now), 2 * second);
        // Busy for long: then a page every millisecond, until it is where it should be.
        pace.put_off(start + 9 * second, second);
        let mut now = start + 10 * second;
        let mut steps = 0;
        while pace.left(now) <= PAUSE {
            now += pace.left(now);
            pace.stepped(now);
            steps += 1;
        }
        assert_eq!(steps, 4);
    }
}
