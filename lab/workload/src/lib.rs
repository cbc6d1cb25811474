//! Streams of file-system operations: read from traces or generated, replayed over a file system
//! or a mounted directory with figures and verification, and random ones for model tests.

#![forbid(unsafe_code)]

pub mod content;
mod expected;
pub mod generate;
pub mod model;
pub mod record;
pub mod replay;
pub mod report;
mod rng;
mod store;
pub mod trace;
pub mod traces;

pub use expected::Expected;
pub use record::Recorder;
pub use replay::{Options, ReplayError, Replayed, replay_dir, replay_fs, replay_store};
pub use report::{BusFigures, Phase, Purpose, Remount, Report, Stopped};
pub use rng::Rng;
pub use store::{FsStore, Meter, Store, StoreError};
pub use trace::{Line, Op, TraceError};
