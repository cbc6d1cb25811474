//! Pages that rot, and which to take.

use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Rot, SimNand};
use flashkit_workload::Rng;

/// How a page rots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Lost,
    Silent,
}

pub const WAYS: [Way; 2] = [Way::Lost, Way::Silent];

pub fn spoil(chip: &mut SimNand, page: PageAddr, way: Way) {
    let mut data = vec![0; chip.geometry().page_size() as usize];
    let rot = match way {
        Way::Lost => Rot::Lost,
        Way::Silent => {
            chip.read(page, 0, &mut data, &mut []).unwrap();
            let used = data.iter().rposition(|&b| b != 0xff).map_or(1, |n| n + 1);
            let mut rng = Rng::new(u64::from(page.0));
            Rot::Silent {
                offset: rng.below(used as u64) as u32,
                mask: 1 << rng.below(8),
            }
        }
    };
    assert!(chip.rot(page, rot).unwrap());
}

/// Metadata pages of a kind that are newer than the newest of another: their
/// places, the oldest first.
pub fn newer(chip: &SimNand, kind: u8, than: u8) -> Vec<PageAddr> {
    let mut chip = chip.clone();
    let (mut newest, mut found) = (0, Vec::new());
    let mut page = vec![0; chip.geometry().page_size() as usize];
    for at in (0..chip.geometry().pages()).map(PageAddr) {
        chip.read(at, 0, &mut page, &mut []).unwrap();
        let seq = u64::from_le_bytes(page[8..16].try_into().unwrap());
        match (&page[4..6], page[6]) {
            (b"FL", k) if k == kind => found.push((seq, at)),
            (b"FL", k) if k == than => newest = newest.max(seq),
            _ => {}
        }
    }
    found.retain(|&(seq, _)| seq > newest);
    found.sort_unstable();
    found.into_iter().map(|(_, at)| at).collect()
}
