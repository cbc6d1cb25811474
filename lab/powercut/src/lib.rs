//! The power-cut search: scripts of operations on a small simulated chip, cut at every program and
//! erase, with every outcome that a cut may have, and in the recoveries from that.
//!
//! What a fresh mount finds must be one of the states that `docs/guarantees.md` allows, as a
//! model of the script tells them; the check of all structures must be clean, a new file can be
//! written, and a second mount shows the same. One chip of sixteen is looked at read-only before
//! that: what its recovery leaves is seen before files without a name have gone.
//! `flashkit powercut` is the command.
//!
//! | module | what it is |
//! | --- | --- |
//! | `op`, `script` | operations as text; the catalogue of scripts |
//! | `chip`, `outcome` | the chips, what a cut may leave |
//! | `recorder` | snapshots before every flash operation |
//! | `model`, `content`, `seen` | what may be seen, and what is |
//! | `run`, `live` | a script on a volume and its model, step by step |
//! | `survive` | what must hold of a chip after a cut |
//! | `boot` | what the boot reader finds, compared with a mount |
//! | `search`, `again`, `plan` | cuts of one script; cut after cut on one chip; the budgets |
//! | `tree`, `copying` | cut after cut in a copy of a real tree |
//! | `guard` | a chip where nothing is erased that the last checkpoint needs; checks each one |
//! | `history` | a chip in use: thousands of names, nearly full, cut hundreds of times |
//! | `sequence` | operations and cuts as a fuzzer draws them |
//! | `id`, `replay`, `shrink` | what replays a violation, its story, a shorter script for it |

#![forbid(unsafe_code)]

mod again;
mod boot;
mod caught;
mod chip;
mod content;
mod copying;
mod forced;
mod guard;
mod history;
mod id;
mod live;
mod model;
mod op;
mod outcome;
mod plan;
mod recorder;
mod replay;
mod run;
mod script;
mod search;
mod seen;
mod sequence;
mod shrink;
mod soak;
mod survive;
mod tree;

pub use again::{Loop, again};
pub use chip::Chip;
pub use forced::Forced;
pub use guard::{Copied, Guard};
pub use history::{Histories, History};
pub use id::{Cut, Id, Place};
pub use op::{OPERATIONS, Op, Piece, parse, text};
pub use outcome::Outcome;
pub use plan::{Budget, Part, Waits, search_all, search_boot, search_scripts};
pub use replay::{Verdict, replay};
pub use script::{BARE_CHIP, Group, SMALL_CHIP, Script, catalogue};
pub use search::{Found, Violation, Width, search};
pub use sequence::{Draw, Planned, cut_sequence};
pub use shrink::shrink;
pub use soak::{Soak, Soaked};
pub use tree::{TREE_CHIP, Tree, TreeCuts, TreeFile, TreeFound};
