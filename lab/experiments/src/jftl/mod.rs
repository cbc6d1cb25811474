//! JFTL: a real ext3 in three modes, on the layer with remapping and on the one without.
//!
//! | module | what it does |
//! | --- | --- |
//! | `plan` | what is measured: the paper's figures as benchmarks, modes and commit intervals |
//! | `load` | the benchmarks: real programs where they are installed |
//! | `filebench` | the seven loads of Filebench |
//! | `rig` | a real ext3 on the layer |
//! | `record` | what the kernel asked for, to be asked of the other layer |
//! | `tally` | the same, block by block: what each was |
//! | `keep` | results, as they are kept |
//! | `recovery` | mounts after a crash |
//! | `garbage` | what cleaning costs when the layer knows what is deleted, and when it does not |
//! | `figures` | tables, figures and bars from the results |
//! | `lab` | runs it all |

mod figures;
mod filebench;
mod garbage;
mod keep;
pub mod lab;
mod load;
mod paper;
mod plan;
mod record;
mod recovery;
mod rig;
mod tally;

pub use keep::{Measured, Mounts, Ran, Recovery};
pub use paper::SOURCE;
pub use plan::{MOUNTS, Piece, pieces};
pub use tally::Tally;
