//! File systems of others that link into this process, over the same simulated chips.
//!
//! The default build has none of them: each is a feature, which the command passes on.
//! `cargo run --release --features littlefs -- lab run peers` includes littlefs, `--features
//! littlefs,yaffs2` YAFFS2 as well, once `lab/rivals/yaffs2/fetch.sh` has fetched its sources. A
//! program with YAFFS2 in it is under the GPL as a whole: it is built where it is used, and
//! not handed on.

#[cfg(feature = "littlefs")]
mod littlefs;
#[cfg(feature = "yaffs2")]
mod yaffs2;

#[cfg(any(feature = "littlefs", feature = "yaffs2"))]
use flashkit_workload::StoreError;
#[cfg(feature = "littlefs")]
pub use littlefs::LittleFs;
#[cfg(feature = "yaffs2")]
pub use yaffs2::Yaffs2;

/// All paths below the root, each with whether it is a directory. `names`: those in a directory.
#[cfg(any(feature = "littlefs", feature = "yaffs2"))]
fn list_all(
    mut names: impl FnMut(&str) -> Result<Vec<(String, bool)>, StoreError>,
) -> Result<Vec<(String, bool)>, StoreError> {
    let mut found = Vec::new();
    let mut pending = vec![String::new()];
    while let Some(dir) = pending.pop() {
        for (name, is_dir) in names(&dir)? {
            let path = match dir.is_empty() {
                true => name,
                false => format!("{dir}/{name}"),
            };
            if is_dir {
                pending.push(path.clone());
            }
            found.push((path, is_dir));
        }
    }
    Ok(found)
}

/// Whether littlefs is in this build.
pub const LITTLEFS: bool = cfg!(feature = "littlefs");
/// Whether YAFFS2 is in this build.
pub const YAFFS2: bool = cfg!(feature = "yaffs2");
/// The package that its sources are from, with its version, where it is in this build.
pub const YAFFS2_PACKAGE: Option<&str> = option_env!("FLASHKIT_YAFFS2_VERSION");
