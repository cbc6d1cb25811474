//! The stored images are what they are meant to be. If this fails because the on-flash format has
//! changed, make them anew: `cargo run -p flashkit-hostile --example images`.

use std::collections::HashSet;

use flashkit_flashlight::inspect::{FileEntry, Inspected, Record, inspect};
use flashkit_flashlight::{FlashLight, Kind, New, ROOT_DIR};
use flashkit_hostile::image::{self, Image, plain, stored};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::SimNand;
use flashkit_vfs::any::AnyNand;
use flashkit_vfs::check::check;

const AGAIN: &str = "if the format has changed: cargo run -p flashkit-hostile --example images";

#[test]
fn every_image_is_a_good_volume() {
    for (name, image) in stored() {
        let chip = image.chip();
        let mut ram = image::ram(&chip.geometry());
        let mounted = FlashLight::mount(AnyNand::new(chip), &mut ram, image::config());
        let mut fs = mounted.unwrap_or_else(|error| panic!("{name}: {error}; {AGAIN}"));
        // The last of the updates is copied: so there were some.
        let copied = u64::from(*name == "updates");
        assert_eq!(fs.written().data, copied, "{name}; {AGAIN}");
        let checked = check(&mut fs).unwrap_or_else(|error| panic!("{name}: {error}; {AGAIN}"));
        assert_eq!(checked.findings, [], "{name}; {AGAIN}");
        println!(
            "{name}: {:?} {:?}",
            checked,
            image.kinds.each_ref().map(Vec::len)
        );
    }
}

#[test]
fn every_kind_of_record_is_in_some_image() {
    let found: HashSet<u8> = stored()
        .iter()
        .flat_map(|(_, image)| {
            Kind::ALL
                .into_iter()
                .filter(|kind| !image.kinds[*kind as usize].is_empty())
        })
        .map(|kind: Kind| kind as u8)
        .collect();
    // Places take some 15,000 directories; which pages are valid is of use to the session
    // that has written it only.
    let wanted = Kind::ALL
        .into_iter()
        .filter(|kind| !matches!(kind, Kind::Places | Kind::Validity));
    for kind in wanted {
        assert!(found.contains(&(kind as u8)), "{kind:?}; {AGAIN}");
    }
}

/// Whether each page of the snapshots in an image is coded.
fn snapshots(image: &Image) -> Vec<bool> {
    let mut chip = image.chip();
    let mut page = vec![0; chip.geometry().page_size() as usize];
    let mut coded = Vec::new();
    for at in &image.kinds[Kind::Snapshot as usize] {
        chip.read(PageAddr(*at), 0, &mut page, &mut []).unwrap();
        match inspect(&chip.geometry(), &page, PageAddr(*at)) {
            Inspected::Record(_, Record::Snapshot(piece)) => coded.push(piece.is_coded()),
            _ => panic!("page {at} is no snapshot"),
        }
    }
    coded
}

/// Entries of one byte, and of two.
#[test]
fn snapshots_are_coded() {
    for name in ["clean", "wide"] {
        let (_, image) = stored().iter().find(|i| i.0 == name).unwrap();
        assert!(snapshots(image).contains(&true), "{name}; {AGAIN}");
    }
}

/// A volume of before has another form of the snapshot from its next checkpoint on.
#[test]
fn a_volume_of_before_is_mounted_and_goes_on() {
    let image = plain();
    let found = snapshots(&image);
    assert!(!found.is_empty() && !found.contains(&true));
    let chip = image.chip();
    let mut ram = image::ram(&chip.geometry());
    let mut fs = FlashLight::mount(AnyNand::new(chip), &mut ram, image::config()).unwrap();
    let before = check(&mut fs).unwrap();
    assert_eq!((before.findings.len(), fs.written().checkpoints), (0, 0));
    fs.mkdir(ROOT_DIR, b"of now", &New::default()).unwrap();
    let mut chip: SimNand = fs.unmount().map_err(|(_, e)| e).unwrap().take();
    assert!(snapshots(&Image::of(&mut chip)).contains(&true));
    let mut ram = image::ram(&chip.geometry());
    let mut fs = FlashLight::mount(AnyNand::new(chip), &mut ram, image::config()).unwrap();
    let after = check(&mut fs).unwrap();
    assert_eq!(after.findings, []);
    assert_eq!((after.dirs, after.files), (before.dirs + 1, before.files));
}

#[test]
fn extents_wait_and_mask_in_the_image_of_many() {
    let (_, image) = stored().iter().find(|i| i.0 == "extents").unwrap();
    let mut chip = image.chip();
    let mut page = vec![0; chip.geometry().page_size() as usize];
    let (mut waiting, mut masking) = (0, 0);
    for at in &image.kinds[Kind::ExtentIndex as usize] {
        chip.read(PageAddr(*at), 0, &mut page, &mut []).unwrap();
        let record = inspect(&chip.geometry(), &page, PageAddr(*at));
        if let Inspected::Record(_, Record::ExtentIndex(index)) = record {
            for entry in index.waiting() {
                waiting += 1;
                masking += u32::from(matches!(entry, FileEntry::Extent { masks: true, .. }));
            }
        }
    }
    assert!(
        waiting > 100 && masking > 20,
        "{waiting}, {masking}; {AGAIN}"
    );
}
