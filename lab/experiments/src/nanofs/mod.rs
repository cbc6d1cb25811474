//! E. Werbet, A. Brayner: *A Flash File System for Resource Restricted Platforms*, Journal of
//! Information and Data Management, 2012.

mod collect;
mod footprint;
pub mod lab;
mod measure;
mod streams;

/// The paper.
pub const SOURCE: &str = "Werbet, Brayner: A Flash File System for Resource Restricted Platforms, \
    JIDM 2012, section 4";
