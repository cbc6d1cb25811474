//! Chips by name, with the latencies of the papers and data sheets they come from.

use std::borrow::Cow;

use flashkit_nand::Geometry;

use crate::{Bus, SpiSpeed};

/// Latencies of a chip, in nanoseconds of the virtual clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// One page read, of whatever length; a read of spare bytes alone costs the same.
    pub read_ns: u64,
    /// One page program.
    pub program_ns: u64,
    /// One block erase.
    pub erase_ns: u64,
}

impl Timing {
    /// How long so many operations take, one after another.
    pub fn total_ns(&self, reads: u64, programs: u64, erases: u64) -> u64 {
        reads * self.read_ns + programs * self.program_ns + erases * self.erase_ns
    }
}

/// What a chip draws while it works. What it draws while it does not is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Power {
    /// Supply, in millivolts.
    pub supply_mv: u64,
    /// Current of a page read, in microamperes.
    pub read_ua: u64,
    /// Of a page program.
    pub program_ua: u64,
    /// Of a block erase.
    pub erase_ua: u64,
}

/// Numonyx NAND02G-B2C, data sheet, table 23: typical of an SLC chip of 256 MiB
/// with pages of 2 KiB, at 3 V.
const SLC_POWER: Power = Power {
    supply_mv: 3_000,
    read_ua: 10_000,
    program_ua: 10_000,
    erase_ua: 10_000,
};

/// A named chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name, as `--chip` takes it.
    pub name: &'static str,
    /// What it is, and where its figures are from.
    pub what: &'static str,
    /// Data bytes of a page.
    pub page_size: u32,
    /// Spare bytes of a page as the chip has them, marker and ECC included.
    pub raw_spare: u32,
    /// Spare bytes of a page left for the software above.
    pub spare_size: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Erase blocks.
    pub blocks: u32,
    /// Latencies.
    pub timing: Timing,
    /// What it draws, where a data sheet tells.
    pub power: Option<Power>,
    /// Its bus. `None`: that is left out.
    pub bus: Option<Bus>,
}

/// Name of the chip used where none is asked for.
pub const DEFAULT_PRESET: &str = "slc-256m";

const fn us(read: u64, program: u64, erase: u64) -> Timing {
    Timing {
        read_ns: read * 1_000,
        program_ns: program * 1_000,
        erase_ns: erase * 1_000,
    }
}

/// Kim et al., FlashLight (2012), Table I, the SLC column: 77.8, 252.8 and 1,500 us.
const SLC: Timing = Timing {
    read_ns: 77_800,
    program_ns: 252_800,
    erase_ns: 1_500_000,
};
/// The same, the MLC column: 165.6, 905.8 and 1,500 us.
const MLC: Timing = Timing {
    read_ns: 165_600,
    program_ns: 905_800,
    erase_ns: 1_500_000,
};

/// 2,048 + 64 bytes a page and 64 pages a block, the most common shape.
const fn large_page(
    name: &'static str,
    what: &'static str,
    spare_size: u32,
    blocks: u32,
    timing: Timing,
) -> Preset {
    Preset {
        name,
        what,
        page_size: 2048,
        raw_spare: 64,
        spare_size,
        pages_per_block: 64,
        blocks,
        timing,
        power: None,
        bus: None,
    }
}

/// The bus of SPI parts, where nothing else is asked for.
const SPI_SPEED: SpiSpeed = SpiSpeed { mhz: 104, lanes: 1 };

/// A SPI NAND with pages of 2 KiB, 64 in a block, and usable spare bytes of so many in a row.
const fn spi(
    name: &'static str,
    what: &'static str,
    raw_spare: u32,
    (spare_size, spare_run): (u32, u32),
    blocks: u32,
    timing: Timing,
) -> Preset {
    // Winbond's: names begin with W.
    let load_clears = name.as_bytes()[0] == b'w';
    Preset {
        raw_spare,
        bus: Some(Bus {
            speed: SPI_SPEED,
            spare_run,
            load_clears,
        }),
        ..large_page(name, what, spare_size, blocks, timing)
    }
}

static PRESETS: [Preset; 14] = [
    Preset {
        power: Some(SLC_POWER),
        ..large_page(
            "slc-256m",
            "SLC of Kim et al., FlashLight, 2012, Table I",
            40,
            2048,
            SLC,
        )
    },
    Preset {
        name: "mlc-1g",
        what: "MLC of Kim et al., FlashLight, 2012, Table I",
        page_size: 4096,
        raw_spare: 128,
        spare_size: 80,
        pages_per_block: 128,
        blocks: 2048,
        timing: MLC,
        power: None,
        bus: None,
    },
    large_page(
        "micron-256m",
        "Micron SLC of Olivier and Boukhobza's micro-benchmarks, 2012",
        40,
        2048,
        us(25, 200, 500),
    ),
    large_page(
        "micron-100m",
        "micron-256m cut to 100 MiB",
        40,
        800,
        us(25, 200, 500),
    ),
    large_page(
        "micron-20m",
        "micron-256m cut to 20 MiB",
        40,
        160,
        us(25, 200, 500),
    ),
    Preset {
        name: "small-256m",
        what: "small-page SLC of Choi et al., JFTL, 2009",
        page_size: 512,
        raw_spare: 16,
        spare_size: 8,
        pages_per_block: 32,
        blocks: 16_384,
        timing: us(25, 200, 2000),
        power: None,
        bus: None,
    },
    // Array times of the data sheets, with the chip's ECC on: a read at most, a program and an
    // erase typically. `crate::spi` has the same, and is compared.
    spi(
        "w25n01gv",
        "Winbond SPI NAND, 1-bit ECC, 104 MHz on one lane",
        64,
        (24, 6),
        1024,
        us(60, 250, 2000),
    ),
    spi(
        "w25n512gv",
        "Winbond SPI NAND, half of w25n01gv",
        64,
        (24, 6),
        512,
        us(60, 250, 2000),
    ),
    spi(
        "w25n02kv",
        "Winbond SPI NAND, 8-bit ECC",
        128,
        (56, 14),
        2048,
        us(60, 250, 2000),
    ),
    spi(
        "gd5f1gq5ue",
        "GigaDevice SPI NAND, 4-bit ECC",
        128,
        (63, 63),
        1024,
        us(80, 380, 3200),
    ),
    spi(
        "gd5f2gm7ue",
        "GigaDevice SPI NAND, 8-bit ECC",
        128,
        (63, 63),
        2048,
        us(80, 380, 3200),
    ),
    spi(
        "mt29f1g01abafd",
        "Micron SPI NAND, 8-bit ECC",
        128,
        (62, 62),
        1024,
        us(115, 240, 2000),
    ),
    spi(
        "mx35lf1ge4ab",
        "Macronix SPI NAND, 4-bit ECC",
        64,
        (62, 62),
        1024,
        us(70, 440, 6000),
    ),
    Preset {
        power: Some(SLC_POWER),
        ..large_page(
            "slc-8g",
            "slc-256m made 32 times larger, for scale",
            40,
            65_536,
            SLC,
        )
    },
];

/// Every preset, the default first.
pub fn presets() -> &'static [Preset] {
    &PRESETS
}

/// The preset of this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|p| p.name == name)
}

impl Preset {
    /// Energy that so many operations take, in microjoules; `None` where no data sheet tells.
    pub fn energy_uj(&self, reads: u64, programs: u64, erases: u64) -> Option<u64> {
        let (power, timing) = (self.power?, self.timing);
        // mV x uA x ns are 1e-18 J.
        let of = |count: u64, ua: u64, ns: u64| u128::from(count) * u128::from(ua) * u128::from(ns);
        let charge = of(reads, power.read_ua, timing.read_ns)
            + of(programs, power.program_ua, timing.program_ns)
            + of(erases, power.erase_ua, timing.erase_ns);
        let uj = charge * u128::from(power.supply_mv) / 1_000_000_000_000;
        Some(u64::try_from(uj).unwrap_or(u64::MAX))
    }

    /// The same chip on a bus of this speed, or with the bus left out. A chip that is no SPI part
    /// gets its spare bytes in one row, and whole pages at each program.
    pub fn with_bus(self, speed: Option<SpiSpeed>) -> Preset {
        let own = self.bus.unwrap_or(Bus {
            speed: SPI_SPEED,
            spare_run: self.spare_size.max(1),
            load_clears: false,
        });
        let bus = speed.map(|speed| Bus { speed, ..own });
        Preset { bus, ..self }
    }

    /// The shape that the software above sees.
    pub const fn geometry(&self) -> Geometry {
        match Geometry::new(
            self.page_size,
            self.spare_size,
            self.pages_per_block,
            self.blocks,
        ) {
            Ok(geometry) => geometry,
            Err(_) => panic!("a preset has a valid geometry"),
        }
    }
}

/// All that makes one simulated chip: a preset, or a shape of one's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChipSpec {
    name: Cow<'static, str>,
    geometry: Geometry,
    raw_spare: u32,
    timing: Timing,
    bus: Option<Bus>,
}

impl ChipSpec {
    /// Longest name in bytes.
    pub const NAME_MAX: usize = 32;

    /// Bytes of raw spare that the bad-block marker takes.
    pub const MARKER: u32 = 2;

    /// A chip of this shape named `custom`. Its raw spare is a 32nd of the page, or what the
    /// usable spare bytes and the bad-block marker need when that is more.
    pub fn new(geometry: Geometry, timing: Timing) -> ChipSpec {
        let raw_spare = (geometry.page_size() / 32).max(geometry.spare_size() + Self::MARKER);
        ChipSpec {
            name: Cow::Borrowed("custom"),
            geometry,
            raw_spare,
            timing,
            bus: None,
        }
    }

    /// The same chip on this bus, or with the bus left out; `None` for a speed that no bus has and
    /// for rows of no or more than 255 spare bytes.
    pub fn with_bus(mut self, bus: Option<Bus>) -> Option<ChipSpec> {
        let is_valid = |bus: &Bus| bus.speed.is_valid() && (1..=255).contains(&bus.spare_run);
        if bus.as_ref().is_some_and(|bus| !is_valid(bus)) {
            return None;
        }
        self.bus = bus;
        Some(self)
    }

    /// The same chip with this many raw spare bytes a page; `None` when they do not hold the
    /// usable ones and the bad-block marker, or exceed half of the page.
    pub fn with_raw_spare(mut self, raw_spare: u32) -> Option<ChipSpec> {
        let least = self.geometry.spare_size() + Self::MARKER;
        if raw_spare < least || raw_spare > self.geometry.page_size() / 2 {
            return None;
        }
        self.raw_spare = raw_spare;
        Some(self)
    }

    /// The same chip under a name of 1 to [`ChipSpec::NAME_MAX`] bytes; `None` for other names.
    pub fn with_name(mut self, name: &str) -> Option<ChipSpec> {
        if name.is_empty() || name.len() > Self::NAME_MAX {
            return None;
        }
        self.name = Cow::Owned(name.to_owned());
        Some(self)
    }

    /// The preset's name, or `custom`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The shape that the software above sees.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Spare bytes of a page as the chip has them.
    pub fn raw_spare(&self) -> u32 {
        self.raw_spare
    }

    /// Latencies.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Its bus, where that is counted.
    pub fn bus(&self) -> Option<Bus> {
        self.bus
    }
}

impl From<&Preset> for ChipSpec {
    fn from(preset: &Preset) -> ChipSpec {
        ChipSpec {
            name: Cow::Borrowed(preset.name),
            geometry: preset.geometry(),
            raw_spare: preset.raw_spare,
            timing: preset.timing,
            bus: preset.bus,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_valid_and_of_their_names_size() {
        for p in presets() {
            let geometry = p.geometry();
            assert!(p.raw_spare >= p.spare_size + ChipSpec::MARKER, "{}", p.name);
            assert!(p.name.len() <= ChipSpec::NAME_MAX);
            let Some((_, size)) = p.name.split_once('-') else {
                assert!(p.bus.is_some(), "{}", p.name);
                continue;
            };
            let mib = match size.strip_suffix('g') {
                Some(gib) => gib.parse::<u64>().unwrap() << 10,
                None => size.trim_end_matches('m').parse().unwrap(),
            };
            assert_eq!(geometry.capacity(), mib << 20, "{}", p.name);
        }
    }

    /// SPI parts are those at command level, with what decides on the cost of their bus.
    #[test]
    fn spi_presets_are_the_simulated_parts() {
        let mut parts = 0;
        for p in presets() {
            let Some(bus) = p.bus else {
                continue;
            };
            let part = crate::spi::spi_part(&p.name.to_uppercase()).expect(p.name);
            assert_eq!(p.geometry(), part.geometry(), "{}", p.name);
            assert_eq!(p.raw_spare, part.raw_spare, "{}", p.name);
            assert_eq!(p.timing, part.timing, "{}", p.name);
            assert_eq!(bus.load_clears, part.load_clears, "{}", p.name);
            assert!(part.runs.iter().all(|run| run.1 == bus.spare_run));
            let spec = ChipSpec::new(p.geometry(), p.timing);
            assert!(spec.with_bus(p.bus).is_some(), "{}", p.name);
            parts += 1;
        }
        assert_eq!(parts, 7);
    }

    #[test]
    fn a_bus_that_cannot_be_is_refused() {
        let p = preset("w25n01gv").unwrap();
        let at = |mhz, lanes| {
            let bus = p.with_bus(Some(SpiSpeed { mhz, lanes })).bus;
            ChipSpec::from(p).with_bus(bus).is_some()
        };
        assert!(at(1, 1) && at(1_000, 4));
        assert!(!at(0, 1) && !at(1_001, 1) && !at(104, 3) && !at(104, 0));
        assert_eq!(p.with_bus(None).bus, None);
    }

    /// 3 V and 10 mA: 30 uJ in a millisecond.
    #[test]
    fn energy_is_supply_by_current_by_time() {
        let slc = preset("slc-256m").unwrap();
        // 77.8 us, 252.8 us and 1.5 ms, 1,000 each: 1,830.6 ms.
        assert_eq!(slc.energy_uj(1_000, 1_000, 1_000), Some(54_918));
        assert_eq!(slc.energy_uj(0, 0, 0), Some(0));
        assert!(slc.energy_uj(u64::MAX, u64::MAX, u64::MAX).is_some());
        assert_eq!(preset("mlc-1g").unwrap().energy_uj(1, 1, 1), None);
        let other = Preset {
            power: Some(Power {
                supply_mv: 1_800,
                read_ua: 1_000,
                program_ua: 20_000,
                erase_ua: 30_000,
            }),
            ..*slc
        };
        // 1.8 V x (1 mA x 77.8 ms + 20 mA x 252.8 ms + 30 mA x 1.5 s).
        assert_eq!(other.energy_uj(1_000, 1_000, 1_000), Some(90_240));
    }

    #[test]
    fn found_by_name() {
        assert_eq!(preset(DEFAULT_PRESET), Some(&presets()[0]));
        assert_eq!(preset("slc-256"), None);
    }

    #[test]
    fn a_custom_chip_has_room_for_its_marker() {
        let timing = presets()[0].timing;
        let spec = ChipSpec::new(Geometry::new(512, 128, 4, 8).unwrap(), timing);
        assert_eq!(spec.raw_spare(), 130);
        assert!(spec.clone().with_raw_spare(129).is_none());
        assert!(spec.clone().with_raw_spare(256).is_some());
        assert!(spec.with_name("").is_none());
    }
}
