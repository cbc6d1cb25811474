//! Operations and cuts as a fuzzer draws them.

use flashkit_powercut::{Draw, Planned, SMALL_CHIP, cut_sequence, parse};

fn steps(text: &str, cuts: &[(usize, &[Draw])]) -> Vec<Planned> {
    let ops = parse(text).unwrap();
    let mut steps: Vec<Planned> = ops
        .into_iter()
        .map(|op| Planned {
            op: Some(op),
            cuts: Vec::new(),
        })
        .collect();
    for (at, cuts) in cuts {
        steps[*at].cuts = cuts.to_vec();
    }
    steps
}

#[test]
fn every_cut_is_made_and_work_goes_on() {
    let draw = |point, outcome| Draw { point, outcome };
    let text = "create a; write a 0 3000; fsync a; mkdir d; create d/b; sync; unlink a; sync";
    let cuts: [(usize, &[Draw]); 2] = [(2, &[draw(0, 1)]), (5, &[draw(200, 200), draw(3, 4)])];
    assert_eq!(cut_sequence(&SMALL_CHIP, &steps(text, &cuts)), Ok(3));
    assert_eq!(cut_sequence(&SMALL_CHIP, &[]), Ok(1));
}

#[test]
fn what_fails_is_told_with_what_was_done() {
    let text = "mkdir d; sync; symlink d/s 0";
    let error = cut_sequence(&SMALL_CHIP, &steps(text, &[])).unwrap_err();
    assert!(error.contains("fails: "), "{error}");
    assert!(error.contains("mkdir d; sync"), "{error}");
}
