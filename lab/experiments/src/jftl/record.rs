//! What a kernel asks of a disk, noted, to be asked of another.

use flashkit_disk::{Disk, Result};

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Read(u64, usize),
    Write(u64, Box<[u8]>),
    Zero(u64, u64),
    Flush,
    /// The benchmark begins.
    Begin,
}

/// A disk that notes what it is asked for.
pub struct Recorder<D> {
    pub disk: D,
    pub events: Vec<Event>,
}

impl<D> Recorder<D> {
    pub fn new(disk: D) -> Recorder<D> {
        Recorder {
            disk,
            events: Vec::new(),
        }
    }
}

impl<D: Disk> Disk for Recorder<D> {
    fn size(&self) -> u64 {
        self.disk.size()
    }
    fn block_size(&self) -> u32 {
        self.disk.block_size()
    }
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.events.push(Event::Read(offset, buf.len()));
        self.disk.read(offset, buf)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.events.push(Event::Write(offset, data.into()));
        self.disk.write(offset, data)
    }
    fn zero(&mut self, offset: u64, len: u64) -> Result<()> {
        self.events.push(Event::Zero(offset, len));
        self.disk.zero(offset, len)
    }
    fn flush(&mut self) -> Result<()> {
        self.events.push(Event::Flush);
        self.disk.flush()
    }
}

/// Asks a disk for the same; `begin` is called where the benchmark began.
pub fn replay<D: Disk>(events: &[Event], disk: &mut D, mut begin: impl FnMut(&D)) -> Result<()> {
    let mut buf = Vec::new();
    for event in events {
        match event {
            Event::Read(offset, len) => {
                buf.resize(*len, 0);
                disk.read(*offset, &mut buf)?;
            }
            Event::Write(offset, data) => disk.write(*offset, data)?,
            Event::Zero(offset, len) => disk.zero(*offset, *len)?,
            Event::Flush => disk.flush()?,
            Event::Begin => begin(disk),
        }
    }
    Ok(())
}

/// The bytes that a disk holds after so much.
pub fn image(events: &[Event], size: u64) -> Vec<u8> {
    let mut bytes = vec![0; size as usize];
    for event in events {
        put(&mut bytes, event);
    }
    bytes
}

/// What an event makes of the bytes.
pub fn put(bytes: &mut [u8], event: &Event) {
    match event {
        Event::Write(offset, data) => {
            bytes[*offset as usize..][..data.len()].copy_from_slice(data);
        }
        Event::Zero(offset, len) => bytes[*offset as usize..][..*len as usize].fill(0),
        Event::Read(..) | Event::Flush | Event::Begin => {}
    }
}
