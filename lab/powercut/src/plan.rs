//! Which scripts are searched how widely, and on how many threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::again::{Loop, again};
use crate::script::{Group, Script, catalogue};
use crate::search::{Found, Width, search_until};

/// How much is searched. All are fixed sets, the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Some seconds: for the tests.
    Small,
    /// Some minutes.
    Usual,
    /// Everything.
    Full,
}

/// A part of the pieces of work, to be searched apart from the others: on another machine, or
/// another day. All parts together are the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    nth: usize,
    of: usize,
}

impl Part {
    /// The pieces that are in it, each so many places behind the one before: of long ones, which
    /// are first, each part has its share.
    fn share<T>(self, pieces: Vec<T>) -> Vec<T> {
        pieces
            .into_iter()
            .skip(self.nth - 1)
            .step_by(self.of)
            .collect()
    }
}

impl std::str::FromStr for Part {
    type Err = String;

    /// `2/8`: the second of eight.
    fn from_str(text: &str) -> Result<Part, String> {
        let parsed = text.split_once('/').and_then(|(nth, of)| {
            let (nth, of) = (nth.parse().ok()?, of.parse().ok()?);
            (1..=of).contains(&nth).then_some(Part { nth, of })
        });
        parsed.ok_or_else(|| format!("{text}: a part is one as 2/8, from 1/8 to 8/8"))
    }
}

/// Who waits for a search.
#[derive(Clone, Copy)]
pub struct Waits<'a> {
    /// Is told how many pieces are done, and of how many.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
    /// Is asked again and again whether to end the search with what is found.
    pub enough: &'a (dyn Fn() -> bool + Sync),
}

/// A piece of work.
enum Job {
    Script(Box<Script>, Width),
    Loop(Loop),
}

/// How widely a script is searched, if it is. `nth` is its place in the catalogue.
fn width(budget: Budget, script: &Script, nth: usize) -> Option<Width> {
    let all = Width::default();
    let one_of = |n: usize| nth.is_multiple_of(n);
    let width = match budget {
        Budget::Full => match script.group {
            Group::Single => all.deeper(&[2, 1]),
            Group::Pair | Group::Triple => all.deeper(&[1]),
            Group::Directed => all.deeper(&[2]),
            Group::Forcing if script.costly => all.every(4),
            Group::Forcing => all.deeper(&[1]).deeper_every(8),
            Group::Random if script.from == 0 => all.deeper(&[1]),
            Group::Random => all.deeper(&[1]).deeper_every(4),
            Group::Given => all.deeper(&[2]),
        },
        Budget::Usual => match script.group {
            Group::Single | Group::Directed => all.deeper(&[1]).deeper_every(12),
            Group::Pair => all.outcomes(4),
            Group::Triple if one_of(8) => all,
            Group::Forcing if script.costly => return None,
            Group::Forcing => all.outcomes(5).every(20),
            Group::Random if one_of(5) => all.every(4).deeper(&[1]).deeper_every(9),
            Group::Triple | Group::Random | Group::Given => return None,
        },
        Budget::Small => match script.group {
            Group::Single => all.outcomes(3),
            Group::Pair if one_of(7) => all.outcomes(2),
            Group::Triple if one_of(30) => all.outcomes(2),
            Group::Directed => all.outcomes(2).every(3),
            Group::Forcing if !script.costly && one_of(3) => all.outcomes(2).every(64),
            Group::Random if one_of(9) => all.outcomes(2).every(16).deeper(&[1]).deeper_every(5),
            _ => return None,
        },
    };
    Some(width)
}

/// Searches a part of what a budget has of the catalogue, on all of the machine's cores. `progress`
/// is told how many of how many pieces of work are done.
pub fn search_all(budget: Budget, part: Part, waits: Waits<'_>) -> Found {
    let scripts = catalogue().into_iter().enumerate();
    let mut jobs: Vec<Job> = scripts
        .filter_map(|(nth, script)| {
            width(budget, &script, nth).map(|width| Job::Script(Box::new(script), width))
        })
        .collect();
    jobs.extend(Loop::all(budget).into_iter().map(Job::Loop));
    work(jobs, part, waits)
}

/// As [`search_all`], but for cuts in a row; the boot reader is compared with the mount of every
/// state.
pub fn search_boot(budget: Budget, part: Part, waits: Waits<'_>) -> Found {
    let scripts = catalogue().into_iter().enumerate();
    let wide = |(nth, script): (usize, Script)| {
        let width = width(budget, &script, nth)?.boot_every(1);
        Some(Job::Script(Box::new(script), width))
    };
    work(scripts.filter_map(wide).collect(), part, waits)
}

/// Searches a part of these scripts as wide and deep as [`Budget::Full`] does.
pub fn search_scripts(scripts: Vec<Script>, part: Part, waits: Waits<'_>) -> Found {
    let wide = |script: Script| {
        let width = width(Budget::Full, &script, 0)?;
        Some(Job::Script(Box::new(script), width))
    };
    work(scripts.into_iter().filter_map(wide).collect(), part, waits)
}

fn work(mut jobs: Vec<Job>, part: Part, waits: Waits<'_>) -> Found {
    // Long ones first, so that no core waits for one at the end.
    jobs.sort_by_key(|job| {
        std::cmp::Reverse(match job {
            Job::Loop(_) => usize::MAX,
            Job::Script(script, width) => script.ops.len() << (4 * width.deeper.len()),
        })
    });
    let jobs = part.share(jobs);
    let results = Mutex::new(Vec::new());
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(i) else { return };
                    if (waits.enough)() {
                        return;
                    }
                    let found = match job {
                        Job::Script(script, width) => search_until(script, width, waits.enough),
                        Job::Loop(config) => again(config),
                    };
                    results
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((i, found));
                    (waits.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Which thread was first must not show.
    results.sort_by_key(|(i, _)| *i);
    let mut total = Found::default();
    for (_, found) in results {
        total.merge(found);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_is_in_one_part() {
        let all: Vec<u32> = (0..100).collect();
        let parts: Vec<Part> = (1..=7).map(|nth| Part { nth, of: 7 }).collect();
        let mut together: Vec<u32> = parts
            .iter()
            .flat_map(|part| part.share(all.clone()))
            .collect();
        together.sort_unstable();
        assert_eq!(together, all);
        assert_eq!("1/1".parse::<Part>().unwrap().share(all.clone()), all);
        assert_eq!("3/7".parse(), Ok(parts[2]));
        for text in ["0/7", "8/7", "3", "3/0", "a/b", "-1/2", ""] {
            assert!(text.parse::<Part>().is_err(), "{text}");
        }
    }
}
