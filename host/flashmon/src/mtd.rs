//! The MTD devices of this machine, from sysfs.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// An MTD device on raw NAND: a chip or a partition of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mtd {
    /// `mtd0`.
    pub device: String,
    /// What its driver or partition table calls it.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Bytes of an erase block.
    pub block_size: u32,
    /// Bytes of a page.
    pub page_size: u32,
    /// Spare bytes of a page.
    pub spare_size: u32,
    /// Byte of the chip at which the partition begins; 0 for a chip.
    pub offset: u64,
}

impl Mtd {
    /// Pages of an erase block.
    pub fn pages_per_block(&self) -> u32 {
        self.block_size / self.page_size.max(1)
    }

    /// Erase blocks.
    pub fn blocks(&self) -> u32 {
        u32::try_from(self.size / u64::from(self.block_size.max(1))).unwrap_or(u32::MAX)
    }
}

/// The raw NAND devices of this machine, by number.
pub fn devices() -> Vec<Mtd> {
    devices_in(Path::new("/sys/class/mtd"))
}

fn devices_in(class: &Path) -> Vec<Mtd> {
    let Ok(entries) = fs::read_dir(class) else {
        return Vec::new();
    };
    let number = |name: &str| name.strip_prefix("mtd")?.parse::<u32>().ok();
    let mut found: Vec<(u32, Mtd)> = entries
        .flatten()
        .filter_map(|entry| {
            let device = entry.file_name().into_string().ok()?;
            let number = number(&device)?;
            Some((number, device_in(&entry.path(), device)?))
        })
        .collect();
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, mtd)| mtd).collect()
}

fn device_in(dir: &Path, device: String) -> Option<Mtd> {
    let text = |file: &str| Some(fs::read_to_string(dir.join(file)).ok()?.trim().to_owned());
    if text("type")? != "nand" {
        return None;
    }
    Some(Mtd {
        device,
        name: text("name")?,
        size: text("size")?.parse().ok()?,
        block_size: text("erasesize")?.parse().ok()?,
        page_size: text("writesize")?.parse().ok()?,
        spare_size: text("oobsize")?.parse().ok()?,
        offset: text("offset")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0),
    })
}

/// Pages of a block where all devices agree.
pub fn pages_per_block(devices: &[Mtd]) -> Option<u32> {
    let first = devices.first()?.pages_per_block();
    let agree = devices.iter().all(|mtd| mtd.pages_per_block() == first);
    (agree && first > 0).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(class: &Path, name: &str, kind: &str, erasesize: &str) {
        let dir = class.join(name);
        fs::create_dir(&dir).unwrap();
        let files = [
            ("type", kind),
            ("name", "a chip"),
            ("size", "268435456"),
            ("erasesize", erasesize),
            ("writesize", "2048"),
            ("oobsize", "64"),
        ];
        for (file, text) in files {
            fs::write(dir.join(file), format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn only_raw_nand_is_listed() {
        let class = tempfile::tempdir().unwrap();
        device(class.path(), "mtd10", "nand", "131072");
        device(class.path(), "mtd2", "nand", "131072");
        device(class.path(), "mtd2ro", "nand", "131072");
        device(class.path(), "mtd3", "nor", "65536");
        let found = devices_in(class.path());
        let names: Vec<&str> = found.iter().map(|mtd| &mtd.device[..]).collect();
        assert_eq!(names, ["mtd2", "mtd10"]);
        assert_eq!((found[0].blocks(), found[0].pages_per_block()), (2048, 64));
        assert_eq!(pages_per_block(&found), Some(64));
        device(class.path(), "mtd4", "nand", "262144");
        assert_eq!(pages_per_block(&devices_in(class.path())), None);
        assert!(devices_in(Path::new("/no/such/place")).is_empty());
    }
}
