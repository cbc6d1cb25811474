//! Block devices on the host: bytes instead of sectors, real time, and the device as one file.
//!
//! ```text
//!  FUSE ── DiskFs ──┐
//!                   ├── Disk: bytes ── Sectors ── Translation: a BlockDevice on a simulated chip
//!  NBD  ────────────┘
//! ```
//!
//! A translation layer joins by implementing [`Translation`], whatever chip is below it.
//!
//! | module | what it does |
//! | --- | --- |
//! | `sectors` | bytes over the sectors of a device: reads before a write of a part |
//! | `nand`, `nor` | `jftl` and `logdisk` with their RAM and their chip in one value |
//! | `file` | the device as the one file of a file system, for FUSE and a loop device |
//! | `remap` | transactions of programs that keep a journal themselves |
//!
//! ```
//! use flashkit_disk::{Disk, OnNand, Sectors};
//! use flashkit_jftl::{Jftl, MapCache, ram_bytes};
//! use flashkit_nand::Nand;
//! use flashkit_sim::{SimNand, preset};
//!
//! let mut chip = SimNand::new(preset("w25n01gv").unwrap());
//! let mut ram = vec![0; ram_bytes(&chip.geometry(), MapCache::Pieces(4)).unwrap()];
//! Jftl::format(&mut chip, &mut ram, 1).unwrap();
//! let device = OnNand::mount(chip, true, |_| (), |_| String::new()).unwrap();
//! let mut disk = Sectors::new(device);
//! disk.write(1000, b"across no sector's bounds").unwrap();
//! let mut bytes = [0; 6];
//! disk.read(1000, &mut bytes).unwrap();
//! assert_eq!(&bytes, b"across");
//! ```

#![forbid(unsafe_code)]

mod file;
mod nand;
mod nor;
mod remap;
mod sectors;

use flashkit_block::BlockDevice;

pub use file::DiskFs;
pub use nand::{OnNand, Remapping};
pub use nor::OnNor;
pub use remap::{ENTRY, NOTHING, Remapped};
pub use sectors::Sectors;

/// What goes wrong on a disk, in one line.
pub type Result<T> = std::result::Result<T, String>;

/// A block device, addressed by bytes.
pub trait Disk {
    /// Bytes of the disk.
    fn size(&self) -> u64;

    /// Bytes that are written at once without a read before.
    fn block_size(&self) -> u32;

    /// Reads a range within the disk.
    ///
    /// # Errors
    /// What the device says; a range beyond the end.
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Writes a range within the disk.
    ///
    /// # Errors
    /// As [`Disk::read`].
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<()>;

    /// Makes a range read as zeros, after the next flush for good, and gives its space
    /// back where the device can.
    ///
    /// # Errors
    /// As [`Disk::read`].
    fn zero(&mut self, offset: u64, len: u64) -> Result<()>;

    /// Returns when everything before is durable.
    ///
    /// # Errors
    /// What the device says.
    fn flush(&mut self) -> Result<()>;

    /// A transaction of a program that keeps a journal on this disk: homes hold from now on what
    /// the journal holds, and ranges are given up. The entries are drawn in
    /// `host/disk/src/remap.rs`: [`ENTRY`] bytes each. By default a device is [`Remapped::Unable`].
    ///
    /// All of it or, after a power cut, nothing. Durable when it returns, and with it all that was
    /// written before. On `jftl` it costs 8 bytes of the log for a run of up to 16 sectors; no data
    /// is read or programmed.
    ///
    /// # Errors
    /// What the device says.
    fn remap(&mut self, entries: &[u8]) -> Result<Remapped> {
        let _ = entries;
        Ok(Remapped::Unable)
    }

    /// Does a little of what can be done in idle time; whether there is more. By default there is
    /// nothing to do.
    ///
    /// # Errors
    /// What the device says.
    fn background(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Reads the `n`-th page of those that the device keeps for itself, and that [`Disk::read`]
    /// does not come to; whether there are so many. By default there are none.
    ///
    /// # Errors
    /// What the device says.
    fn patrol(&mut self, n: u32) -> Result<bool> {
        let _ = n;
        Ok(false)
    }

    /// Ends in good order. The last call but [`Disk::summary`]. By default that takes nothing.
    ///
    /// # Errors
    /// What the device says.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }

    /// What it has cost the chip so far, in one line; empty where there is no chip.
    fn summary(&self) -> String {
        String::new()
    }

    /// Flash time so far, in nanoseconds; 0 where there is no chip.
    fn flash_ns(&self) -> u64 {
        0
    }
}

impl<D: Disk + ?Sized> Disk for Box<D> {
    fn size(&self) -> u64 {
        (**self).size()
    }
    fn block_size(&self) -> u32 {
        (**self).block_size()
    }
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        (**self).read(offset, buf)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        (**self).write(offset, data)
    }
    fn zero(&mut self, offset: u64, len: u64) -> Result<()> {
        (**self).zero(offset, len)
    }
    fn flush(&mut self) -> Result<()> {
        (**self).flush()
    }
    fn remap(&mut self, entries: &[u8]) -> Result<Remapped> {
        (**self).remap(entries)
    }
    fn background(&mut self) -> Result<bool> {
        (**self).background()
    }
    fn patrol(&mut self, n: u32) -> Result<bool> {
        (**self).patrol(n)
    }
    fn close(&mut self) -> Result<()> {
        (**self).close()
    }
    fn summary(&self) -> String {
        (**self).summary()
    }
    fn flash_ns(&self) -> u64 {
        (**self).flash_ns()
    }
}

/// A translation layer on a simulated chip.
pub trait Translation: BlockDevice<Error: std::fmt::Display> {
    /// Makes homes of the pairs (home, journal) hold what the journal's sectors hold, and runs
    /// (first, count) nothing: all of it or, after a power cut, nothing; durable when it returns.
    /// Asked for no more than [`Translation::remap_max`] sectors in all.
    ///
    /// # Errors
    /// Of the device.
    fn remap(
        &mut self,
        pairs: &[(u32, u32)],
        deallocated: &[(u32, u32)],
    ) -> std::result::Result<(), Self::Error> {
        let _ = (pairs, deallocated);
        Ok(())
    }

    /// Sectors that a transaction may have; none, the default, where there are no transactions.
    fn remap_max(&self) -> Option<u32> {
        None
    }

    /// Does a little of what can be done in idle time; whether there is more.
    ///
    /// # Errors
    /// Of the device.
    fn background(&mut self) -> std::result::Result<bool, Self::Error>;

    /// Reads the `n`-th page of those that the layer keeps for itself; whether there are so many.
    /// By default there are none.
    ///
    /// # Errors
    /// Of the device.
    fn patrol(&mut self, n: u32) -> std::result::Result<bool, Self::Error> {
        let _ = n;
        Ok(false)
    }

    /// Ends in good order.
    ///
    /// # Errors
    /// Of the device.
    fn close(&mut self) -> std::result::Result<(), Self::Error>;

    /// What it has cost the chip so far, in one line.
    fn summary(&self) -> String;

    /// The chip's virtual clock, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Lets the chip's time pass without work.
    fn pass(&mut self, ns: u64);
}
