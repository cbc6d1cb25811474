//! Every record on the flash.

use std::path::Path;

use flashkit_flashlight::{Page, Visitor};
use flashkit_nand::PageAddr;
use flashkit_sim::SimNand;
use serde_json::{Map, Value, json};

use super::{Chip, mount};
use crate::volume::Tuning;

struct Records(Vec<Value>);

impl Visitor for Records {
    fn page(&mut self, page: Page) {
        let kind = format!("{:?}", page.area).to_lowercase();
        let record = json!({ "kind": kind, "page": page.page.0, "ino": page.ino });
        self.0.push(record);
    }
    fn problem(&mut self, _: PageAddr, _: u32, _: &'static str) {}
}

pub fn records(image: &Path, tuning: Tuning) -> anyhow::Result<Vec<Map<String, Value>>> {
    let chip = SimNand::open(image, flashkit_sim::Access::ReadOnlyCow)?;
    let mut fs = mount(Chip::never(chip), tuning, true)?;
    let mut records = Records(Vec::new());
    fs.volume().walk(&mut records)?;
    let objects = records.0.into_iter().filter_map(|record| match record {
        Value::Object(record) => Some(record),
        _ => None,
    });
    Ok(objects.collect())
}
