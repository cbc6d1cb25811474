//! Cuts a script everywhere.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;

use flashkit_flashlight::Config;
use flashkit_sim::{Rng, SimNand};

use crate::boot::{note_names, same_as, same_when_settled};
use crate::id::{Cut, Id, Place};
use crate::model::Model;
use crate::outcome::Outcome;
use crate::recorder::Point;
use crate::run::{Step, Watch, run};
use crate::script::Script;
use crate::seen::SeenDir;
use crate::survive::{cuts_again, survive};

/// How wide and how deep to search. Numbers of outcomes are of each point; `usize::MAX` is all.
/// Where fewer are asked for than there are, they take turns from point to point.
#[derive(Clone, Debug)]
pub struct Width {
    /// Outcomes at each point of the script.
    pub first: usize,
    /// Outcomes at each point of the recovery, of the recovery from that, and so on.
    pub deeper: Vec<usize>,
    /// Only every so many points of the script, but all of an operation that makes many.
    pub every: u64,
    /// The recovery is cut only after cuts at every so many points of the script.
    pub deeper_every: u64,
    /// The boot reader is compared with the mount of one state in so many.
    pub boot_every: u64,
}

/// How many states there are to each one of which the boot reader is compared, if nothing else is
/// asked for.
const BOOT_EVERY: u64 = 16;

impl Default for Width {
    /// Every outcome at every point of the script, and none in its recovery.
    fn default() -> Width {
        Width {
            first: usize::MAX,
            deeper: Vec::new(),
            every: 1,
            deeper_every: 1,
            boot_every: BOOT_EVERY,
        }
    }
}

impl Width {
    /// So many outcomes at a point of the script.
    pub fn outcomes(self, first: usize) -> Width {
        Width { first, ..self }
    }

    /// So many outcomes at a point of the recovery, of the recovery from that, and so on.
    pub fn deeper(self, deeper: &[usize]) -> Width {
        let deeper = deeper.to_vec();
        Width { deeper, ..self }
    }

    /// See [`Width::every`].
    pub fn every(self, every: u64) -> Width {
        Width { every, ..self }
    }

    /// See [`Width::boot_every`].
    pub fn boot_every(self, boot_every: u64) -> Width {
        Width { boot_every, ..self }
    }

    /// See [`Width::deeper_every`].
    pub fn deeper_every(self, deeper_every: u64) -> Width {
        Width {
            deeper_every,
            ..self
        }
    }
}

/// So many points of one operation are many.
const MANY: usize = 7;

/// What was found wrong.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What replays it.
    pub id: Id,
    /// What is wrong.
    pub what: String,
}

impl Violation {
    /// What violations of a kind have in common: what is wrong, without its numbers, paths and
    /// details, and whether something unstable is involved.
    pub fn class(&self) -> String {
        let what = self.what.split(" (").next().unwrap_or_default();
        let what = what.split(": /").next().unwrap_or_default();
        let mut class = String::from(if self.id.is_unstable() {
            "unstable: "
        } else {
            ""
        });
        for c in what
            .chars()
            .map(|c| if c.is_ascii_digit() { '#' } else { c })
        {
            if c != '#' || !class.ends_with('#') {
                class.push(c);
            }
        }
        class
    }
}

/// What a search has done and found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Scripts searched.
    pub scripts: u64,
    /// Points of scripts that were cut at.
    pub cut_points: u64,
    /// Different chips that cuts have left and that were mounted and compared: of the points of a
    /// script and their outcomes those that differ from all earlier ones of the script.
    pub states: u64,
    /// Of them, those that two cuts have led to.
    pub double_cuts: u64,
    /// Of them, those that three or more cuts have led to.
    pub triple_cuts: u64,
    /// Of them, those with a page that reads well only for a while.
    pub unstable_states: u64,
    /// Cuts in a row on one chip, see [`Loop`](crate::Loop); they count as states, too.
    pub loop_cuts: u64,
    /// States of which the boot reader was compared with the mount, and paths asked for.
    pub boot_states: u64,
    /// See [`Found::boot_states`].
    pub boot_paths: u64,
    /// How many violations there are.
    pub violations: u64,
    /// The first of each class in each script, and how many of that class.
    pub examples: Vec<(Violation, u64)>,
}

impl Found {
    pub(crate) fn add(&mut self, violation: Violation) {
        self.violations += 1;
        let class = violation.class();
        match self.examples.iter_mut().find(|(v, _)| v.class() == class) {
            Some((_, n)) => *n += 1,
            None => self.examples.push((violation, 1)),
        }
    }

    /// Adds what another search has found.
    pub fn merge(&mut self, other: Found) {
        self.scripts += other.scripts;
        self.cut_points += other.cut_points;
        self.states += other.states;
        self.double_cuts += other.double_cuts;
        self.triple_cuts += other.triple_cuts;
        self.unstable_states += other.unstable_states;
        self.loop_cuts += other.loop_cuts;
        self.boot_states += other.boot_states;
        self.boot_paths += other.boot_paths;
        self.violations += other.violations;
        self.examples.extend(other.examples);
    }

    /// The examples, one of each class, and how many there are of it.
    pub fn classes(&self) -> Vec<(String, &Violation, u64)> {
        let mut classes: BTreeMap<String, (&Violation, u64)> = BTreeMap::new();
        for (violation, n) in &self.examples {
            classes.entry(violation.class()).or_insert((violation, 0)).1 += n;
        }
        classes
            .into_iter()
            .map(|(class, (v, n))| (class, v, n))
            .collect()
    }
}

/// A script gives up after so many violations.
const ENOUGH: u64 = 50;

/// Cuts a script as wide and deep as asked for.
pub fn search(script: &Script, width: &Width) -> Found {
    search_until(script, width, &|| false)
}

/// The same until it is `enough`, asked after each point.
pub(crate) fn search_until(script: &Script, width: &Width, enough: &dyn Fn() -> bool) -> Found {
    let mut searcher = Searcher::new(script, width, enough);
    let chip = match script.chip.formatted() {
        Ok(chip) => chip,
        Err(what) => {
            searcher.report(&[], what);
            return searcher.found;
        }
    };
    let mut model = Model::new(script.chip.page as usize);
    let mut ops = script.ops.iter().cloned();
    match run(chip, &script.chip, &mut model, &mut ops, &mut searcher) {
        Err(what) => searcher.report(&[], what),
        Ok(_) if searcher.is_enough() => {}
        Ok(census) => {
            for forced in script.forces.iter().filter(|f| !census.contains_key(f)) {
                let what = format!("the script does not force what it is for: {forced:?}");
                searcher.report(&[], what);
            }
        }
    }
    searcher.found
}

/// What a chip has shown, and what cuts in its recovery have led to.
struct Shown {
    /// The step at which it was last met.
    met: usize,
    /// The different trees, and the cuts in the recovery that led to each.
    trees: Vec<(Vec<Cut>, SeenDir)>,
}

struct Searcher<'a> {
    script: &'a Script,
    width: &'a Width,
    config: Config,
    found: Found,
    /// Digests of the chips met so far.
    known: HashSet<u64>,
    /// By digest, of the chips after one cut that the present step and the one before have left.
    /// The same chip may be met again when the model has gone on.
    shown: HashMap<u64, Shown>,
    /// The digest of the chip after the first cut.
    under: u64,
    /// Whether the recovery is to be cut as well.
    deeper: bool,
    path: Vec<Cut>,
    /// Names that mounts have shown: the boot reader is asked for each of them everywhere.
    names: BTreeSet<String>,
    enough: &'a dyn Fn() -> bool,
}

impl Watch for Searcher<'_> {
    fn wants(&self, step: usize) -> bool {
        step >= self.script.from
    }

    fn during(&mut self, model: &Model, step: &Step<'_>) -> ControlFlow<()> {
        let all = step.points.len() >= MANY;
        for point in &step.points {
            if !all && !point.number.is_multiple_of(self.width.every) {
                continue;
            }
            self.found.cut_points += 1;
            self.deeper = point.number.is_multiple_of(self.width.deeper_every);
            self.cut(point, step.number, &|seen| model.allows(seen));
            if self.is_enough() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn after(&mut self, model: &Model, step: &Step<'_>, chip: &SimNand) -> ControlFlow<()> {
        if self.wants(step.number) && (self.width.every == 1 || step.points.is_empty()) {
            let cut = Cut::Between(step.number);
            self.deeper = (step.number as u64).is_multiple_of(self.width.deeper_every);
            self.visit(cut, chip.clone(), step.number, &|seen| model.allows(seen));
        }
        self.shown.retain(|_, shown| shown.met == step.number);
        ControlFlow::Continue(())
    }
}

type Allows<'a> = &'a dyn Fn(&SeenDir) -> Result<(), String>;

impl<'a> Searcher<'a> {
    fn new(script: &'a Script, width: &'a Width, enough: &'a dyn Fn() -> bool) -> Searcher<'a> {
        Searcher {
            script,
            width,
            config: script.chip.config(),
            found: Found {
                scripts: 1,
                ..Found::default()
            },
            known: HashSet::new(),
            shown: HashMap::new(),
            under: 0,
            deeper: false,
            path: Vec::new(),
            names: BTreeSet::new(),
            enough,
        }
    }

    fn is_enough(&self) -> bool {
        self.found.violations >= ENOUGH || (self.enough)()
    }

    /// Cuts at one point.
    fn cut(&mut self, point: &Point, step: usize, allows: Allows<'_>) {
        let outcomes = point.all_outcomes();
        for outcome in self.choose(&outcomes, point.number) {
            let cut = Cut::In(point.number, outcome);
            match point.cut(outcome) {
                Ok(chip) => self.visit(cut, chip, step, allows),
                Err(what) => self.report(&[cut], what),
            }
        }
    }

    /// As many of the outcomes as wanted; which, is up to chance.
    fn choose(&self, outcomes: &[Outcome], point: u64) -> Vec<Outcome> {
        let want = match self.path.len() {
            0 => self.width.first,
            n => self.width.deeper[n - 1],
        };
        if want >= outcomes.len() {
            return outcomes.to_vec();
        }
        let mut rng = Rng::keyed(self.found.states, point);
        let mut left = outcomes.to_vec();
        (0..want)
            .map(|_| left.swap_remove(rng.below(left.len() as u64) as usize))
            .collect()
    }

    /// Lets the chip that a cut has left survive, and cuts that recovery.
    fn visit(&mut self, cut: Cut, chip: SimNand, step: usize, allows: Allows<'_>) {
        let digest = chip.digest().unwrap_or_default();
        if self.path.is_empty() {
            self.under = digest;
            if self.compare_again(cut, digest, step, allows) {
                return;
            }
        }
        let new = self.known.insert(digest);
        if !new && !self.path.is_empty() {
            return;
        }
        self.path.push(cut);
        if new {
            self.count();
        }
        let shown = self.shown.entry(self.under);
        shown.or_insert(Shown {
            met: step,
            trees: Vec::new(),
        });
        let cut_again = cuts_again(&chip);
        let booted = (new && digest.is_multiple_of(self.width.boot_every)).then(|| chip.clone());
        match survive(chip, self.config, cut_again, allows) {
            Ok(survived) => {
                note_names(&survived.seen, &mut self.names);
                if let Some(chip) = booted {
                    self.boot(&chip, &survived.seen);
                }
                self.note_shown(survived.seen);
                if self.deeper && self.path.len() <= self.width.deeper.len() {
                    for point in survived.points {
                        self.cut(&point, step, allows);
                    }
                }
            }
            Err(what) => self.report(&[], what),
        }
        self.path.pop();
    }

    /// Compares what the boot reader finds on a chip with what a mount has shown.
    fn boot(&mut self, chip: &SimNand, seen: &SeenDir) {
        let unstable = |cut: &Cut| matches!(cut, Cut::In(_, outcome) if outcome.is_unstable());
        let compared = match self.path.iter().any(unstable) {
            true => same_when_settled(chip, self.config, &self.names),
            false => same_as(chip, seen, &self.names),
        };
        match compared {
            Ok(paths) => {
                self.found.boot_states += 1;
                self.found.boot_paths += paths;
            }
            Err(what) => self.report(&[], what),
        }
    }

    /// Compares with the model as it is now what a chip has shown that was met a moment ago;
    /// `false` if it was not.
    fn compare_again(&mut self, cut: Cut, digest: u64, step: usize, allows: Allows<'_>) -> bool {
        let Some(shown) = self.shown.get_mut(&digest) else {
            return false;
        };
        shown.met = step;
        let mut wrong = Vec::new();
        for (below, tree) in &shown.trees {
            if let Err(what) = allows(tree) {
                wrong.push(([&[cut], &below[..]].concat(), what));
            }
        }
        for (cuts, what) in wrong {
            self.report(&cuts, what);
        }
        true
    }

    fn note_shown(&mut self, seen: SeenDir) {
        if let Some(shown) = self.shown.get_mut(&self.under)
            && shown.trees.iter().all(|(_, tree)| *tree != seen)
        {
            shown.trees.push((self.path[1..].to_vec(), seen));
        }
    }

    fn count(&mut self) {
        self.found.states += 1;
        match self.path.len() {
            0 | 1 => {}
            2 => self.found.double_cuts += 1,
            _ => self.found.triple_cuts += 1,
        }
        let unstable = |cut: &Cut| matches!(cut, Cut::In(_, outcome) if outcome.is_unstable());
        self.found.unstable_states += u64::from(self.path.iter().any(unstable));
    }

    /// Reports what is wrong after the cuts on the path and these.
    fn report(&mut self, more: &[Cut], what: String) {
        let place = Place::Cuts([&self.path, more].concat());
        let (chip, script) = (self.script.chip.clone(), self.script.name.clone());
        self.found.add(Violation {
            id: Id {
                chip,
                script,
                place,
            },
            what,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::SMALL_CHIP;

    /// Shows the searcher the chip as it was some steps ago: a chip that loses what was written.
    struct Forgetful<'a> {
        searcher: Searcher<'a>,
        chips: Vec<SimNand>,
        steps: usize,
    }

    impl Watch for Forgetful<'_> {
        fn wants(&self, step: usize) -> bool {
            self.searcher.wants(step)
        }

        fn during(&mut self, _: &Model, _: &Step<'_>) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }

        fn after(&mut self, model: &Model, step: &Step<'_>, chip: &SimNand) -> ControlFlow<()> {
            self.chips.push(chip.clone());
            let at = self.chips.len() - 1;
            let old = self.chips[at.saturating_sub(self.steps)].clone();
            self.searcher.after(model, step, &old)
        }
    }

    fn forgetful(text: &str, steps: usize) -> Found {
        let script = Script::given(text, SMALL_CHIP).unwrap();
        let width = Width::default();
        let searcher = Searcher::new(&script, &width, &|| false);
        let mut watch = Forgetful {
            searcher,
            chips: Vec::new(),
            steps,
        };
        let mut model = Model::new(script.chip.page as usize);
        let mut ops = script.ops.iter().cloned();
        let chip = script.chip.formatted().unwrap();
        run(chip, &script.chip, &mut model, &mut ops, &mut watch).unwrap();
        watch.searcher.found
    }

    /// A search that cannot find what is wrong is worth nothing.
    #[test]
    fn what_a_chip_forgets_is_found() {
        for (text, what) in [
            ("create a; write a 0 100; fsync a", "file lost"),
            (
                "create a; fsync a; write a 0 3000; fsync a",
                "file is back at state",
            ),
            ("mkdir d", ""),
            (
                "create a; fsync a; create b; fsync b; rename a b",
                "file lost",
            ),
            (
                "create a; write a 0 100; sync; unlink a; sync",
                "should not be there",
            ),
            ("create a; sync; chmod a 600; sync", "file is back at state"),
            (
                "mkdir d; sync; chmod d 700; sync",
                "directory shows attributes it has not",
            ),
        ] {
            assert_eq!(forgetful(text, 0).violations, 0, "{text}");
            if what.is_empty() {
                continue;
            }
            let found = forgetful(text, 1);
            let classes = found.classes();
            assert!(
                classes.iter().any(|c| c.0.contains(what)),
                "{text}: {classes:?}"
            );
        }
    }

    #[test]
    fn classes_leave_out_numbers_and_paths() {
        let violation = |id: &str, what: &str| Violation {
            id: id.parse().unwrap(),
            what: what.to_owned(),
        };
        let stable = violation(
            "1024+24x8x64:a:12.garbage",
            "file lost: /d/a (versions 2 to 3)",
        );
        assert_eq!(stable.class(), "file lost");
        let unstable = violation("1024+24x8x64:a:12.unstable3", "bad page 123 of 4");
        assert_eq!(unstable.class(), "unstable: bad page # of #");
    }
}
