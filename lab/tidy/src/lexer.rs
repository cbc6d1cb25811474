//! Which bytes of a Rust source are code: not a comment, a string or a character.

/// What a byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Code.
    Code,
    /// A comment, its marks included.
    Comment,
    /// A string or a character, its quotes included.
    Text,
}

/// The kind of each byte of a source.
pub fn kinds(source: &str) -> Vec<Kind> {
    let bytes = source.as_bytes();
    let mut kinds = Vec::with_capacity(bytes.len());
    while kinds.len() < bytes.len() {
        let at = kinds.len();
        let (kind, len) = token(source, at);
        kinds.resize((at + len).min(bytes.len()), kind);
    }
    kinds
}

/// A source in which all but code is spaces; lines and places stay.
pub fn only_code(source: &str) -> String {
    let mut kinds = kinds(source).into_iter();
    let blank = |(c, kind)| match kind {
        Kind::Code => c,
        _ if c == '\n' => c,
        _ => ' ',
    };
    // A character that is not ASCII stands outside of code, but for names: none here.
    source
        .bytes()
        .map(|byte| {
            if byte.is_ascii() {
                char::from(byte)
            } else {
                ' '
            }
        })
        .map(|c| blank((c, kinds.next().unwrap_or(Kind::Code))))
        .collect()
}

/// The kind and the length of what begins at a byte that nothing before reaches over.
fn token(source: &str, at: usize) -> (Kind, usize) {
    let rest = &source.as_bytes()[at..];
    match rest {
        [b'/', b'/', ..] => (Kind::Comment, until(rest, b'\n')),
        [b'/', b'*', ..] => (Kind::Comment, block_comment(rest)),
        [b'"', ..] => (Kind::Text, string(rest)),
        [b'\'', ..] => match character(rest) {
            Some(len) => (Kind::Text, len),
            // A lifetime.
            None => (Kind::Code, 1),
        },
        [first, ..] if first.is_ascii_alphanumeric() || *first == b'_' => {
            let word = rest
                .iter()
                .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_');
            let word = word.count();
            let is_raw = [&b"r"[..], b"br", b"cr"].contains(&&rest[..word]);
            match raw_string(&rest[word..]).filter(|_| is_raw) {
                Some(len) => (Kind::Text, word + len),
                None => (Kind::Code, word),
            }
        }
        _ => (Kind::Code, 1),
    }
}

/// Bytes up to one, without it, or to the end.
fn until(rest: &[u8], byte: u8) -> usize {
    rest.iter().position(|b| *b == byte).unwrap_or(rest.len())
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let step = match &rest[at..] {
            [b'/', b'*', ..] => 1,
            [b'*', b'/', ..] => -1,
            _ => 0,
        };
        depth += step;
        at += if step == 0 { 1 } else { 2 };
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn character(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        return Some(3 + until(rest.get(3..)?, b'\'') + 1);
    }
    // One character, of up to four bytes.
    (2..=5)
        .find(|&at| rest.get(at) == Some(&b'\''))
        .filter(|&at| std::str::from_utf8(&rest[1..at]).is_ok_and(|text| text.chars().count() == 1))
        .map(|at| at + 1)
}

/// From behind its `r` on: as many `#`, a quote, and up to a quote with as many behind it.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest.iter().take_while(|b| **b == b'#').count();
    if rest.get(hashes) != Some(&b'"') {
        return None;
    }
    let end = [&b"\""[..], &rest[..hashes]].concat();
    let inner = &rest[hashes + 1..];
    let found = inner.windows(end.len()).position(|window| window == end);
    Some(found.map_or(rest.len(), |at| hashes + 1 + at + end.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(source: &str) -> String {
        only_code(source)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn comments_and_texts_are_not_code() {
        assert_eq!(code("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(
            code(r#"a("b \" // c", 'd', '\'', '\u{e9}', 'é') e"#),
            "a( , , , , ) e"
        );
        assert_eq!(code("a(r#\"b \" c\"#, br\"d\\\") e"), "a( , ) e");
    }

    #[test]
    fn a_lifetime_begins_no_character() {
        assert_eq!(
            code("fn a<'b>(c: &'b str, d: &'b str)"),
            "fn a<'b>(c: &'b str, d: &'b str)"
        );
    }

    #[test]
    fn lines_stay_where_they_are() {
        let source = "a\n\"b\nc\" d\n/* e\n*/ f";
        assert_eq!(only_code(source).lines().count(), source.lines().count());
        assert_eq!(only_code(source).len(), source.len());
    }

    #[test]
    fn a_source_that_ends_in_a_text_ends() {
        for source in ["\"a\\", "r#\"a", "/* a", "'", "'\\", "'\\x"] {
            assert_eq!(kinds(source).len(), source.len(), "{source}");
        }
    }
}
