//! Chips that random operations, cuts and faults use up.

use flashkit_powercut::Soak;

/// The mount after the 15th session of this one wears it out: then files without a name stay.
#[test]
fn a_mount_may_wear_a_chip_out() {
    let soak = Soak {
        chip: None,
        seed: 58,
        endurance: 60,
    };
    let soaked = soak.run(&mut |soaked| soaked.rounds < 15);
    assert_eq!(soaked.violation, None);
    assert!(soaked.cuts > 10 && soaked.files > 100, "{soaked:?}");
}
