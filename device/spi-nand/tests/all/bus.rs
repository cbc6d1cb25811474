//! What the driver sends is what the simulator's model of a bus prices: the same bytes, in the same
//! time, whatever the part.

use core::cell::Cell;

use flashkit_nand::{BlockAddr, Copied, Nand, PageAddr, ReadStatus};
use flashkit_sim::spi::SpiNandChip;
use flashkit_sim::{Counters, Metered, SimNand, presets};
use flashkit_spi_nand::{Doing, SpiNand, WhileBusy, parts};

/// Bytes of a look at the status.
const LOOK: u64 = 3;

/// Counts the looks that find the chip busy.
#[derive(Clone, Copy)]
struct Looks<'c>(&'c Cell<u64>);

impl WhileBusy for Looks<'_> {
    fn busy(&mut self, _: Doing) {
        self.0.set(self.0.get() + 1);
    }
}

/// Lengths of data and spare bytes of reads and of programs.
const READS: [(usize, usize); 7] = [
    (2048, 24),
    (2048, 0),
    (100, 24),
    (1, 7),
    (0, 24),
    (0, 6),
    (0, 0),
];
const PROGRAMS: [(usize, usize); 5] = [(2048, 24), (2048, 0), (300, 13), (0, 24), (0, 0)];

#[test]
fn the_model_prices_what_the_driver_sends() {
    let mut compared = 0;
    for preset in presets() {
        let Some(bus) = preset.bus else {
            continue;
        };
        let mut model = SimNand::new(preset);
        let mut chip: SpiNandChip = SpiNandChip::new(&preset.name.to_uppercase());
        chip.set_speed(bus.speed);
        let busy = Cell::new(0);
        let delay = chip.delay();
        let mut driver = SpiNand::open(chip, delay, Looks(&busy), &parts::ALL).unwrap();
        let mut both = |what: &str, act: &mut dyn FnMut(&mut dyn Acts)| {
            let (before, looks) = (driver.spi_mut().count(), busy.get());
            act(&mut driver);
            let sent = driver.spi_mut().count() - before;
            let waited = busy.get() - looks;
            let before = model.counters();
            act(&mut model);
            let priced: Counters = model.counters() - before;
            let what = format!("{}: {what}", preset.name);
            assert_eq!(priced.bus_bytes, sent.bytes - LOOK * waited, "{what}");
            // Picoseconds of a byte are rounded down.
            let ps = sent.bus_ps / sent.bytes * (LOOK * waited);
            let ns = (sent.bus_ps - ps) / 1_000;
            assert!(priced.bus_ns.abs_diff(ns) <= 3, "{what}: {priced:?}, {ns}");
            compared += 1;
        };
        for (page, (data, spare)) in (0..).zip(PROGRAMS) {
            both("program", &mut |on| on.program(page, data, spare));
        }
        for (data, spare) in READS {
            both("read", &mut |on| on.read(data, spare));
            both("erased", &mut |on| on.read_at(999, data, spare));
        }
        both("read_used", &mut |on| on.read_used());
        both("copy", &mut |on| on.copy());
        both("erase", &mut |on| on.erase());
    }
    assert_eq!(compared, 7 * (5 + 14 + 3));
}

/// What is done to both.
trait Acts {
    fn program(&mut self, page: u32, data: usize, spare: usize);
    fn read_at(&mut self, page: u32, data: usize, spare: usize);
    fn read_used(&mut self);
    fn copy(&mut self);
    fn erase(&mut self);

    fn read(&mut self, data: usize, spare: usize) {
        self.read_at(0, data, spare);
    }
}

impl<N: Nand> Acts for N {
    fn program(&mut self, page: u32, data: usize, spare: usize) {
        let page = PageAddr(page);
        Nand::program(self, page, &vec![0x5A; data], &vec![0x3C; spare]).unwrap();
    }

    fn read_at(&mut self, page: u32, data: usize, spare: usize) {
        let (mut data, mut spare) = (vec![0; data], vec![0; spare]);
        Nand::read(self, PageAddr(page), 0, &mut data, &mut spare).unwrap();
    }

    fn read_used(&mut self) {
        let mut data = vec![0; 2048];
        Nand::read_used(self, PageAddr(2), &mut data, 32, &|_| 300).unwrap();
        assert_eq!(data[..300], [0x5A; 300]);
    }

    /// Of a page that is not in the chip's cache, within a block.
    fn copy(&mut self) {
        let (from, to) = (PageAddr(1), PageAddr(PROGRAMS.len() as u32));
        let copied = Nand::copy(self, from, to, &[0x3C; 24], &mut [0; 2048]).unwrap();
        assert_eq!(copied, Copied::Done(ReadStatus::Clean));
    }

    fn erase(&mut self) {
        Nand::erase(self, BlockAddr(0)).unwrap();
    }
}
