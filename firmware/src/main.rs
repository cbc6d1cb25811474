//! Eight sensors that are stored once a second on an SD card, on a Cortex-M3 without an operating
//! system. `firmware/test.py` runs it in QEMU, cuts its power and looks at what it prints.
//!
//! Every second each sensor's record is appended to its file, then all is synced and `synced n`
//! printed. Some seconds also do everything else that the file system can. After a start the
//! firmware reads all that is there and says what it has found.

#![no_std]
#![no_main]

mod sd;

use flashkit_firmware::board::{self, exit, next_second, print};
use flashkit_firmware::stack;
use flashkit_nanofs::{Error, Handle, NanoFs};

use crate::sd::Sd;

/// Key of the volume.
const KEY: u32 = 0x5e45_0125;
const SENSORS: usize = 8;
/// Files are begun anew when they have so many bytes.
const LONGEST: u32 = 60_000;
/// What a second may do to clean up.
const BUDGET: u32 = 400;

static mut FS: NanoFs<Sd> = NanoFs::new(Sd::new());

/// What a sensor has measured in a second.
struct Record([u8; 20]);

impl Record {
    fn of(sensor: usize, second: u32) -> Record {
        let value = (second ^ (sensor as u32) << 28).wrapping_mul(0x9e37_79b1);
        let mut bytes = [0; 20];
        let words = [sensor as u32, second, value, !value, value.rotate_left(9)];
        for (to, from) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        Record(bytes)
    }

    fn second(&self) -> u32 {
        let [_, _, _, _, a, b, c, d, ..] = self.0;
        u32::from_le_bytes([a, b, c, d])
    }
}

fn name(sensor: usize) -> [u8; 7] {
    let mut name = *b"sensor0";
    name[6] += sensor as u8;
    name
}

/// Ends the run: something is not as it must be.
fn give_up(what: &str, error: Option<Error>) -> ! {
    print(what, &[error.map_or(0, |error| error as u32)]);
    exit(false)
}

fn must<T>(what: &str, result: Result<T, Error>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => give_up(what, Some(error)),
    }
}

type Fs = NanoFs<Sd>;

/// Opens a file; makes it if there is none.
fn open(fs: &mut Fs, name: &[u8]) -> Handle {
    match fs.open(name) {
        Err(Error::NotFound) => must("create", fs.create(name)),
        handle => must("open", handle),
    }
}

/// Reads a sensor's file; gives the last second in it. Prints seconds that are not there.
#[inline(never)]
fn verify(fs: &mut Fs, sensor: usize, file: Handle) -> u32 {
    let mut last = 0;
    let mut record = Record([0; 20]);
    must("seek", fs.seek(file, 0));
    while must("read", fs.read(file, &mut record.0)) == 20 {
        let second = record.second();
        if record.0 != Record::of(sensor, second).0 || second <= last {
            print("wrong", &[sensor as u32, last, second]);
            exit(false);
        }
        if last != 0 && second != last + 1 {
            print("gap", &[sensor as u32, last + 1, second - 1]);
        }
        last = second;
    }
    // A record may have been torn.
    let size = must("size", fs.size(file));
    if !size.is_multiple_of(20) {
        print("torn", &[sensor as u32, size]);
        must("truncate", fs.truncate(file, size / 20 * 20));
    }
    print("found", &[sensor as u32, size / 20, last]);
    last
}

/// Appends a second's records.
#[inline(never)]
fn store(fs: &mut Fs, files: &[Handle; SENSORS], second: u32) {
    for (sensor, &file) in files.iter().enumerate() {
        if must("size", fs.size(file)) >= LONGEST {
            must("truncate", fs.truncate(file, 0));
        }
        must("append", fs.append(file, &Record::of(sensor, second).0));
    }
}

/// What else can be done.
#[inline(never)]
fn more(fs: &mut Fs, state: Handle, second: u32) {
    // A file of four nodes whose every part is overwritten in place.
    for i in 0..5 {
        must("seek", fs.seek(state, 0));
        let at = second.wrapping_mul(7 * i + 1) % 1_800;
        if must("size", fs.size(state)) >= 2_000 {
            must("seek", fs.seek(state, at));
        } else {
            must("seek", fs.seek(state, u32::MAX));
        }
        must("overwrite", fs.write(state, &[second as u8; 200]));
    }
    // A file that comes and goes.
    let kept = must("create", fs.create(b"new"));
    must("append", fs.append(kept, &[0x5a; 200]));
    must("close", fs.close(kept));
    must("rename", fs.rename(b"new", b"old"));
    must("delete", fs.delete(b"old"));
    let mut files = 0;
    let mut cursor = 0;
    loop {
        cursor = must("list", fs.next_file(cursor));
        if cursor == 0 {
            break;
        }
        if fs.entry().name != b"old" {
            files += 1;
        }
    }
    print("files", &[files]);
}

#[cortex_m_rt::entry]
fn main() -> ! {
    stack::paint(4096);
    board::start();
    // SAFETY: the only reference there ever is.
    let fs = unsafe { &mut *(&raw mut FS) };
    if let Err(refused) = fs.device().start() {
        print("no card", &[refused.0.into()]);
        exit(false);
    }
    match fs.mount(KEY) {
        Err(Error::NotFormatted) => {
            must("format", fs.format(KEY, 16, 0x1234_5678));
            print("formatted", &[]);
        }
        mounted => must("mount", mounted),
    }
    // What a cut has left of a file that comes and goes.
    for left in [&b"new"[..], b"old"] {
        match fs.delete(left) {
            Err(Error::NotFound) => {}
            deleted => must("delete", deleted),
        }
    }
    let mut files = [Handle(0); SENSORS];
    let mut second = 0;
    for (sensor, file) in files.iter_mut().enumerate() {
        *file = open(fs, &name(sensor));
        second = second.max(verify(fs, sensor, *file));
    }
    let state = open(fs, b"state");
    print("space", &[must("space", fs.space_left())]);
    let mut busiest = 0;
    loop {
        next_second();
        second += 1;
        store(fs, &files, second);
        must("sync", fs.sync());
        print("synced", &[second]);
        if second.is_multiple_of(16) {
            more(fs, state, second);
            let stack = stack::used();
            print("ram", &[size_of::<Fs>() as u32, stack, busiest]);
        }
        must("clean", fs.clean(BUDGET));
        busiest = busiest.max(board::spent());
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    board::exit(false)
}
