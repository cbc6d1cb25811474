//! The bus between a host and a SPI NAND chip, on the virtual clock.
//!
//! A SPI NAND works in two steps: the array reads a page into the chip's cache, and then bytes of
//! the cache go over the bus; a program is the other way round. What each operation sends is what
//! the commands of the data sheets ask for, and what `flashkit-spi-nand` sends: a test of that
//! compares the two, byte by byte.
//!
//! | what | bytes on one lane | bytes of data |
//! | --- | --- | --- |
//! | page read | `13` and 3 of address, `0F C0` and the status | |
//! | a run of bytes out of the cache | `03` and 3 of column | its length |
//! | write enable | `06`, `0F C0` and the status | |
//! | a run of bytes into the cache | `02` or `84` and 2 of column | its length |
//! | program, erase | `10` or `D8` and 3 of address, `0F C0` and `0F A0` and what they say | |
//! | copy within the chip | as a page read and a program of all usable spare bytes | |
//!
//! A host looks at the status while the chip is busy, too. That takes no time of its own, and is
//! not counted.

/// Bytes that a driver without a page of RAM sends at once to blank a cache.
const BLANKS: u64 = 64;
/// A row command and the look that finds it ended; a write enable and the look whether it is taken.
const ROW: u64 = 4 + 3;
const ENABLE: u64 = 1 + 3;
/// The look whether all blocks are locked again, behind a program or an erase.
const LOCKS: u64 = 3;
const FROM_CACHE: u64 = 4;
const INTO_CACHE: u64 = 3;

/// How fast a bus is. Commands, addresses and dummy bytes take one lane. Data takes all of them,
/// but into the chip over two lanes: no chip has a program load for these, and it takes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpiSpeed {
    /// Its clock, in MHz.
    pub mhz: u32,
    /// Its lanes: 1, 2 or 4.
    pub lanes: u32,
}

impl SpiSpeed {
    /// The fastest clock that is believed, in MHz.
    pub const MHZ_MAX: u32 = 1_000;

    /// Whether there is such a bus: 1 to [`SpiSpeed::MHZ_MAX`], on 1, 2 or 4 lanes.
    pub fn is_valid(self) -> bool {
        (1..=Self::MHZ_MAX).contains(&self.mhz) && matches!(self.lanes, 1 | 2 | 4)
    }

    /// Picoseconds of a byte on all lanes.
    pub(crate) fn byte_ps(self, is_data: bool) -> u64 {
        let lanes = if is_data { self.lanes } else { 1 };
        8_000_000 / u64::from(self.mhz * lanes)
    }

    /// Nanoseconds, rounded up, of so many bytes on one lane and so many on all.
    fn ns(self, single: u64, all: u64) -> u64 {
        let clocks = single * 8 + all * 8 / u64::from(self.lanes);
        (clocks * 1_000).div_ceil(u64::from(self.mhz))
    }
}

impl core::fmt::Display for SpiSpeed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}x{}", self.mhz, self.lanes)
    }
}

/// The bus of a chip, and what of the chip decides how much goes over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bus {
    /// How fast it is.
    pub speed: SpiSpeed,
    /// Usable spare bytes in a row. Each row is a transfer of its own; at least 1.
    pub spare_run: u32,
    /// Whether a program load sets what is not loaded to `0xFF`. Without, a program sends the whole
    /// page.
    pub load_clears: bool,
}

/// What went over a bus, and how long that took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub bytes: u64,
    pub ns: u64,
}

impl Bus {
    fn moved(self, single: u64, all: u64) -> Moved {
        Moved {
            bytes: single + all,
            ns: self.speed.ns(single, all),
        }
    }

    fn runs(self, spare: usize) -> u64 {
        (spare as u64).div_ceil(u64::from(self.spare_run.max(1)))
    }

    /// A page read of which these pieces of data and so many spare bytes are fetched.
    pub(crate) fn read(self, data: [usize; 2], spare: usize) -> Moved {
        let pieces = data.iter().filter(|len| **len > 0).count() as u64 + self.runs(spare);
        let bytes = data.iter().sum::<usize>() + spare;
        self.moved(ROW + pieces * FROM_CACHE, bytes as u64)
    }

    /// A program of so many bytes of a page of `page` bytes, `raw_spare` of spare included.
    pub(crate) fn program(self, data: usize, spare: usize, page: u32, raw_spare: u32) -> Moved {
        // A load has a byte at least.
        let (mut bytes, mut loads) = (data.max(1) as u64, 1 + self.runs(spare));
        if !self.load_clears {
            let rest = u64::from(page + raw_spare) - data as u64;
            bytes = data.max(1) as u64 + rest;
            loads += rest.div_ceil(BLANKS);
        }
        bytes += spare as u64;
        self.sent(ENABLE + loads * INTO_CACHE + ROW + LOCKS, bytes)
    }

    /// A copy within the chip: the data stays in its cache. All of the page's usable spare bytes
    /// go over it, for those behind the given ones are blanked.
    pub(crate) fn copy(self, spare: usize, spare_size: u32) -> Moved {
        let (mut rest, mut loads) = (spare as u64, 0);
        let run = u64::from(self.spare_run.max(1));
        for at in (0..u64::from(spare_size)).step_by(run as usize) {
            let len = run.min(u64::from(spare_size) - at);
            let given = rest.min(len);
            rest -= given;
            loads += u64::from(given > 0) + (len - given).div_ceil(BLANKS);
        }
        let single = ROW + ENABLE + loads * INTO_CACHE + ROW + LOCKS;
        self.sent(single, u64::from(spare_size))
    }

    /// Bytes on one lane, and bytes of data into the chip.
    fn sent(self, single: u64, data: u64) -> Moved {
        if self.speed.lanes == 2 {
            return self.moved(single + data, 0);
        }
        self.moved(single, data)
    }

    /// An erase.
    pub(crate) fn erase(self) -> Moved {
        self.moved(ENABLE + ROW + LOCKS, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn bus(mhz: u32, lanes: u32) -> Bus {
        Bus {
            speed: SpiSpeed { mhz, lanes },
            spare_run: 6,
            load_clears: true,
        }
    }

    /// 2,048 and 24 bytes at 104 MHz: 13 and 03 with their addresses, five columns.
    #[test]
    fn a_whole_page_takes_as_long_as_its_clocks() {
        let moved = bus(104, 1).read([2048, 0], 24);
        assert_eq!(moved.bytes, 7 + 5 * 4 + 2072);
        assert_eq!(moved.ns, (2099 * 8 * 1000u64).div_ceil(104));
        let quad = bus(104, 4).read([2048, 0], 24);
        assert_eq!(quad.bytes, moved.bytes);
        assert_eq!(quad.ns, ((27 * 8 + 2072 * 2) * 1000u64).div_ceil(104));
    }

    #[test]
    fn two_lanes_read_and_one_programs() {
        let program = bus(104, 1).program(2048, 24, 2048, 64);
        assert_eq!(bus(104, 2).program(2048, 24, 2048, 64), program);
        assert!(bus(104, 2).read([2048, 0], 0).ns < bus(104, 1).read([2048, 0], 0).ns);
        assert!(bus(104, 4).program(2048, 24, 2048, 64).ns < program.ns);
    }

    #[test]
    fn no_byte_of_data_costs_no_column() {
        assert_eq!(bus(100, 1).read([0, 0], 0).bytes, 7);
        assert_eq!(bus(100, 1).read([0, 0], 7).bytes, 7 + 2 * 4 + 7);
        assert_eq!(
            bus(100, 1).erase(),
            Moved {
                bytes: 14,
                ns: 1_120
            }
        );
    }
}
