//! Values of options.

use flashkit_powercut::Chip;
use flashkit_sim::{Preset, SpiSpeed};

/// Parses a number within bounds; `what` it is of, for messages.
pub fn number<T: TryFrom<u64>>(
    what: &'static str,
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let parsed = text.parse().ok();
        let within = parsed.filter(|n| (least..=most).contains(n));
        let number = within.and_then(|n| T::try_from(n).ok());
        number.ok_or_else(|| format!("not {what} from {least} to {most}"))
    }
}

/// Parses a number of bytes: `16384`, `16KiB`, `1.5 MiB` is not one, `1536KiB` is.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "K" | "KiB" | "k" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err("not a size like 16384, 16KiB, 4MiB or 1GiB".into()),
    };
    if number.is_empty() {
        return Err("not a size like 16384 or 16KiB".into());
    }
    let number = number.parse().ok();
    let bytes = number.and_then(|number: u64| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "too large".into())
}

/// [`size`] for what must fit in memory.
pub fn memory(text: &str) -> Result<usize, String> {
    match usize::try_from(size(text)?) {
        Ok(bytes) if bytes <= 1 << 32 => Ok(bytes),
        _ => Err("more than 4GiB".into()),
    }
}

/// A number of bytes of a sector.
pub fn sector(text: &str) -> Result<usize, String> {
    match size(text)? {
        bytes @ 512..=65_536 if bytes.is_power_of_two() => Ok(bytes as usize),
        _ => Err("not a power of two from 512 to 65536".into()),
    }
}

/// [`memory`] for the size of a request.
pub fn request(text: &str) -> Result<usize, String> {
    match memory(text)? {
        0 => Err("a request has at least 1 byte".into()),
        bytes if bytes > 64 << 20 => Err("more than 64MiB".into()),
        bytes => Ok(bytes),
    }
}

/// Parses a key: `1577713957` or `0x5e0a0125`.
pub fn key(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "not a number of 32 bits like 17 or 0x11".into())
}

/// Parses a number of hours: parts of one are fine.
pub fn hours(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(hours) if hours > 0.0 && hours <= 1e5 => Ok(hours),
        _ => Err("not a number of hours above 0, up to 100000".into()),
    }
}

/// Parses the shape of a small chip, on which a volume can be made.
pub fn shape(text: &str) -> Result<Chip, String> {
    let chip: Chip = text.parse()?;
    match chip.formatted() {
        Ok(_) => Ok(chip),
        Err(why) => Err(match chip.blocks_needed() {
            Some(least) if least > chip.blocks => format!("{why}: from {least} such blocks on"),
            _ => why,
        }),
    }
}

/// Finds a chip by name.
pub fn chip(name: &str) -> Result<&'static Preset, String> {
    if flashkit_sim::nor::nor_preset(name).is_some() {
        return Err("a NOR chip, for `--ftl logdisk` alone".into());
    }
    let known = || flashkit_sim::presets().iter().map(|preset| preset.name);
    flashkit_sim::preset(name).ok_or_else(|| no_such("chip", "chips", name, known()))
}

/// The bus of a chip that is chosen.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct BusOption {
    /// Bus of the chip, like 104x1 (1 to 1000 MHz; 1, 2 or 4 lanes), or `none` [default: its own]
    #[arg(long, value_name = "MHZxLANES", value_parser = bus)]
    bus: Option<OnBus>,
}

/// What `--bus` says: a speed, or that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnBus(Option<SpiSpeed>);

impl BusOption {
    /// Whether it was given.
    pub fn is_some(self) -> bool {
        self.bus.is_some()
    }

    /// The chip with the bus that was asked for, or its own.
    pub fn of(self, chip: &Preset) -> Preset {
        self.bus.map_or(*chip, |OnBus(speed)| chip.with_bus(speed))
    }
}

/// Parses a bus.
fn bus(text: &str) -> Result<OnBus, String> {
    if text == "none" {
        return Ok(OnBus(None));
    }
    let parsed = text.split_once('x').and_then(|(mhz, lanes)| {
        let (mhz, lanes) = (mhz.parse().ok()?, lanes.parse().ok()?);
        Some(SpiSpeed { mhz, lanes }).filter(|speed| speed.is_valid())
    });
    let why = "not a bus like 104x1 (1 to 1000 MHz; 1, 2 or 4 lanes), or `none`";
    parsed.map(|speed| OnBus(Some(speed))).ok_or(why.into())
}

/// Why a name is refused: the command that lists those that there are, and the one that is nearly
/// the same, if there is one.
pub fn no_such<'a>(
    what: &str,
    command: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> String {
    let alike = known
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .filter(|(alike, _)| *alike > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let meant = match alike {
        Some((_, other)) => format!("; did you mean `{other}`?"),
        None => ";".into(),
    };
    format!("no such {what}{meant} `flashkit {command}` lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_nearly_right_is_set_right() {
        let why = |name| chip(name).unwrap_err();
        assert_eq!(
            why("slc256m"),
            "no such chip; did you mean `slc-256m`? `flashkit chips` lists them"
        );
        assert_eq!(why("zzz"), "no such chip; `flashkit chips` lists them");
    }

    #[test]
    fn sizes_take_binary_suffixes() {
        assert_eq!(size("16384"), Ok(16_384));
        assert_eq!(size("16KiB"), Ok(16_384));
        assert_eq!(size("3 MiB"), Ok(3 << 20));
        assert_eq!(size("2G"), Ok(2 << 30));
        for bad in [
            "",
            "KiB",
            "1.5MiB",
            "-1",
            "1KB",
            "99999999999999999999",
            "99999999999GiB",
        ] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert!(request("0").is_err());
        assert!(memory("5GiB").is_err());
    }
}
