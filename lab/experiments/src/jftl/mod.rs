//! JFTL: a real ext3 in three modes, on the layer with remapping and on the one without.

mod filebench;
pub mod lab;
mod load;
mod paper;
mod recovery;
mod rig;

pub use paper::SOURCE;
