//! What the rules let be, each with its reason. What needs none any more is to go: the rules say.

/// Dependencies of tests on a floor above: crate, dependency, reason.
pub const UPWARDS: &[(&str, &str, &str)] = &[
    (
        "flashkit-flashlight",
        "flashkit-sim",
        "chips for the unit tests",
    ),
    (
        "flashkit-flashlight-files",
        "flashkit-sim",
        "chips, and cuts of their power",
    ),
    (
        "flashkit-flashlight-files",
        "flashkit-meter",
        "counts of flash operations",
    ),
    (
        "flashkit-jftl",
        "flashkit-sim",
        "chips, and cuts of their power",
    ),
    (
        "flashkit-nand-xts",
        "flashkit-sim",
        "chips, and cuts of their power",
    ),
    (
        "flashkit-spi-nand",
        "flashkit-sim",
        "chips at command level, and cuts of their power",
    ),
    (
        "flashkit-logdisk",
        "flashkit-sim",
        "chips, and cuts of their power",
    ),
    (
        "flashkit-nanofs",
        "flashkit-sim",
        "cards, and cuts of their power",
    ),
    (
        "flashkit-nanofs",
        "flashkit-vfs",
        "the check of a card, which fsck uses as well",
    ),
];

/// Files, and functions as `path::name`, that are longer than others may be.
pub const LONG: &[(&str, &str)] = &[
    // One `match` with a few lines for each case: apart, the cases would be no shorter.
    ("lab/hostile/src/volume.rs::take", "an arm a call"),
    ("lab/powercut/src/live.rs::attempt", "an arm an operation"),
    (
        "lab/powercut/src/model/apply.rs::plan",
        "an arm an operation",
    ),
    (
        "host/fuse/src/bridge.rs",
        "a method a request of the kernel, as its library's trait has them",
    ),
    (
        "lab/flashlight-tests/tests/all/damage/judge.rs::list",
        "a listing, and each of its entries",
    ),
    // One history, told in order: what a step expects is what the steps before have left.
    (
        "command/flashkit/tests/all/mount.rs::hard_links_go_in_and_out_and_survive",
        HISTORY,
    ),
    (
        "command/flashkit/tests/all/mount.rs::a_mount_that_meets_damage_is_read_only_from_then_on",
        HISTORY,
    ),
    (
        "command/flashkit/tests/all/raw.rs::an_image_fits_chips_with_any_bad_blocks",
        HISTORY,
    ),
    (
        "command/flashkit/tests/all/raw.rs::what_cannot_be_is_refused",
        "a list of what is refused",
    ),
    (
        "device/jftl/tests/all/nonsense.rs::nonsense",
        "an arm an operation",
    ),
    ("device/jftl/tests/all/nonsense.rs::session", HISTORY),
    (
        "device/jftl/tests/all/pack.rs::sectors_of_the_journal_share_a_page",
        HISTORY,
    ),
    (
        "device/jftl/tests/all/remap.rs::a_home_written_like_its_journal_is_not_programmed",
        HISTORY,
    ),
    (
        "device/jftl/tests/all/remap.rs::what_is_journalled_again_unchanged_is_not_programmed",
        HISTORY,
    ),
    (
        "lab/experiments/src/jftl/tally.rs::data_becomes_noise_and_nothing_else_does",
        HISTORY,
    ),
    ("lab/experiments/src/logdisk/load.rs::run", HISTORY),
    (
        "lab/flashlight-tests/tests/all/failures/mod.rs::the_driver_fails_in_a_read_of_a_change",
        HISTORY,
    ),
    (
        "lab/flashlight-tests/tests/all/failures/mod.rs::a_chip_is_worn_out_in_the_middle_of_a_change",
        HISTORY,
    ),
    (
        "lab/flashlight-tests/tests/all/links.rs::hundreds_of_names",
        HISTORY,
    ),
    (
        "lab/flashlight-tests/tests/all/updates.rs::what_is_no_update_writes_the_inode",
        HISTORY,
    ),
];

const HISTORY: &str = "one history, told in order";
