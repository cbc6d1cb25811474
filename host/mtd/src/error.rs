//! Errors of the driver. Faults of the medium are not among them.

use std::io;

/// Why a device is not used, or a request failed for another reason than the medium.
#[derive(Debug)]
pub enum MtdError {
    /// Not an MTD character device.
    NotMtd,
    /// Not NAND: its type.
    NotNand(String),
    /// Opened for writing elsewhere.
    InUse,
    /// Sizes that no chip has: page, usable spare bytes, pages per block, blocks.
    Geometry(u64, u64, u64, u64),
    /// What `/sys` should say of it cannot be read: which file, and why.
    Sysfs(String, io::Error),
    /// A request failed: which, and why.
    Request(&'static str, io::Error),
}

impl std::fmt::Display for MtdError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MtdError::NotMtd => f.write_str("is no MTD device (such as /dev/mtd0)"),
            MtdError::NotNand(kind) => write!(f, "is of type `{kind}`, not raw NAND"),
            MtdError::InUse => f.write_str("in use by another flashkit"),
            MtdError::Geometry(page, spare, pages, blocks) => write!(
                f,
                "no chip has pages of {page}+{spare} bytes, {pages} in each of {blocks} blocks"
            ),
            MtdError::Sysfs(file, error) => write!(f, "{file}: {error}"),
            MtdError::Request(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

// No source: the error is said already.
impl std::error::Error for MtdError {}
