//! What the paper reports.

/// The paper.
pub const SOURCE: &str = "H. J. Choi, S.-H. Lim, K. H. Park: JFTL: A Flash Translation Layer Based on a Journal \
                          Remapping for Flash Memory, ACM Transactions on Storage 4(4), article 14, 2009";

/// How much faster its JFTL is than its FTL, in the text of sections 4.1.1 and 4.1.2:
/// writeback, ordered, journaled.
pub const TAR: [f64; 3] = [1.10, 1.05, 1.70];
pub const POSTMARK: [f64; 3] = [1.20, 1.10, 1.60];

/// Table II, in ms: the map, the recovery of a full journal of 4 MB.
pub const MOUNT_MS: u64 = 400;
pub const RECOVERY_FTL_MS: u64 = 1_800;
pub const RECOVERY_JFTL_MS: u64 = 32;

/// Files and directories of the Tar benchmark (4.1.1), files, directories and
/// operations of Postmark (4.1.2).
pub const TAR_FILES: usize = 7_117;
pub const POSTMARK_FILES: u32 = 15_000;
pub const POSTMARK_DIRECTORIES: u32 = 500;
