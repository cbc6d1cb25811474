//! A small, fixed part of the search, replays of what it once found, and canaries: searches that
//! must find something.

use flashkit_powercut::{
    Budget, Forced, Found, Group, Id, SMALL_CHIP, Script, Verdict, Waits, Width, catalogue, replay,
    search, search_all, shrink,
};

fn show(found: &Found) -> String {
    let lines = found
        .classes()
        .into_iter()
        .map(|(_, v, n)| format!("{n} times {}: {}", v.id, v.what));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_small_budget_finds_nothing() {
    let mut found = Found::default();
    for part in ["1/2", "2/2"] {
        let waits = Waits {
            progress: &|_, _| {},
            enough: &|| false,
        };
        found.merge(search_all(Budget::Small, part.parse().unwrap(), waits));
    }
    println!("{found:?}");
    assert!(found.violations == 0, "{}", show(&found));
    assert!(found.states > 10_000, "{found:?}");
    assert!(
        found.double_cuts > 100 && found.unstable_states > 3000 && found.loop_cuts >= 300,
        "{found:?}"
    );
}

/// Scripts of chips with short tags; some of them copy pages. A piece of each, always the same.
#[test]
fn updates_in_short_tags_and_copies_find_nothing() {
    let mut found = Found::default();
    let (mut scripts, mut copying) = (0, 0);
    for script in catalogue().into_iter().filter(|s| s.chip.spare == 24) {
        scripts += 1;
        copying += usize::from(script.chip.copies);
        let width = match script.group {
            Group::Single => Width::default().outcomes(2).every(5),
            _ => Width::default().outcomes(2).every(96),
        };
        found.merge(search(&script, &width));
    }
    println!("{found:?}");
    assert_eq!(found.violations, 0, "{}", show(&found));
    assert_eq!((scripts, copying), (86, 2));
    assert_eq!((found.cut_points, found.states), (2_152, 4_638));
}

/// The same chips with encrypted pages: single operations, and some that are directed.
#[test]
fn encrypted_chips_are_as_guaranteed() {
    let mut found = Found::default();
    let width = Width::default().outcomes(2).deeper(&[]);
    for (nth, script) in catalogue().into_iter().enumerate() {
        if nth % 9 == 0 && script.name.starts_with("single") || nth % 40 == 0 && !script.costly {
            let script = Script {
                chip: script.chip.xts(),
                ..script
            };
            found.merge(search(&script, &width.clone().every(7)));
        }
    }
    println!("{found:?}");
    assert!(found.violations == 0, "{}", show(&found));
    assert!(found.states > 500, "{found:?}");
}

/// Each once led to a violation.
#[test]
fn what_was_found_once_is_allowed() {
    for id in [
        // A truncation wrote the new size before the new times.
        "1024+40x8x128:force-extent-maps:247.whole",
        "1024+40x8x128:force-extent-maps:246.garbage",
    ] {
        let id: Id = id.parse().unwrap();
        assert_eq!(
            replay(&id, &mut Vec::new()).unwrap(),
            Verdict::Allowed,
            "{id}"
        );
    }
}

#[test]
fn a_replay_tells_every_step() {
    let id = "1024+24x8x64:=create_a,write_a_0_1500,fsync_a:4.garbage:0.none";
    let mut told = Vec::new();
    let verdict = replay(&id.parse().unwrap(), &mut told).unwrap();
    let told = String::from_utf8(told).unwrap();
    assert_eq!(verdict, Verdict::Allowed, "{told}");
    for line in [
        "step 1: write a 0 1500",
        "left of it: garbage",
        "left of it: none",
        "is seen:",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    assert_eq!(told.matches("\nmount\n").count(), 2, "{told}");
}

#[test]
fn ids_that_lead_nowhere_are_told() {
    for id in [
        "1024+24x8x64:no-such-script:1.none",
        "1024+24x8x64:=create_a:1000.none",
        "1024+24x8x64:=create_a,sync:1.none:1000.none",
        "1024+24x8x64:=create_a,sync:1.flaky1",
        "1024+24x8x64:=create_a,sync:@7",
    ] {
        let verdict = replay(&id.parse().unwrap(), &mut Vec::new()).unwrap();
        assert!(
            matches!(verdict, Verdict::NoSuchCut(_)),
            "{id}: {verdict:?}"
        );
    }
}

/// An operation that fails is a violation: no volume takes a symbolic link without a target.
#[test]
fn a_violation_has_an_id_and_shrinks() {
    let text = "mkdir d; create d/a; sync; symlink d/s 0; sync; unlink d/a";
    let script = Script::given(text, SMALL_CHIP).unwrap();
    let found = search(&script, &Width::default().outcomes(1));
    let (violation, n) = &found.examples[0];
    assert_eq!((found.violations, *n), (1, 1), "{}", show(&found));
    let verdict = replay(&violation.id, &mut Vec::new()).unwrap();
    assert_eq!(verdict, Verdict::Violation(violation.what.clone()));
    let shorter = shrink(violation);
    assert_eq!(shorter.id.script, "=mkdir_d,symlink_d/s_0");
}

#[test]
fn searches_are_the_same_each_time() {
    let scripts: Vec<Script> = catalogue()
        .into_iter()
        .filter(|s| s.name == "single-rename-over-fsync")
        .collect();
    assert_eq!(scripts.len(), 2);
    for script in &scripts {
        let width = Width::default().outcomes(3).deeper(&[1]);
        let (one, two) = (search(script, &width), search(script, &width));
        assert!(one.double_cuts > 20, "{one:?}");
        assert_eq!(format!("{one:?}"), format!("{two:?}"));
    }
}

#[test]
fn a_script_that_does_not_force_what_it_is_for_fails() {
    let script = Script::given("create a; sync", SMALL_CHIP).unwrap();
    let forces = vec![Forced::Checkpoint, Forced::HashMap];
    let found = search(&Script { forces, ..script }, &Width::default().outcomes(1));
    assert_eq!(found.violations, 1);
    assert!(found.examples[0].0.what.ends_with("HashMap"), "{found:?}");
}
