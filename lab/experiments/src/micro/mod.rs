//! Wear levelling and garbage collection under controlled initial state.
//!
//! P. Olivier, J. Boukhobza, E. Senn: *Micro-benchmarking Flash Memory File-System Wear Leveling
//! and Garbage Collection: a Focus on Initial State Impact*, 2012. The paper measured JFFS2, YAFFS2
//! and UBIFS of Linux 2.6.37 on one board, once. Here its three groups run on a chip with the same
//! geometry and latencies, and beside them what it does not ask: what durable requests cost, what
//! an aged chip does, and the nine micro-benchmarks of uFLIP.
//!
//! | module | what it does |
//! | --- | --- |
//! | `pattern` | requests |
//! | `state` | initial states |
//! | `cases` | which there are |
//! | `data` | results as curves |
//! | `figures` | the paper's figures from the results |
//! | `verdict` | the paper's observations, looked at in the results |

mod cases;
mod data;
mod figures;
pub mod pattern;
pub mod state;
mod verdict;

pub use cases::{cases, uflip_cases};
pub use data::Data;
pub use figures::{report, uflip_report};
pub use verdict::{OBSERVATIONS, Observation, Verdict};

/// The paper.
pub const SOURCE: &str = "P. Olivier, J. Boukhobza, E. Senn, Micro-benchmarking Flash Memory \
     File-System Wear Leveling and Garbage Collection, 2012";
/// The paper that the nine micro-benchmarks are from.
pub const UFLIP: &str =
    "L. Bouganim, B. Jonsson, P. Bonnet, uFLIP: Understanding Flash IO Patterns, CIDR 2009";

/// Name of the phase that is measured.
const TEST: &str = "test";
