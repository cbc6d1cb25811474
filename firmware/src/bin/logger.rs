//! A data logger on FlashLight on a SPI NAND, on a Cortex-M3 without an operating system.
//! `lab/board` runs it in QEMU, has its chip, cuts its power and looks at what it prints.
//!
//! Each round appends a record to `log` and syncs it. Some rounds append three, overwrite 4 KiB of
//! `ring` in place and sync that, turn the log (`log` becomes `log.old`, which is replaced), clean,
//! read an old record, or unmount and mount. What is durable is printed after the call that makes
//! it so. After a start everything is read, and what there is is printed.
//!
//! Told `forget`, it says that records are synced and does not sync them: a check that does not
//! find this out is none. Told `boot`, it has the boot reader read the log before each mount: that
//! must find what is there after the mount.

#![no_std]
#![no_main]

use core::convert::Infallible;

use embedded_io::SeekFrom;
use flashkit_firmware::board::{self, command_line, exit, print};
use flashkit_firmware::link::{Delay, Link, Meter};
use flashkit_firmware::stack;
use flashkit_flashlight::boot::{Boot, Error as BootError};
use flashkit_flashlight::{Config, Error as VolumeError, FlashLight, New};
use flashkit_flashlight_files::{Error, File, Files, OpenOptions};
use flashkit_spi_nand::{Idle, SpiNand, parts};

/// Bytes of a record, and of what one round overwrites.
const RECORD: usize = 100;
const SLOT: usize = 4096;
/// Slots of the ring, and bytes of each that are new or old after a cut: a page.
const SLOTS: u32 = 16;
const PAGE: usize = 2048;
/// Records of a log that is turned.
const LONGEST: u32 = 256;
/// The volume's slice of RAM.
const RAM: usize = 16 << 10;
/// Stack that is painted: all that the RAM has besides.
const STACK: u32 = 36 << 10;

/// The calls that are measured.
const MOUNT: u32 = 1;
const APPEND: u32 = 2;
const OVERWRITE: u32 = 3;
const READ: u32 = 4;
const UNMOUNT: u32 = 5;
const RENAME: u32 = 6;
const BOOT: u32 = 7;

static mut VOLUME: [u8; RAM] = [0; RAM];
static mut BYTES: [u8; SLOT] = [0; SLOT];

type Chip = SpiNand<'static, Link, Delay, Idle>;
type Problem = Error<flashkit_spi_nand::Error<Infallible>>;
type Volume<'v> = Files<'v, &'v mut Chip>;
type Open<'f, 'v> = File<'f, 'v, &'v mut Chip>;

/// What is in RAM besides the stack.
struct Board {
    meter: Meter,
    bytes: &'static mut [u8; SLOT],
    forgets: bool,
    /// The last record.
    last: u32,
}

/// A word of what belongs to a number.
fn word(number: u32, index: u32) -> u32 {
    let mixed = number.wrapping_mul(0x9e37_79b1) ^ index.wrapping_mul(0x85eb_ca6b);
    mixed.rotate_left(index % 31)
}

/// A number, and what belongs to it.
fn fill(bytes: &mut [u8], number: u32) {
    for (index, to) in (0..).zip(bytes.chunks_exact_mut(4)) {
        let value = if index == 0 {
            number
        } else {
            word(number, index)
        };
        to.copy_from_slice(&value.to_le_bytes());
    }
}

/// The number at the start of bytes that belong to it; 0 of bytes that are all zero.
fn number_of(bytes: &[u8]) -> Option<u32> {
    let mut words = bytes
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let number = words.next()?;
    let belongs = |(index, found): (u32, u32)| match number {
        0 => found == 0,
        _ => found == word(number, index),
    };
    (1..).zip(words).all(belongs).then_some(number)
}

/// Ends the run: something is not as it must be.
fn give_up(what: &str, number: u32) -> ! {
    print(what, &[number]);
    exit(false)
}

fn must<T>(what: &str, result: Result<T, Problem>) -> T {
    match result {
        Ok(value) => value,
        Err(Error::Volume(_)) => give_up(what, 1),
        Err(_) => give_up(what, 2),
    }
}

/// The records of a log, in their order.
struct Records(Option<(u32, u32)>);

impl Records {
    fn add(&mut self, record: &[u8], len: usize) {
        // A write of a page or less is there or not.
        let number = match number_of(record) {
            Some(number) if len == RECORD && number != 0 => number,
            _ => give_up("wrong", self.0.map_or(0, |(_, last)| last)),
        };
        self.0 = match self.0 {
            None => Some((number, number)),
            Some((first, last)) if number == last + 1 => Some((first, number)),
            Some((_, last)) => give_up("gap", last),
        };
    }
}

/// The records of `log` by the boot reader: none yet, or no volume.
#[inline(never)]
fn look_by_boot(board: &mut Board, chip: &mut Chip, ram: &mut [u8]) -> Option<(u32, u32)> {
    let open = || {
        let mut boot = Boot::open(chip, ram)?;
        let log = boot.find(b"log")?;
        Ok((boot, log))
    };
    let (mut boot, log) = match board.meter.call(BOOT, open) {
        Ok(found) => found,
        Err(BootError::NotFormatted | BootError::NotFound) => return None,
        Err(error) => give_up("boot", error as u32),
    };
    let mut records = Records(None);
    // Each read moves whole pages over the bus.
    let (many, _) = board.bytes.split_at_mut(SLOT / RECORD * RECORD);
    let mut offset = 0;
    loop {
        match boot.read(&log, offset, many) {
            Ok(0) => return records.0,
            Ok(len) => many[..len]
                .chunks(RECORD)
                .for_each(|record| records.add(record, record.len())),
            Err(error) => give_up("boot", error as u32),
        }
        offset += many.len() as u64;
    }
}

/// Reads records of a log from its start on; says which ones it has, if any.
#[inline(never)]
fn look_at_log(fs: &Volume<'_>, path: &str, which: &str) -> Option<(u32, u32)> {
    let options = OpenOptions::new().read(true);
    let mut log = match fs.open(path, options) {
        Err(Error::Volume(VolumeError::NotFound)) => return None,
        log => must("open", log),
    };
    let mut found = Records(None);
    let mut record = [0; RECORD];
    loop {
        let len = must("read", log.read(&mut record));
        if len == 0 {
            break;
        }
        found.add(&record, len);
    }
    must("close", log.close());
    if let Some((first, last)) = found.0 {
        print(which, &[first, last]);
    }
    found.0
}

/// Says which numbers the pages of the ring have.
#[inline(never)]
fn look_at_ring(ring: &mut Open<'_, '_>, bytes: &mut [u8; SLOT]) {
    for slot in 0..SLOTS {
        must(
            "seek",
            ring.seek(SeekFrom::Start(u64::from(slot) * SLOT as u64)),
        );
        let len = must("read", ring.read(bytes));
        if len == 0 {
            break;
        }
        let number = |page: &[u8]| number_of(page).unwrap_or_else(|| give_up("torn", slot));
        let (first, second) = bytes.split_at(PAGE);
        if len < SLOT {
            give_up("short", slot);
        }
        print("slot", &[slot, number(first), number(second)]);
    }
}

impl Board {
    /// Appends a number of records and makes them durable.
    #[inline(never)]
    fn append(&mut self, log: &mut Open<'_, '_>, count: u32) {
        let mut record = [0; RECORD];
        for more in (0..count).rev() {
            self.last += 1;
            fill(&mut record, self.last);
            let syncs = more == 0 && !self.forgets;
            let mut write = || {
                log.write(&record)?;
                if syncs { log.sync() } else { Ok(()) }
            };
            // What is measured is one record and its sync.
            let done = match count {
                1 => self.meter.call(APPEND, write),
                _ => write(),
            };
            must("append", done);
        }
        print("synced", &[self.last]);
    }

    /// Overwrites a slot of the ring and makes it durable.
    #[inline(never)]
    fn put(&mut self, ring: &mut Open<'_, '_>) {
        let at = u64::from(self.last / 4 % SLOTS) * SLOT as u64;
        must("seek", ring.seek(SeekFrom::Start(at)));
        let (first, second) = self.bytes.split_at_mut(PAGE);
        fill(first, self.last);
        fill(second, self.last);
        let bytes = &self.bytes[..];
        let is_new = must("size", ring.size()) <= at;
        let mut write = || {
            ring.write(bytes)?;
            ring.sync()
        };
        // What is measured is an overwrite: not the first round of the ring.
        let done = match is_new {
            true => write(),
            false => self.meter.call(OVERWRITE, write),
        };
        must("put", done);
        print("put", &[self.last]);
    }

    /// Reads a record that was written before.
    #[inline(never)]
    fn read(&mut self, fs: &Volume<'_>, first: u32) {
        let count = self.last - first + 1;
        let index = self.last.wrapping_mul(7_919) % count;
        let mut log = must("open", fs.open("log", OpenOptions::new().read(true)));
        must(
            "seek",
            log.seek(SeekFrom::Start(u64::from(index) * RECORD as u64)),
        );
        let mut record = [0; RECORD];
        let len = must("read", self.meter.call(READ, || log.read(&mut record)));
        if len != RECORD || number_of(&record) != Some(first + index) {
            give_up("wrong", first + index);
        }
        must("close", log.close());
    }

    /// What is done between a mount and the unmount.
    #[inline(never)]
    fn session(&mut self, fs: &Volume<'_>, booted: Option<Option<(u32, u32)>>) {
        let (mut old, mut log) = (None, None);
        for (found, path, which) in [(&mut old, "log.old", "old"), (&mut log, "log", "log")] {
            *found = look_at_log(fs, path, which);
            if let Some((_, last)) = found {
                self.last = self.last.max(*last);
            }
        }
        if booted.is_some_and(|booted| booted != log) {
            give_up("the boot reader says otherwise", self.last);
        }
        let mut first = log.map_or(self.last + 1, |(first, _)| first);
        let append = OpenOptions::new().append(true).create(true);
        let both = OpenOptions::new().read(true).write(true).create(true);
        let mut log = must("open", fs.open("log", append));
        let mut ring = must("open", fs.open("ring", both));
        look_at_ring(&mut ring, self.bytes);
        print("ready", &[self.last]);
        for round in 1..=100 {
            let count = if round % 8 == 0 { 3 } else { 1 };
            self.append(&mut log, count);
            if self.last.is_multiple_of(4) {
                self.put(&mut ring);
            }
            if round % 5 == 0 {
                self.read(fs, first);
            }
            if round % 16 == 0 {
                must("clean", fs.gc(8));
                print("stack", &[stack::deepest()]);
            }
            if self.last - first >= LONGEST {
                must("close", log.close());
                must(
                    "rename",
                    self.meter.call(RENAME, || fs.rename("log", "log.old")),
                );
                print("turned", &[self.last]);
                first = self.last + 1;
                log = must("open", fs.open("log", append));
            }
        }
        must("close", log.close());
        must("close", ring.close());
    }
}

/// Makes an empty volume.
// A call of its own, so that there is no other volume on the stack of what follows.
#[inline(never)]
fn format(chip: &mut Chip, ram: &mut [u8]) {
    let (root, config) = (New::default(), Config::default());
    let made = FlashLight::format_into(&mut None, chip, ram, 0x5eed, &root, config);
    must("format", made.map_err(Error::from));
}

#[cortex_m_rt::entry]
fn main() -> ! {
    stack::paint(STACK);
    board::start();
    board::count_instructions();
    let mut words = [0; 16];
    let told = command_line(&mut words);
    let (forgets, boots) = (told.ends_with(b"forget"), told.ends_with(b"boot"));
    // SAFETY: the only references there ever are.
    let (ram, bytes) = unsafe { (&mut *(&raw mut VOLUME), &mut *(&raw mut BYTES)) };
    let link = Link::open();
    let (delay, meter) = (link.delay(), link.meter());
    let Ok(mut chip) = SpiNand::open(link, delay, Idle, &[&parts::WINBOND]) else {
        give_up("no chip", 0);
    };
    let mut board = Board {
        meter,
        bytes,
        forgets,
        last: 0,
    };
    let mut places = [None; 4];
    loop {
        let booted = boots.then(|| look_by_boot(&mut board, &mut chip, ram));
        let (lent, slice, open) = (&mut chip, &mut *ram, &mut places);
        let mut place = None;
        let mount = || Files::mount_into(&mut place, lent, slice, open, Config::default());
        let mounted = board.meter.call(MOUNT, mount);
        match mounted.map(|()| &mut place) {
            Ok(None) => give_up("mount", 0),
            Ok(Some(fs)) => {
                print("mounted", &[stack::deepest()]);
                board.session(fs, booted);
                must("unmount", board.meter.call(UNMOUNT, || fs.close()));
                print("unmounted", &[]);
            }
            Err(Error::Volume(VolumeError::NotFormatted)) => {
                format(&mut chip, ram);
                print("formatted", &[]);
            }
            Err(_) => give_up("mount", 0),
        }
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    give_up("panic", 0)
}
