//! The catalogue of scripts.

mod directed;
mod forcing;
mod pairs;
mod random;
mod single;

#[cfg(test)]
pub(crate) use forcing::FAILURE_SEEDS;
pub use random::{Mix, random_op};

use crate::chip::Chip;
use crate::forced::Forced;
use crate::id::Id;
use crate::model::Model;
use crate::op::{self, Op};

/// What a script is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// One operation of the interface, on a small tree.
    Single,
    /// Two operations of the small alphabet and one that makes them durable.
    Pair,
    /// Three of these, drawn at random, and one that makes them durable.
    Triple,
    /// A sequence for one mechanism or weakness.
    Directed,
    /// As that, and long: something must be forced to happen first.
    Forcing,
    /// Random operations.
    Random,
    /// Given by its text.
    Given,
}

/// Operations, where to begin with cuts, and on what chip.
#[derive(Clone, Debug)]
pub struct Script {
    /// Unique in the catalogue, for its chip.
    pub name: String,
    /// What it is for.
    pub group: Group,
    /// The chip.
    pub chip: Chip,
    /// The operations.
    pub ops: Vec<Op>,
    /// The first operation that is cut.
    pub from: usize,
    /// What must happen from there on.
    pub forces: Vec<Forced>,
    /// A state of it takes long to compare: it has thousands of names or pages.
    pub costly: bool,
}

/// Pages of 1 KiB, 8 a block, 64 blocks, and spare bytes for tags.
pub const SMALL_CHIP: Chip = Chip::new(1024, 40, 8, 64);
/// The same with a block table on flash, in four pages, and the blocks more that stay
/// free for recoveries then.
pub const TABLE_CHIP: Chip = Chip::new(1024, 40, 8, 69).table(18);
/// The same as the first without spare bytes.
pub const BARE_CHIP: Chip = Chip::new(1024, 0, 8, 64);

impl Script {
    fn new(group: Group, name: impl Into<String>, chip: Chip, ops: Vec<Op>) -> Script {
        Script {
            name: name.into(),
            group,
            chip,
            ops,
            from: 0,
            forces: Vec::new(),
            costly: false,
        }
    }

    /// A script by its text.
    ///
    /// # Errors
    /// Says what cannot be read.
    pub fn given(text: &str, chip: Chip) -> Result<Script, String> {
        let ops = op::parse(text)?;
        if ops.is_empty() {
            return Err("a script of no operations".into());
        }
        let script = Script::new(Group::Given, Id::script_of(&ops), chip, ops);
        match script.senseless() {
            Some(op) => Err(format!("`{op}`: there is nothing that this can be done to")),
            None => Ok(script),
        }
    }

    /// The script that an id names.
    ///
    /// # Errors
    /// There is none.
    pub fn find(name: &str, chip: &Chip) -> Result<Script, String> {
        if let Some(ops) = Id::ops_of(name) {
            return Ok(Script::new(Group::Given, name, chip.clone(), ops?));
        }
        let mut all = catalogue().into_iter();
        let found = all.find(|s| s.name == name && s.chip == *chip);
        found.ok_or(format!("no script {name} for the chip {chip}"))
    }

    /// The first operation from `from` on that makes no sense where it comes.
    fn senseless(&self) -> Option<&Op> {
        let mut model = Model::new(self.chip.page as usize);
        let found = self.ops.iter().enumerate().find(|(step, op)| {
            let sensible = model.begin(op);
            if sensible {
                model.finish(op);
            }
            !sensible && *step >= self.from
        });
        found.map(|(_, op)| op)
    }
}

/// A script from texts in the sources.
fn parse(text: &str) -> Vec<Op> {
    op::parse(text).expect("the catalogue's scripts can be read")
}

/// Every script.
pub fn catalogue() -> Vec<Script> {
    let mut all = single::scripts();
    all.extend(pairs::scripts());
    all.extend(directed::scripts());
    all.extend(forcing::scripts());
    all.extend(random::scripts());
    all.extend(pairs::triples());
    let short = with_short_tags(&all);
    all.extend(short);
    all
}

/// Those with updates, or whose data cleaning moves, where tags are short.
fn with_short_tags(all: &[Script]) -> Vec<Script> {
    const OF_TAGS: [&str; 10] = [
        "single-update",
        "single-tail",
        "single-append",
        "single-overwrite",
        "force-updates",
        "force-tails",
        "force-data-cleaning",
        "force-full-chip",
        "force-refresh-1",
        "random-1",
    ];
    let is_of_tags = |script: &&Script| {
        let name = &script.name;
        script.chip.spare == 40 && OF_TAGS.iter().any(|begin| name.starts_with(begin))
    };
    let short = |script: &Script| Script {
        chip: Chip {
            spare: 24,
            // Those that move data are of chips that copy it.
            copies: script.name.starts_with("force-data") || script.name.starts_with("force-full"),
            ..script.chip.clone()
        },
        ..script.clone()
    };
    all.iter().filter(is_of_tags).map(short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_can_stand_in_an_id() {
        let mut names = HashSet::new();
        for script in catalogue() {
            assert!(
                names.insert((script.name.clone(), script.chip.clone())),
                "{}",
                script.name
            );
            let id = format!("{}:{}:0.none", script.chip, script.name);
            assert_eq!(id.parse::<Id>().unwrap().script, script.name);
        }
    }

    #[test]
    fn every_operation_makes_sense() {
        for script in directed::scripts().into_iter().chain(single::scripts()) {
            assert_eq!(script.senseless(), None, "{}", script.name);
        }
    }

    #[test]
    fn scripts_are_found() {
        let chip = SMALL_CHIP;
        assert_eq!(
            Script::find("single-create", &chip).unwrap().group,
            Group::Single
        );
        assert!(Script::find("single-create", &Chip::new(1024, 40, 8, 65)).is_err());
        let given = Script::given("create a; sync", chip.clone()).unwrap();
        assert_eq!(Script::find(&given.name, &chip).unwrap().ops, given.ops);
    }
}
