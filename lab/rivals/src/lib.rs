//! File systems of others that link into this process, over the same simulated chips.
//!
//! The default build has none of them: each is a feature, which the command passes on.
//! `cargo run --release --features littlefs -- lab run peers` includes littlefs.

#[cfg(feature = "littlefs")]
mod littlefs;

#[cfg(feature = "littlefs")]
pub use littlefs::LittleFs;

/// Whether littlefs is in this build.
pub const LITTLEFS: bool = cfg!(feature = "littlefs");
