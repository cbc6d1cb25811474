//! The model tests' driver and the recorder, against what is known.
//! One program, which is linked once.

mod model;
mod record;
