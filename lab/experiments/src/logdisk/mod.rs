//! Kawaguchi, Nishioka, Motoda: *A Flash-Memory Based File System*, USENIX Winter 1995.

mod andrew;
pub mod lab;
pub mod load;
pub mod paper;
mod reads;
mod unstated;
