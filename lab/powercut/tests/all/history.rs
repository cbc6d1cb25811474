//! A few sessions of a chip in use.

use flashkit_powercut::{Chip, History};

#[test]
fn histories_of_small_chips_are_as_guaranteed() {
    let history = History {
        seed: 1,
        chip: Some(Chip::new(1024, 24, 16, 96)),
        fill: None,
        bytes_max: 0,
        unread: false,
    };
    let done = history.run(&mut |done| done.sessions < 60);
    assert_eq!(done.violation, None, "{done:?}");
    assert!(done.cuts > 20 && done.files > 100, "{done:?}");
}
