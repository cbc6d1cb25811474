//! What is asked for in vain: what is wrong is said in one line, with the status that it has.

use std::fs;

use crate::common::Place;
use crate::output::holders;

#[test]
fn what_an_image_holds_instead_is_said() {
    let here = Place::new();
    fs::create_dir(here.path("at")).unwrap();
    fs::write(here.path("f"), "f").unwrap();
    holders(&here);
    let jftl = "jftl: holds a disk of jftl; `flashkit attach --ftl jftl` takes it";
    let logdisk = "logdisk: holds a disk of logdisk; `flashkit attach --ftl logdisk` takes it";
    for (name, told) in [("jftl", jftl), ("logdisk", logdisk)] {
        let inside = format!("{name}:/f");
        for args in [
            &["ls", name][..],
            &["cat", &inside],
            &["cp", "f", &inside],
            &["cp", &inside, "out"],
            &["mount", name, "at"],
        ] {
            assert_eq!(here.complaint(1, args), told, "{args:?}");
        }
    }
    assert_eq!(here.complaint(1, &["info", "jftl"]), jftl);
    assert_eq!(here.complaint(1, &["dump", "logdisk"]), logdisk);
    for (ftl, name, told) in [
        ("logdisk", "jftl", jftl),
        ("page", "logdisk", logdisk),
        (
            "jftl",
            "flashlight",
            "flashlight: holds a FlashLight volume; `flashkit mount` takes it",
        ),
        (
            "logdisk",
            "nanofs",
            "nanofs: holds a Nano-FS volume; `flashkit mount` takes it",
        ),
        ("jftl", "text", "text: not a flashkit image"),
    ] {
        let args = ["serve", "--ftl", ftl, name, "--socket", "s"];
        assert_eq!(here.complaint(1, &args), told, "{ftl}");
    }
}
