//! What replays a violation: `CHIP:SCRIPT:CUT[:CUT...]`.
//!
//! The script is one of the catalogue by its name, or `=` and its text with `_` for spaces and `,`
//! for semicolons. A cut is `POINT.OUTCOME`. The points are the modifying flash operations of the
//! script, from 0, then those of the recovery after the first cut, and so on. The first cut may be
//! `@STEP`: between operations, after that step of the script. `CHIP:loop-SEED:N` is cut N
//! of a [loop](crate::again).

use std::fmt;
use std::str::FromStr;

use crate::chip::Chip;
use crate::op::{self, Op};
use crate::outcome::Outcome;

/// One cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Between two operations, after this step of the script; only the first cut is.
    Between(usize),
    /// In this flash operation of the script or of a recovery, and what it leaves.
    In(u64, Outcome),
}

/// Where the power was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the script, in the recovery, in the recovery from that, and so on. None: the script fails
    /// without a cut.
    Cuts(Vec<Cut>),
    /// Cut number N of a loop.
    Round(u64),
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cut::Between(step) => write!(f, "@{step}"),
            Cut::In(point, outcome) => write!(f, "{point}.{outcome}"),
        }
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}

impl FromStr for Cut {
    type Err = String;

    fn from_str(text: &str) -> Result<Cut, String> {
        match (text.strip_prefix('@'), text.split_once('.')) {
            (Some(step), _) => Ok(Cut::Between(number(step)?)),
            (_, Some((point, outcome))) => Ok(Cut::In(number(point)?, outcome.parse()?)),
            _ => Err(format!("not a cut: {text}")),
        }
    }
}

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id {
    /// The chip.
    pub chip: Chip,
    /// The script's name, or its text.
    pub script: String,
    /// Where the cuts are.
    pub place: Place,
}

impl Id {
    /// The name of a script that is given by its text.
    pub fn script_of(ops: &[Op]) -> String {
        let text = op::text(ops);
        format!("={}", text.replace("; ", ",").replace(' ', "_"))
    }

    /// The operations of a script that is given by its text.
    pub(crate) fn ops_of(name: &str) -> Option<Result<Vec<Op>, String>> {
        let text = name.strip_prefix('=')?;
        Some(op::parse(&text.replace(',', ";").replace('_', " ")))
    }

    /// Whether a cut leaves something that reads well only for a while.
    pub fn is_unstable(&self) -> bool {
        let unstable = |cut: &Cut| matches!(cut, Cut::In(_, outcome) if outcome.is_unstable());
        matches!(&self.place, Place::Cuts(cuts) if cuts.iter().any(unstable))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.chip, self.script)?;
        match &self.place {
            Place::Cuts(cuts) => cuts.iter().try_for_each(|cut| write!(f, ":{cut}")),
            Place::Round(n) => write!(f, ":{n}"),
        }
    }
}

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Id, String> {
        let mut parts = text.split(':');
        let chip = parts.next().unwrap_or_default().parse()?;
        let script = parts
            .next()
            .filter(|s| !s.is_empty())
            .ok_or("an id names a script")?;
        let place = if script.starts_with("loop-") {
            Place::Round(number(parts.next().unwrap_or_default())?)
        } else {
            Place::Cuts(
                parts
                    .by_ref()
                    .map(str::parse)
                    .collect::<Result<_, String>>()?,
            )
        };
        if let Some(more) = parts.next() {
            return Err(format!("too much: {more}"));
        }
        if let Place::Cuts(cuts) = &place
            && cuts
                .iter()
                .skip(1)
                .any(|cut| matches!(cut, Cut::Between(_)))
        {
            return Err("only the first cut can be between operations".into());
        }
        Ok(Id {
            chip,
            script: script.to_owned(),
            place,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in [
            "1024+24x8x64:rename:12.prefix512:0.part1",
            "1024+0x8x64-paper:=create_a,write_d/a_0_100:3.garbage",
            "1024+24x8x64:sync:@3",
            "1024+24x8x64:sync:@3:0.none",
            "1024+24x8x64:sync",
            "1024+24x8x64:loop-7:381",
        ] {
            assert_eq!(text.parse::<Id>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "1024+24x8x64",
            "1024+24x8x64:a:3",
            "1024+24x8x64:a:x.none",
            "x:a:1.none",
            "1024+24x8x64:a:1.none:@2",
            "1024+24x8x64:loop-1:2:3",
        ] {
            assert!(bad.parse::<Id>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_text_is_a_name() {
        let ops = op::parse("create a; write d/a 0 100").unwrap();
        let name = Id::script_of(&ops);
        assert_eq!(name, "=create_a,write_d/a_0_100");
        assert_eq!(Id::ops_of(&name), Some(Ok(ops)));
        assert_eq!(Id::ops_of("rename"), None);
    }
}
