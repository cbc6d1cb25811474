//! The boot reader on what cuts leave: it finds what a mount finds. `flashkit powercut --boot`
//! looks at each state; here are some of each group, always the same.

use flashkit_powercut::{Found, Group, Width, catalogue, search};

#[test]
fn the_boot_reader_finds_what_a_mount_finds() {
    let mut found = Found::default();
    for (nth, script) in catalogue().into_iter().enumerate() {
        let width = Width::default().boot_every(1);
        let width = match script.group {
            Group::Single if nth % 12 == 0 => width.outcomes(1).every(2),
            Group::Directed if nth % 3 == 0 => {
                width.outcomes(1).every(30).deeper(&[1]).deeper_every(90)
            }
            Group::Forcing if !script.costly && nth % 30 == 0 => width.outcomes(1).every(300),
            _ => continue,
        };
        found.merge(search(&script, &width));
    }
    println!("{found:?}");
    let classes = found.classes();
    let lines = classes
        .into_iter()
        .map(|(_, v, n)| format!("{n} times {}: {}", v.id, v.what));
    let lines: Vec<String> = lines.collect();
    assert_eq!(found.violations, 0, "{}", lines.join("\n"));
    assert_eq!(found.boot_states, found.states);
    assert!(
        found.boot_states > 50 && found.boot_paths > 1_000,
        "{found:?}"
    );
}
