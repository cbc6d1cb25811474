//! The stored images are what they are meant to be. If this fails because the on-flash format has
//! changed, make them anew: `cargo run -p flashkit-hostile --example images`.

use std::collections::HashSet;

use flashkit_flashlight::inspect::{FileEntry, Inspected, Record, inspect};
use flashkit_flashlight::{Config, FlashLight, Kind, ram_needed};
use flashkit_hostile::image::stored;
use flashkit_nand::{Nand, PageAddr};
use flashkit_vfs::check::check;

const AGAIN: &str = "if the format has changed: cargo run -p flashkit-hostile --example images";

#[test]
fn every_image_is_a_good_volume() {
    for (name, image) in stored() {
        let chip = image.chip();
        let mut ram = vec![0; ram_needed(&chip.geometry())];
        let mounted = FlashLight::mount(chip, &mut ram, Config::default());
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
    // Places take some 15,000 directories.
    let wanted = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Places);
    for kind in wanted {
        assert!(found.contains(&(kind as u8)), "{kind:?}; {AGAIN}");
    }
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
