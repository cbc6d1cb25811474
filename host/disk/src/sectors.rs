//! Bytes on sectors, and the chip's time as real time.

use std::time::{Duration, Instant};

use crate::remap::{Remapped, Transaction};
use crate::{Disk, Result, Translation};

/// Zeros written at a time where the device cannot trim.
const ZEROS: usize = 1 << 16;

/// A [`Translation`] addressed by bytes.
pub struct Sectors<T> {
    device: T,
    sector: u64,
    /// One sector, for what is written in part.
    buf: Vec<u8>,
    real_time: Option<RealTime>,
}

/// When the chip's clock was at zero.
struct RealTime {
    start: Instant,
}

impl<T: Translation> Sectors<T> {
    /// Serves at once; flash time is only counted.
    pub fn new(device: T) -> Sectors<T> {
        Sectors {
            sector: u64::from(device.sector_size()),
            buf: vec![0; device.sector_size() as usize],
            real_time: None,
            device,
        }
    }

    /// Really waits the chip's times: an operation returns when the chip would have, and what the
    /// chip does in the background goes on meanwhile.
    pub fn in_real_time(mut self) -> Sectors<T> {
        let spent = Duration::from_nanos(self.device.now_ns());
        let start = Instant::now();
        self.real_time = Some(RealTime {
            start: start.checked_sub(spent).unwrap_or(start),
        });
        self
    }

    /// The translation layer.
    pub fn device(&self) -> &T {
        &self.device
    }

    /// Gives the translation layer back.
    pub fn into_device(self) -> T {
        self.device
    }

    /// Runs one operation in its time.
    fn timed<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        if let Some(time) = &self.real_time {
            let real_ns = u64::try_from(time.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let behind = real_ns.saturating_sub(self.device.now_ns());
            self.device.pass(behind);
        }
        let done = work(self);
        if let Some(time) = &self.real_time {
            let until = time.start + Duration::from_nanos(self.device.now_ns());
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        done
    }

    fn check(&self, offset: u64, len: u64) -> Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.size() => Ok(()),
            _ => Err(format!(
                "{len} bytes at {offset} are beyond the disk's end at {}",
                self.size()
            )),
        }
    }

    /// Splits a range at sectors: what is before the first whole one, the
    /// whole ones, what is after.
    fn split(&self, offset: u64, len: u64) -> [(u64, u64); 3] {
        let end = offset + len;
        let first = offset.next_multiple_of(self.sector).min(end);
        let last = (end / self.sector * self.sector).max(first);
        [(offset, first), (first, last), (last, end)]
    }

    fn index(&self, offset: u64) -> u32 {
        (offset / self.sector) as u32
    }

    fn read_now(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        for (from, to) in self.split(offset, buf.len() as u64) {
            let part = &mut buf[(from - offset) as usize..(to - offset) as usize];
            if part.is_empty() {
                continue;
            }
            let within = (from % self.sector) as usize;
            if within == 0 && (part.len() as u64).is_multiple_of(self.sector) {
                self.device.read(self.index(from), part)
            } else {
                let sector = self.index(from);
                let read = self.device.read(sector, &mut self.buf);
                part.copy_from_slice(&self.buf[within..within + part.len()]);
                read
            }
            .map_err(|e| format!("read: {e}"))?;
        }
        Ok(())
    }

    fn write_now(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        for (from, to) in self.split(offset, data.len() as u64) {
            let part = &data[(from - offset) as usize..(to - offset) as usize];
            if part.is_empty() {
                continue;
            }
            let within = (from % self.sector) as usize;
            let sector = self.index(from);
            if within == 0 && (part.len() as u64).is_multiple_of(self.sector) {
                self.device.write(sector, part)
            } else {
                let buf = &mut self.buf;
                self.device.read(sector, buf).and_then(|()| {
                    buf[within..within + part.len()].copy_from_slice(part);
                    self.device.write(sector, buf)
                })
            }
            .map_err(|e| format!("write: {e}"))?;
        }
        Ok(())
    }

    fn zero_now(&mut self, offset: u64, len: u64) -> Result<()> {
        let [before, whole, after] = self.split(offset, len);
        let zeros = vec![0; ZEROS.min(len as usize)];
        for (from, to) in [before, after] {
            self.write_now(from, &zeros[..(to - from) as usize])?;
        }
        let (from, to) = whole;
        if T::TRIM_ZEROES {
            let count = self.index(to - from);
            let trimmed = self.device.trim(self.index(from), count);
            return trimmed.map_err(|e| format!("trim: {e}"));
        }
        for at in (from..to).step_by(ZEROS) {
            let len = (to - at).min(ZEROS as u64) as usize;
            self.write_now(at, &zeros[..len])?;
        }
        Ok(())
    }
}

impl<T: Translation> Disk for Sectors<T> {
    fn size(&self) -> u64 {
        u64::from(self.device.sector_count()) * self.sector
    }

    fn block_size(&self) -> u32 {
        self.device.sector_size()
    }

    fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.check(offset, buf.len() as u64)?;
        self.timed(|disk| disk.read_now(offset, buf))
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.check(offset, data.len() as u64)?;
        self.timed(|disk| disk.write_now(offset, data))
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        self.timed(|disk| disk.zero_now(offset, len))
    }

    fn flush(&mut self) -> Result<()> {
        let flushed = self.timed(|disk| disk.device.flush());
        flushed.map_err(|e| format!("flush: {e}"))
    }

    fn remap(&mut self, entries: &[u8]) -> Result<Remapped> {
        let Some(most) = self.device.remap_max() else {
            return Ok(Remapped::Unable);
        };
        let told = Transaction::of(
            entries,
            self.sector,
            self.device.sector_count().into(),
            most,
        );
        let Transaction { pairs, deallocated } = match told {
            Ok(told) => told,
            Err(why) => return Ok(Remapped::Refused(why)),
        };
        let done = self.timed(|disk| disk.device.remap(&pairs, &deallocated));
        done.map(|()| Remapped::Done)
            .map_err(|e| format!("remap: {e}"))
    }

    fn background(&mut self) -> Result<bool> {
        let cleaned = self.timed(|disk| disk.device.background());
        cleaned.map_err(|e| format!("cleaning: {e}"))
    }

    fn patrol(&mut self, n: u32) -> Result<bool> {
        self.timed(|disk| disk.device.patrol(n))
            .map_err(|e| format!("patrol: {e}"))
    }

    fn close(&mut self) -> Result<()> {
        self.device.close().map_err(|e| format!("close: {e}"))
    }

    fn summary(&self) -> String {
        self.device.summary()
    }

    fn flash_ns(&self) -> u64 {
        self.device.now_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashkit_block::BlockDevice;

    /// Sectors in RAM; a write takes 5 ms of its time.
    struct InRam<const ZEROES: bool> {
        bytes: Vec<u8>,
        now_ns: u64,
        trims: u32,
    }

    impl<const ZEROES: bool> InRam<ZEROES> {
        fn new() -> Sectors<Self> {
            Sectors::new(InRam {
                bytes: (0..4096).map(|i| i as u8).collect(),
                now_ns: 0,
                trims: 0,
            })
        }
    }

    impl<const ZEROES: bool> BlockDevice for InRam<ZEROES> {
        type Error = String;
        const TRIM_ZEROES: bool = ZEROES;

        fn sector_size(&self) -> u32 {
            512
        }
        fn sector_count(&self) -> u32 {
            8
        }
        fn read(&mut self, first: u32, buf: &mut [u8]) -> std::result::Result<(), String> {
            let at = first as usize * 512;
            buf.copy_from_slice(&self.bytes[at..at + buf.len()]);
            Ok(())
        }
        fn write(&mut self, first: u32, data: &[u8]) -> std::result::Result<(), String> {
            let at = first as usize * 512;
            self.bytes[at..at + data.len()].copy_from_slice(data);
            self.now_ns += 5_000_000;
            Ok(())
        }
        fn trim(&mut self, first: u32, count: u32) -> std::result::Result<(), String> {
            let range = first as usize * 512..(first + count) as usize * 512;
            self.bytes[range].fill(if ZEROES { 0 } else { 0x77 });
            self.trims += count;
            Ok(())
        }
        fn flush(&mut self) -> std::result::Result<(), String> {
            Err("no".into())
        }
    }

    impl<const ZEROES: bool> Translation for InRam<ZEROES> {
        fn background(&mut self) -> std::result::Result<bool, String> {
            Ok(false)
        }
        fn close(&mut self) -> std::result::Result<(), String> {
            Ok(())
        }
        fn summary(&self) -> String {
            String::new()
        }
        fn now_ns(&self) -> u64 {
            self.now_ns
        }
        fn pass(&mut self, ns: u64) {
            self.now_ns += ns;
        }
    }

    /// Every range of a small disk, against an array.
    #[test]
    fn any_range_is_read_and_written() {
        let mut disk = InRam::<true>::new();
        let mut held: Vec<u8> = (0..4096).map(|i| i as u8).collect();
        for (n, offset) in (0..4096u64).step_by(97).enumerate() {
            let len = (n * 131 % 1500).min(4096 - offset as usize);
            let data = vec![n as u8; len];
            disk.write(offset, &data).unwrap();
            held[offset as usize..offset as usize + len].copy_from_slice(&data);
            let mut read = vec![0; 4096 - offset as usize];
            disk.read(offset, &mut read).unwrap();
            assert_eq!(read, held[offset as usize..]);
        }
        for (offset, len) in [(0, 512), (100, 200), (700, 2000), (4095, 1), (9, 0)] {
            disk.zero(offset, len).unwrap();
            held[offset as usize..(offset + len) as usize].fill(0);
            assert_eq!(disk.device().bytes, held);
        }
        assert_eq!(disk.device().trims, 1 + 3);
        let said = disk.write(4000, &[0; 97]).unwrap_err();
        assert_eq!(said, "97 bytes at 4000 are beyond the disk's end at 4096");
        assert!(disk.read(u64::MAX, &mut [0]).is_err());
        assert_eq!(disk.flush().unwrap_err(), "flush: no");
    }

    #[test]
    fn zeros_are_written_where_a_trim_promises_nothing() {
        let mut disk = InRam::<false>::new();
        disk.zero(10, 3000).unwrap();
        let bytes = &disk.device().bytes;
        assert!(bytes[10..3010].iter().all(|byte| *byte == 0));
        assert_eq!((bytes[9], bytes[3010]), (9, 3010u32 as u8));
        assert_eq!(disk.device().trims, 0);
    }

    #[test]
    fn real_time_is_waited_for_and_passes_meanwhile() {
        let mut disk = InRam::<true>::new().in_real_time();
        let start = Instant::now();
        disk.write(0, &[1; 512]).unwrap();
        disk.write(0, &[2; 512]).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(10));
        std::thread::sleep(Duration::from_millis(20));
        disk.read(0, &mut [0]).unwrap();
        // What the machine slept the chip has lived through too.
        assert!(disk.flash_ns() >= 30_000_000);
    }
}
