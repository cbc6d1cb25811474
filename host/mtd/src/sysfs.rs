//! What `/sys` says of an MTD device.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use flashkit_nand::Geometry;
use nix::sys::stat;

use crate::MtdError;

/// The character devices `mtdN` and `mtdNro`.
const MAJOR: u64 = 90;

/// A device as `/sys` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name: that of a partition, often.
    pub name: String,
    pub geometry: Geometry,
    /// Bits that the ECC corrects in each of its steps.
    pub strength: u32,
}

/// The folder of an MTD character device. Odd minor numbers are the same devices for reading only;
/// `/sys` has them too.
pub fn folder(metadata: &Metadata) -> Result<PathBuf, MtdError> {
    let (major, minor) = (stat::major(metadata.rdev()), stat::minor(metadata.rdev()));
    if !metadata.file_type().is_char_device() || major != MAJOR {
        return Err(MtdError::NotMtd);
    }
    Ok(PathBuf::from(format!("/sys/dev/char/{major}:{minor}")))
}

/// Reads a device's folder.
pub fn describe(folder: &Path) -> Result<Described, MtdError> {
    let text = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path)
            .map(|text| text.trim().to_owned())
            .map_err(|error| MtdError::Sysfs(path.display().to_string(), error))
    };
    let number = |name: &str| {
        let said = text(name)?;
        said.parse::<u64>().map_err(|_| {
            let why = std::io::Error::other(format!("`{said}` is no number"));
            MtdError::Sysfs(folder.join(name).display().to_string(), why)
        })
    };
    let kind = text("type")?;
    if !matches!(kind.as_str(), "nand" | "mlc-nand") {
        return Err(MtdError::NotNand(kind));
    }
    let (page, spare) = (number("writesize")?, number("oobavail")?);
    let (block, size) = (number("erasesize")?, number("size")?);
    let pages = block.checked_div(page).unwrap_or(0);
    let blocks = size.checked_div(block).unwrap_or(0);
    let fits = [page, spare, pages, blocks].map(|n| u32::try_from(n).unwrap_or(0));
    let geometry = Geometry::new(fits[0], fits[1], fits[2], fits[3])
        .map_err(|_| MtdError::Geometry(page, spare, pages, blocks))?;
    Ok(Described {
        name: text("name")?,
        geometry,
        strength: number("ecc_strength")?.clamp(1, 1 << 16) as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(changed: (&str, &str)) -> Result<Described, MtdError> {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            ("type", "nand\n"),
            ("name", "rootfs\n"),
            ("writesize", "2048\n"),
            ("oobavail", "38\n"),
            ("erasesize", "131072\n"),
            ("size", "134217728\n"),
            ("ecc_strength", "1\n"),
        ];
        for (name, text) in files {
            let text = if name == changed.0 { changed.1 } else { text };
            fs::write(dir.path().join(name), text).unwrap();
        }
        describe(dir.path())
    }

    #[test]
    fn a_device_is_described() {
        let found = device(("", "")).unwrap();
        assert_eq!(found.name, "rootfs");
        assert_eq!(found.strength, 1);
        assert_eq!(found.geometry, Geometry::new(2048, 38, 64, 1024).unwrap());
        // 8 GiB: more than 32 bits count.
        let large = device(("size", "8589934592")).unwrap();
        assert_eq!(large.geometry.blocks(), 65_536);
    }

    #[test]
    fn what_is_no_nand_chip_is_refused() {
        let refused = |name, text: &str| device((name, text)).unwrap_err().to_string();
        assert!(refused("type", "nor").contains("type `nor`"));
        assert!(refused("writesize", "0").contains("no chip has"));
        assert!(refused("erasesize", "x").contains("erasesize: `x` is no number"));
        let missing = describe(Path::new("/nonexistent")).unwrap_err();
        assert!(missing.to_string().contains("/nonexistent/type"));
    }

    #[test]
    fn only_mtd_devices_are_taken() {
        for path in ["/dev/null", "/proc/self/exe"] {
            let metadata = fs::metadata(path).unwrap();
            assert!(matches!(folder(&metadata), Err(MtdError::NotMtd)), "{path}");
        }
    }
}
