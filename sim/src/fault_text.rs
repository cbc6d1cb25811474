//! Faults as text, spelt as nandsim spells its module options where it has them.

use core::fmt::{self, Display, Formatter};

use crate::{Faults, FaultsError, Rate, Weak};

/// Operations that succeed where a weak page or block does not say, as in nandsim.
const GOOD_DEFAULT: u32 = 3;
const NS_PER_MS: u64 = 1_000_000;
const KEYS: &str = "seed, badblocks, badrate, ecc, bitflips, bitfliprate, uncorrectable, \
                    programfail, weakpages, erasefail, weakblocks, failagain, failingmax, \
                    gravepages, endurance, readdisturb, retention";

fn number<T: core::str::FromStr>(key: &str, text: &str) -> Result<T, FaultsError> {
    let wrong = |_| FaultsError(format!("{key}: `{text}` is not a number in range"));
    text.trim().parse().map_err(wrong)
}

/// `1/N`, or `0` for never.
fn rate(key: &str, text: &str) -> Result<Rate, FaultsError> {
    match text.trim().strip_prefix("1/") {
        Some(n) => match number(key, n)? {
            0 => Err(FaultsError(format!("{key}: one in 0 is not a rate"))),
            n => Ok(Rate(n)),
        },
        None if text.trim() == "0" => Ok(Rate::NEVER),
        None => Err(FaultsError(format!(
            "{key}: `{text}` is not a rate such as 1/1000"
        ))),
    }
}

fn list<T>(
    text: &str,
    item: impl Fn(&str) -> Result<T, FaultsError>,
) -> Result<Vec<T>, FaultsError> {
    text.split(',')
        .filter(|part| !part.trim().is_empty())
        .map(item)
        .collect()
}

/// `at` or `at:good`.
fn weak(key: &str, text: &str) -> Result<Weak, FaultsError> {
    match text.split_once(':') {
        Some((at, good)) => Ok(Weak {
            at: number(key, at)?,
            good: number(key, good)?,
        }),
        None => Ok(Weak {
            at: number(key, text)?,
            good: GOOD_DEFAULT,
        }),
    }
}

impl Faults {
    /// Reads `key=value` pairs apart by `;` or white space.
    ///
    /// | key | value |
    /// | --- | --- |
    /// | `seed` | number |
    /// | `badblocks` | blocks, apart by commas |
    /// | `badrate`, `bitfliprate`, `uncorrectable` | `1/N`, or `0` |
    /// | `programfail`, `erasefail`, `failagain` | `1/N`, or `0` |
    /// | `ecc`, `bitflips` | bits |
    /// | `weakpages`, `weakblocks` | `number:good operations` (3 if left out), apart by commas |
    /// | `gravepages` | the same |
    /// | `failingmax` | blocks |
    /// | `endurance` | erases |
    /// | `readdisturb` | reads of the block for each flip |
    /// | `retention` | milliseconds for each flip |
    ///
    /// # Errors
    /// Names the key and what is wrong with its value.
    pub fn parse(text: &str) -> Result<Faults, FaultsError> {
        let mut faults = Faults::default();
        for pair in text.split(|c: char| c == ';' || c.is_whitespace()) {
            if pair.is_empty() {
                continue;
            }
            let Some((key, value)) = pair.split_once('=') else {
                return Err(FaultsError(format!(
                    "`{pair}` is not of the form key=value"
                )));
            };
            faults.set(key.trim(), value)?;
        }
        Ok(faults)
    }

    fn set(&mut self, key: &str, v: &str) -> Result<(), FaultsError> {
        match key {
            "seed" => self.seed = number(key, v)?,
            "badblocks" => self.bad_blocks = list(v, |item| number(key, item))?,
            "badrate" => self.bad_rate = rate(key, v)?,
            "ecc" => self.ecc = number(key, v)?,
            "bitflips" => self.bitflips = number(key, v)?,
            "bitfliprate" => self.bitflip_rate = rate(key, v)?,
            "uncorrectable" => self.uncorrectable = rate(key, v)?,
            "programfail" => self.program_fail = rate(key, v)?,
            "weakpages" => self.weak_pages = list(v, |item| weak(key, item))?,
            "erasefail" => self.erase_fail = rate(key, v)?,
            "weakblocks" => self.weak_blocks = list(v, |item| weak(key, item))?,
            "failagain" => self.fail_again = rate(key, v)?,
            "failingmax" => self.failing_max = number(key, v)?,
            "gravepages" => self.grave_pages = list(v, |item| weak(key, item))?,
            "endurance" => self.endurance = number(key, v)?,
            "readdisturb" => self.read_disturb = number(key, v)?,
            "retention" => {
                self.retention_ns = number::<u64>(key, v)?
                    .checked_mul(NS_PER_MS)
                    .ok_or_else(|| FaultsError(format!("{key}: `{v}` ms is too long")))?;
            }
            _ => return Err(FaultsError(format!("unknown fault `{key}`; known: {KEYS}"))),
        }
        Ok(())
    }
}

impl core::str::FromStr for Faults {
    type Err = FaultsError;

    fn from_str(text: &str) -> Result<Faults, FaultsError> {
        Faults::parse(text)
    }
}

impl Display for Rate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0"),
            n => write!(f, "1/{n}"),
        }
    }
}

impl Display for Weak {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.at, self.good)
    }
}

fn join<T: Display>(items: &[T]) -> String {
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

/// What differs from no faults at all, as [`Faults::parse`] reads it.
impl Display for Faults {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = |faults: &Faults| {
            [
                ("seed", faults.seed.to_string()),
                ("badblocks", join(&faults.bad_blocks)),
                ("badrate", faults.bad_rate.to_string()),
                ("ecc", faults.ecc.to_string()),
                ("bitflips", faults.bitflips.to_string()),
                ("bitfliprate", faults.bitflip_rate.to_string()),
                ("uncorrectable", faults.uncorrectable.to_string()),
                ("programfail", faults.program_fail.to_string()),
                ("weakpages", join(&faults.weak_pages)),
                ("erasefail", faults.erase_fail.to_string()),
                ("weakblocks", join(&faults.weak_blocks)),
                ("failagain", faults.fail_again.to_string()),
                ("failingmax", faults.failing_max.to_string()),
                ("gravepages", join(&faults.grave_pages)),
                ("endurance", faults.endurance.to_string()),
                ("readdisturb", faults.read_disturb.to_string()),
                ("retention", (faults.retention_ns / NS_PER_MS).to_string()),
            ]
        };
        let pairs = text(self).into_iter().zip(text(&Faults::default()));
        let set = pairs.filter(|(own, default)| own != default);
        let set: Vec<String> = set
            .map(|((key, value), _)| format!("{key}={value}"))
            .collect();
        f.write_str(&set.join(";"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nandsim_spellings() {
        let faults = Faults::parse(
            "badblocks=1,2;bitflips=3 weakblocks=113:2,7;weakpages=9:0;gravepages=1401",
        )
        .unwrap();
        assert_eq!(faults.bad_blocks, [1, 2]);
        assert_eq!(faults.bitflips, 3);
        assert_eq!(
            faults.weak_blocks,
            [Weak { at: 113, good: 2 }, Weak { at: 7, good: 3 }]
        );
        assert_eq!(faults.weak_pages, [Weak { at: 9, good: 0 }]);
        assert_eq!(faults.grave_pages, [Weak { at: 1401, good: 3 }]);
        assert_eq!(Faults::parse(" ; ").unwrap(), Faults::default());
    }

    #[test]
    fn text_round_trips() {
        let text = "seed=7;badblocks=1,2;badrate=1/50;ecc=4;bitflips=3;bitfliprate=1/2;\
                    uncorrectable=1/9;programfail=1/1000;weakpages=9:0;erasefail=1/8;\
                    weakblocks=113:2;failagain=1/2;failingmax=9;gravepages=1401:3;endurance=3000;\
                    readdisturb=100;retention=5000";
        let faults: Faults = text.parse().unwrap();
        assert_eq!(faults.to_string(), text);
        assert_eq!(faults.retention_ns, 5_000_000_000);
        assert_eq!(Faults::default().to_string(), "");
    }

    #[test]
    fn errors_name_the_key() {
        let error = |text: &str| Faults::parse(text).unwrap_err().to_string();
        assert_eq!(error("bitflips"), "`bitflips` is not of the form key=value");
        assert_eq!(
            error("badblocks=1,x"),
            "badblocks: `x` is not a number in range"
        );
        assert_eq!(
            error("programfail=7"),
            "programfail: `7` is not a rate such as 1/1000"
        );
        assert_eq!(error("erasefail=1/0"), "erasefail: one in 0 is not a rate");
        assert!(error("nope=1").starts_with("unknown fault `nope`; known: seed, badblocks,"));
        assert!(error("retention=18446744073709551615").contains("too long"));
    }
}
