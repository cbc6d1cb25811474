//! Raw images: made for chips with any bad blocks, written around these, read back.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::{Place, complaint};

const CHIP: &str = "micron-20m";
/// Bytes of a block of it, without and with spare bytes.
const BLOCK: u64 = 64 * 2048;
const RAW_BLOCK: u64 = 64 * (2048 + 64);

/// A tree on the host.
fn tree(here: &Place) {
    fs::create_dir_all(here.path("tree/sub")).unwrap();
    for i in 0..40_usize {
        let bytes: Vec<u8> = (0..i * 1_111).map(|k| (k * k / 7 + i) as u8).collect();
        fs::write(here.path(&format!("tree/sub/f{i}")), bytes).unwrap();
    }
    symlink("sub/f3", here.path("tree/link")).unwrap();
}

/// Everything in the tree is in the image.
fn compare(here: &Place, image: &str) {
    here.said(0, &["fsck", image]);
    let _ = fs::remove_dir_all(here.path("out"));
    here.said(0, &["cp", "-r", &format!("{image}:/sub"), "out"]);
    for i in 0..40 {
        let want = fs::read(here.path(&format!("tree/sub/f{i}"))).unwrap();
        let got = fs::read(here.path(&format!("out/f{i}"))).unwrap();
        assert!(got == want, "{image}: f{i}");
    }
    assert!(
        here.said(0, &["ls", "-lR", image])
            .contains("link -> sub/f3")
    );
}

fn len(here: &Place, name: &str) -> u64 {
    fs::metadata(here.path(name)).unwrap().len()
}

#[test]
fn an_image_fits_chips_with_any_bad_blocks() {
    let here = Place::new();
    tree(&here);
    for (mkfs, spare, block) in [
        (vec![], vec!["--spare"], RAW_BLOCK),
        (vec!["--no-spare"], vec![], BLOCK),
    ] {
        let made = [
            vec![
                "mkfs", "--force", "--chip", CHIP, "--slack", "6", "-r", "tree",
            ],
            mkfs,
            vec!["x.img"],
        ];
        here.said(0, &made.concat());
        compare(&here, "x.img");
        // It may be changed before it is sent.
        fs::write(here.path("more"), "more").unwrap();
        here.said(0, &["cp", "more", "x.img:/more"]);
        let export = [
            vec!["export", "--force"],
            spare.clone(),
            vec!["x.img", "x.bin"],
        ]
        .concat();
        let said = here.said(0, &export);
        assert!(said.contains("for chips with up to 6 bad blocks"), "{said}");
        assert!(len(&here, "x.bin") <= 154 * block, "slack is left out");
        assert_eq!(len(&here, "x.bin") % block, 0);
        for bad in ["0", "1,2", "0,1,3,9,80,159", "154,155,156,157,158,159"] {
            let import = [
                vec!["import", "--force", "--chip", CHIP, "--bad", bad],
                spare.clone(),
                vec!["x.bin", "y.img"],
            ];
            here.said(0, &import.concat());
            let before = fs::read(here.path("y.img")).unwrap();
            compare(&here, "y.img");
            assert!(
                fs::read(here.path("y.img")).unwrap() == before,
                "looked at only"
            );
            let transfer = here.json(0, &["info", "--json", "y.img"])["transfer"].clone();
            assert_eq!(
                (&transfer["slack"], &transfer["settled"]),
                (&6.into(), &false.into())
            );
            here.said(0, &["cp", "more", "y.img:/again"]);
            compare(&here, "y.img");
            let told = here.json(0, &["info", "--json", "y.img"]);
            assert_eq!(told["transfer"]["settled"], true);
            assert_eq!(told["transfer"]["passed_over"], told["bad_blocks"]);
            assert_eq!(
                here.said(0, &["cat", "y.img:/again", "y.img:/more"]),
                "moremore"
            );
            here.said(0, &["dump", "y.img"]);

            // What nanddump reads there: without the bad blocks, or all of it.
            let export = [
                vec!["export", "--force"],
                spare.clone(),
                vec!["y.img", "y.bin"],
            ]
            .concat();
            assert!(here.said(0, &export).contains("with the same bad blocks"));
            assert_eq!(len(&here, "y.bin"), 160 * block);
            let all = fs::read(here.path("y.bin")).unwrap();
            let bad_blocks: Vec<usize> = bad.split(',').map(|b| b.parse().unwrap()).collect();
            let good = all.chunks(block as usize).enumerate();
            let good: Vec<u8> = good
                .filter(|(b, _)| !bad_blocks.contains(b))
                .flat_map(|(_, bytes)| bytes.to_vec())
                .collect();
            fs::write(here.path("good.bin"), good).unwrap();
            for raw in ["y.bin", "good.bin"] {
                let import = [
                    vec!["import", "--force", "--chip", CHIP, "--bad", bad],
                    spare.clone(),
                    vec![raw, "z.img"],
                ];
                here.said(0, &import.concat());
                compare(&here, "z.img");
                assert_eq!(here.said(0, &["cat", "z.img:/again"]), "more");
            }
        }
    }
}

#[test]
fn an_image_is_the_same_every_time() {
    let here = Place::new();
    tree(&here);
    let raw = |name: &str| {
        here.said(
            0,
            &[
                "mkfs", "--force", "--chip", CHIP, "--slack", "3", "-r", "tree", "x.img",
            ],
        );
        here.said(0, &["export", "--spare", "x.img", name]);
        fs::read(here.path(name)).unwrap()
    };
    assert!(raw("a.bin") == raw("b.bin"));
}

#[test]
fn what_cannot_be_is_refused() {
    let here = Place::new();
    tree(&here);
    let wrong = |args: &[&str], what: &str| {
        let out = here.run(args);
        assert!(!out.status.success(), "{args:?} succeeds");
        let usage = ["--slack", "not for", "--bad", "invalid value"];
        let status = match usage.iter().any(|of| what.contains(of)) {
            true => 2,
            false => 1,
        };
        let said = complaint(&out, status);
        assert!(said.contains(what), "{args:?}: {said}");
    };
    let mkfs = ["mkfs", "--chip", CHIP];
    wrong(
        &[&mkfs[..], &["--slack", "130", "x.img"]].concat(),
        "do not suit flashlight with --slack 130",
    );
    wrong(
        &[&mkfs[..], &["--slack", "4000", "x.img"]].concat(),
        "--slack 4000: too many blocks",
    );
    wrong(&[&mkfs[..], &["--no-spare", "x.img"]].concat(), "--slack");
    wrong(
        &["mkfs", "--fs", "nanofs", "--slack", "1", "x.img"],
        "--slack is not for nanofs",
    );
    assert!(!here.path("x.img").exists());
    here.said(
        0,
        &[&mkfs[..], &["--slack", "2", "-r", "tree", "x.img"]].concat(),
    );
    wrong(
        &["export", "x.img", "x.bin"],
        "--spare, or make it with mkfs --no-spare",
    );
    here.said(0, &["export", "--spare", "x.img", "x.bin"]);
    wrong(
        &["export", "--spare", "x.img", "x.bin"],
        "--force overwrites it",
    );
    wrong(
        &["export", "--spare", "--force", "x.img", "x.img"],
        "is the image itself",
    );
    wrong(&["export", "tree/sub/f9", "f.bin"], "not a flashkit image");
    wrong(&["export", "none.img", "f.bin"], "No such file");
    wrong(
        &["export", "--spare", "x.img", "none/f.bin"],
        "No such file",
    );

    let import = ["import", "--chip", CHIP];
    wrong(
        &[&import[..], &["--spare", "tree/sub/f9", "y.img"]].concat(),
        "9999 bytes are not whole pages: micron-20m has them of 2112 with --spare",
    );
    wrong(
        &[&import[..], &["--spare", "tree/sub/f0", "y.img"]].concat(),
        "are no image",
    );
    wrong(
        &[&import[..], &["--spare", "none", "y.img"]].concat(),
        "No such file",
    );
    wrong(
        &[&import[..], &["--spare", "--bad", "160", "x.bin", "y.img"]].concat(),
        "--bad 160: micron-20m has the blocks 0 to 159",
    );
    wrong(
        &[&import[..], &["--spare", "--bad", "x", "x.bin", "y.img"]].concat(),
        "invalid value",
    );
    wrong(
        &[&import[..], &["tree", "y.img"]].concat(),
        "tree: not a file",
    );
    wrong(
        &[&import[..], &["/dev/null", "y.img"]].concat(),
        "not a file",
    );
    let most = (0..160)
        .map(|b| b.to_string())
        .collect::<Vec<_>>()
        .join(",");
    wrong(
        &[&import[..], &["--spare", "--bad", &most, "x.bin", "y.img"]].concat(),
        "are no image",
    );
    wrong(
        &[&import[..], &["--spare", "x.bin", "tree/sub/f9"]].concat(),
        "--force overwrites it",
    );
    assert!(!here.path("y.img").exists());
    // More bad blocks than there is room for: nothing is guessed.
    here.said(0, &[&mkfs[..], &["--slack", "9", "z.img"]].concat());
    here.said(0, &["export", "--spare", "z.img", "z.bin"]);
    let many = "1,2,3,4,5,6,7,8,9,10";
    here.said(
        0,
        &[&import[..], &["--spare", "--bad", many, "z.bin", "y.img"]].concat(),
    );
    wrong(
        &["ls", "y.img"],
        "10 bad blocks: more than the image has slack for",
    );
    // Of another chip.
    here.said(
        0,
        &[
            "import",
            "--force",
            "--chip",
            "micron-100m",
            "--spare",
            "x.bin",
            "y.img",
        ],
    );
    wrong(&["ls", "y.img"], "does not fit this chip's geometry");
}
