//! All cases that have no result yet, on several threads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use super::{Case, Folder, Guests, Made, Outcome, here};
use crate::code;

/// Cases that share a guest: so many that its start is a small part.
const BATCH: usize = 16;

/// How to run a study.
pub struct How<'a> {
    /// Where results are, and go.
    pub folder: &'a Folder,
    /// How to start guests; asked once, and only if a case needs one.
    pub guests: &'a (dyn Fn() -> anyhow::Result<Guests> + Sync),
    /// Threads, and guests at a time.
    pub jobs: usize,
    /// Run cases again that have failed.
    pub retry: bool,
    /// Run cases again whose results older code has made.
    pub stale: bool,
    /// Told of each result.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

impl How<'_> {
    /// Whether a case that has a result is run again.
    fn is_due(&self, case: &Case, outcome: &Outcome) -> bool {
        self.retry && outcome.error.is_some()
            || self.stale && outcome.made.is_stale(&code::of_case(case))
    }
}

/// How far a study is.
pub struct Progress<'a> {
    /// Cases that have a result.
    pub done: usize,
    /// All cases.
    pub all: usize,
    /// The last result.
    pub last: &'a Outcome,
}

/// What a run of a study did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Cases that had a result before.
    pub before: usize,
    /// Cases run.
    pub run: usize,
    /// Of them, those that failed.
    pub failed: usize,
    /// Cases that have none because they cannot be run here, by [why](super::System::missing).
    pub left_out: BTreeMap<&'static str, usize>,
}

/// A piece of work for a thread.
enum Unit<'a> {
    Here(&'a Case),
    Guest(Vec<&'a Case>),
}

struct State<'a> {
    queue: VecDeque<Unit<'a>>,
    summary: Summary,
    error: Option<anyhow::Error>,
}

/// Runs all cases that have no result yet. What is done is kept, however it ends.
///
/// # Errors
/// The first that is not a case's own: no QEMU, no kernel package, no space for a result.
pub fn run(cases: &[Case], how: &How<'_>) -> anyhow::Result<Summary> {
    let mut due = Vec::new();
    let mut left_out = BTreeMap::new();
    for case in cases {
        match how.folder.load(&case.id)? {
            Some(outcome) if !how.is_due(case, &outcome) => {}
            found => match case.system.missing() {
                None => due.push(case),
                Some(why) if found.is_none() => *left_out.entry(why).or_insert(0) += 1,
                Some(_) => {}
            },
        }
    }
    let before = cases.len() - due.len() - left_out.values().sum::<usize>();
    let state = Mutex::new(State {
        queue: units(&due, how.jobs),
        summary: Summary {
            before,
            left_out,
            ..Summary::default()
        },
        error: None,
    });
    let guests = if due.iter().any(|case| case.system.in_guest()) {
        Some((how.guests)())
    } else {
        None
    };
    // Without guests, what needs none is still done.
    let (guests, missing) = match guests {
        Some(Err(error)) => (None, Some(error)),
        Some(Ok(guests)) => (Some(guests), None),
        None => (None, None),
    };
    std::thread::scope(|scope| {
        for _ in 0..how.jobs.max(1) {
            scope.spawn(|| work(&state, guests.as_ref(), cases.len(), how));
        }
    });
    let state = state
        .into_inner()
        .map_err(|_| anyhow::anyhow!("a thread has panicked"))?;
    match state.error.or(missing) {
        Some(error) => Err(error),
        None => Ok(state.summary),
    }
}

/// Guests first, because they take longest.
fn units<'a>(due: &[&'a Case], jobs: usize) -> VecDeque<Unit<'a>> {
    let (guest, here): (Vec<&Case>, Vec<&Case>) =
        due.iter().partition(|case| case.system.in_guest());
    // Pauses cost nothing where they are skipped; what has none is faster without.
    let (pausing, working): (Vec<&Case>, Vec<&Case>) =
        guest.into_iter().partition(|case| case.timed);
    let mut queue = VecDeque::new();
    for cases in [working, pausing] {
        let batch = cases.len().div_ceil(jobs.max(1)).clamp(1, BATCH);
        queue.extend(cases.chunks(batch).map(|cases| Unit::Guest(cases.to_vec())));
    }
    queue.extend(here.into_iter().map(Unit::Here));
    queue
}

fn work<'a>(state: &Mutex<State<'a>>, guests: Option<&Guests>, all: usize, how: &How<'_>) {
    let take = || {
        let mut state = state.lock().ok()?;
        match state.error {
            Some(_) => None,
            None => state.queue.pop_front(),
        }
    };
    let keep = |case: &Case, outcome: &Outcome| -> anyhow::Result<()> {
        how.folder.save(outcome)?;
        let Ok(mut state) = state.lock() else {
            return Ok(());
        };
        state.summary.run += 1;
        state.summary.failed += usize::from(outcome.error.is_some());
        let done = state.summary.before + state.summary.run;
        debug_assert_eq!(case.id, outcome.case);
        (how.progress)(Progress {
            done,
            all,
            last: outcome,
        });
        Ok(())
    };
    while let Some(unit) = take() {
        let done = match (&unit, guests) {
            (Unit::Here(case), _) => {
                let made = Made::in_process(case.system);
                keep(case, &Outcome::new(case, here::run(case), made))
            }
            (Unit::Guest(_), None) => Ok(()),
            (Unit::Guest(cases), Some(guests)) => guest(state, cases, guests, how, &keep),
        };
        if let Err(error) = done
            && let Ok(mut state) = state.lock()
        {
            state.error.get_or_insert(error);
        }
    }
}

/// Runs a batch; what its guest did not come to is put back.
fn guest<'a>(
    state: &Mutex<State<'a>>,
    cases: &[&'a Case],
    guests: &Guests,
    how: &How<'_>,
    keep: &dyn Fn(&Case, &Outcome) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut done = 0;
    guests.run(cases, how.folder.dir(), &mut |case, report| {
        done += 1;
        let made = Made::here(Some(guests.kernel()));
        keep(case, &Outcome::new(case, report, made))
    })?;
    anyhow::ensure!(done > 0, "a guest has given no result");
    if done < cases.len()
        && let Ok(mut state) = state.lock()
    {
        state.queue.push_front(Unit::Guest(cases[done..].to_vec()));
    }
    Ok(())
}
