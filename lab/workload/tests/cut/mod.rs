//! Power cuts over scripts of operations: the model of what may be seen, the chip that remembers
//! every point to cut at, and the search.

pub mod model;
pub mod recorder;
pub mod script;
pub mod search;
