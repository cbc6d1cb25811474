//! What a cut in the middle of a flash operation may leave.

use std::fmt;
use std::str::FromStr;

use flashkit_sim::{EraseTear, Rng, Tear};

/// What is left of the operation that was cut. The text is a word and, for some, a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// `none`: nothing of it. The same as a cut between two operations.
    NotBegun,
    /// `whole`: all of it.
    Whole,
    /// `blank`: a page that was attempted and reads as erased.
    Blank,
    /// `garbage`: an uncorrectable page.
    Garbage,
    /// `prefix N`: the first N bytes, data before spare.
    Prefix(u32),
    /// `random N`: some of the bits that should have become 0, by the seed N.
    Random(u32),
    /// `unstable N`: a page that reads as written N times, and is uncorrectable then.
    Unstable(u32),
    /// `part N`: of an erase, pages that are erased, uncorrectable or as before, by the seed N.
    Part(u32),
    /// `flaky N`: of an erase, pages that read as erased one to three times, by the seed N, and
    /// are uncorrectable then.
    Flaky(u32),
    /// `fading N`: a page that reads as erased N times, and is uncorrectable then.
    Fading(u32),
    /// `mixed N`: a page with some of the bits that should have become 0, which reads so N times.
    Mixed(u32),
    /// `late N`: a page that is uncorrectable N times, and reads as written then.
    Late(u32),
    /// `fitful N`: a page that is uncorrectable N / 4 times, then reads as written 2 to the power
    /// of N % 4 times, and is uncorrectable then.
    Fitful(u32),
    /// `mixture N`: of an erase, pages with some bits erased, or as before
    /// for a while, by the seed N.
    Mixture(u32),
}

/// The reads that unstable pages stand. A recovery reads a page some five times, and the comparison
/// of what it finds some ten.
const READS: [u32; 9] = [1, 2, 3, 4, 5, 7, 10, 15, 30];

impl Outcome {
    /// Every outcome of a program of `data` and `spare` bytes.
    pub fn of_program(data: u32, spare: u32) -> Vec<Outcome> {
        let all = data + spare;
        let mut prefixes = vec![1, 33, all / 4, all / 2, data, all - 1];
        prefixes.retain(|&n| n > 0 && n < all);
        prefixes.sort_unstable();
        prefixes.dedup();
        let mut outcomes = vec![
            Outcome::NotBegun,
            Outcome::Garbage,
            Outcome::Whole,
            Outcome::Blank,
        ];
        outcomes.extend(prefixes.into_iter().map(Outcome::Prefix));
        outcomes.extend((0..3).map(Outcome::Random));
        outcomes.extend(READS.map(Outcome::Unstable));
        outcomes
    }

    /// Every outcome of an erase.
    pub fn of_erase() -> Vec<Outcome> {
        let mut outcomes = vec![Outcome::NotBegun, Outcome::Whole];
        outcomes.extend((0..4).map(Outcome::Part));
        outcomes.extend((0..3).map(Outcome::Flaky));
        outcomes
    }

    /// What a program may leave besides: pages that change what they are.
    pub fn more_of_program() -> Vec<Outcome> {
        let mut outcomes = [1, 2, 4, 8].map(Outcome::Fading).to_vec();
        outcomes.extend([2, 6].map(Outcome::Mixed));
        outcomes.extend([1, 4, 8].map(Outcome::Late));
        outcomes.extend([6, 9, 11].map(Outcome::Fitful));
        outcomes
    }

    /// What an erase may leave besides: mixtures of old and erased.
    pub fn more_of_erase() -> Vec<Outcome> {
        (0..6).map(Outcome::Mixture).collect()
    }

    /// Whether something reads well for a while and fails then, or the other way round.
    pub fn is_unstable(self) -> bool {
        matches!(
            self,
            Outcome::Unstable(_)
                | Outcome::Flaky(_)
                | Outcome::Fading(_)
                | Outcome::Mixed(_)
                | Outcome::Late(_)
                | Outcome::Fitful(_)
                | Outcome::Mixture(_)
        )
    }

    /// The tear of a program, and its seed.
    pub(crate) fn program(self) -> Option<(Tear, u64)> {
        Some(match self {
            Outcome::NotBegun => (Tear::NotBegun, 0),
            Outcome::Whole => (Tear::Complete, 0),
            Outcome::Blank => (Tear::LooksBlank, 0),
            Outcome::Garbage => (Tear::Garbage, 0),
            Outcome::Prefix(n) => (Tear::Prefix(n), readable(0)),
            Outcome::Random(n) => (Tear::Random, readable(n)),
            Outcome::Unstable(reads) => (Tear::Unstable { reads }, 0),
            Outcome::Fading(reads) => (Tear::UnstableBlank { reads }, 0),
            Outcome::Mixed(reads) => (Tear::UnstableMixed { reads }, u64::from(reads)),
            Outcome::Late(reads) => (Tear::Late { reads }, 0),
            Outcome::Fitful(n) => {
                let (late, reads) = (n / 4, n % 4);
                (Tear::Fitful { late, reads }, 0)
            }
            Outcome::Part(_) | Outcome::Flaky(_) | Outcome::Mixture(_) => return None,
        })
    }

    /// The tear of an erase, and its seed.
    pub(crate) fn erase(self) -> Option<(EraseTear, u64)> {
        Some(match self {
            Outcome::NotBegun => (EraseTear::NotBegun, 0),
            Outcome::Whole => (EraseTear::Complete, 0),
            Outcome::Part(n) => (EraseTear::Partial, n.into()),
            Outcome::Flaky(n) => (EraseTear::LooksErased, n.into()),
            Outcome::Mixture(n) => (EraseTear::Mixed, n.into()),
            _ => return None,
        })
    }
}

/// The `n`-th seed that leaves a torn page readable; an uncorrectable one is [`Outcome::Garbage`].
fn readable(n: u32) -> u64 {
    let mut seeds = (0..).filter(|&seed| Rng::new(seed).one_in(2));
    seeds.nth(n as usize).unwrap_or_default()
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::NotBegun => f.write_str("none"),
            Outcome::Whole => f.write_str("whole"),
            Outcome::Blank => f.write_str("blank"),
            Outcome::Garbage => f.write_str("garbage"),
            Outcome::Prefix(n) => write!(f, "prefix{n}"),
            Outcome::Random(n) => write!(f, "random{n}"),
            Outcome::Unstable(n) => write!(f, "unstable{n}"),
            Outcome::Part(n) => write!(f, "part{n}"),
            Outcome::Flaky(n) => write!(f, "flaky{n}"),
            Outcome::Fading(n) => write!(f, "fading{n}"),
            Outcome::Mixed(n) => write!(f, "mixed{n}"),
            Outcome::Late(n) => write!(f, "late{n}"),
            Outcome::Fitful(n) => write!(f, "fitful{n}"),
            Outcome::Mixture(n) => write!(f, "mixture{n}"),
        }
    }
}

impl FromStr for Outcome {
    type Err = String;

    fn from_str(text: &str) -> Result<Outcome, String> {
        let digits = text
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(text.len());
        let (word, number) = text.split_at(digits);
        let n = number.parse::<u32>();
        match (word, n) {
            ("none", Err(_)) if number.is_empty() => Ok(Outcome::NotBegun),
            ("whole", Err(_)) if number.is_empty() => Ok(Outcome::Whole),
            ("blank", Err(_)) if number.is_empty() => Ok(Outcome::Blank),
            ("garbage", Err(_)) if number.is_empty() => Ok(Outcome::Garbage),
            ("prefix", Ok(n)) => Ok(Outcome::Prefix(n)),
            ("random", Ok(n)) => Ok(Outcome::Random(n)),
            ("unstable", Ok(n)) => Ok(Outcome::Unstable(n)),
            ("part", Ok(n)) => Ok(Outcome::Part(n)),
            ("flaky", Ok(n)) => Ok(Outcome::Flaky(n)),
            ("fading", Ok(n)) => Ok(Outcome::Fading(n)),
            ("mixed", Ok(n)) => Ok(Outcome::Mixed(n)),
            ("late", Ok(n)) => Ok(Outcome::Late(n)),
            ("fitful", Ok(n)) => Ok(Outcome::Fitful(n)),
            ("mixture", Ok(n)) => Ok(Outcome::Mixture(n)),
            _ => Err(format!("no such outcome of a cut: {text}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let usual = [Outcome::of_program(2048, 24), Outcome::of_erase()];
        let more = [Outcome::more_of_program(), Outcome::more_of_erase()];
        for outcome in [usual, more].concat().concat() {
            assert_eq!(outcome.to_string().parse(), Ok(outcome));
        }
        for bad in ["", "torn", "none1", "prefix", "prefix-1"] {
            assert!(bad.parse::<Outcome>().is_err(), "{bad}");
        }
    }

    #[test]
    fn prefixes_are_of_all_sizes_and_proper() {
        let sizes = |data, spare| {
            let all = Outcome::of_program(data, spare).into_iter();
            all.filter_map(|o| match o {
                Outcome::Prefix(n) => Some(n),
                _ => None,
            })
            .collect::<Vec<u32>>()
        };
        assert_eq!(sizes(1024, 24), [1, 33, 262, 524, 1024, 1047]);
        assert_eq!(sizes(36, 0), [1, 9, 18, 33, 35]);
    }
}
