//! The parser of traces.

use flashkit_workload::trace::{Op, parse, parse_line, write};

/// Longest text that a compressed input may stand for: what is read of a trace is kept in RAM.
const TEXT_MAX: u64 = 1 << 20;

/// Runs an input: a trace, compressed or not. What is read is written and read
/// again: it must be the same.
///
/// # Panics
/// That is a finding.
pub fn run(bytes: &[u8]) {
    if bytes.first() == Some(&0x1f) {
        let mut text = Vec::new();
        let mut limited = std::io::Read::take(flate2::read::MultiGzDecoder::new(bytes), TEXT_MAX);
        let whole = std::io::Read::read_to_end(&mut limited, &mut text);
        if text.len() as u64 == TEXT_MAX {
            return;
        }
        let same = match (parse(bytes), parse(&text[..])) {
            (Ok(packed), Ok(plain)) => packed == plain,
            (Ok(_), Err(_)) => false,
            // A damaged file ends in an error, after what could be read of it.
            (Err(_), _) => true,
        };
        assert!(same || whole.is_err(), "compressed and plain trace differ");
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        text.lines().for_each(|line| drop(parse_line(line)));
    }
    let Ok(lines) = parse(bytes) else {
        return;
    };
    assert!(lines.windows(2).all(|pair| pair[0].number < pair[1].number));
    let ops: Vec<Op> = lines.into_iter().map(|line| line.op).collect();
    ops.iter()
        .for_each(|op| assert!(op.bytes() <= i64::MAX as u64));
    let mut text = Vec::new();
    write(&ops, &mut text).expect("what was read can be written");
    let again = parse(&text[..]).expect("what was written can be read");
    assert!(
        again.iter().map(|line| &line.op).eq(&ops),
        "written: {text:?}"
    );
}
