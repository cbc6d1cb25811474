//! An MTD device as a chip.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use flashkit_meter::{Counters, Metered};
use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};

use crate::MtdError;
use crate::ioctl;
use crate::sysfs::{self, Described};

/// Set to anything, pages are read as on kernels that have no `MEMREAD` request (before 6.1).
const OLD_READS: &str = "FLASHKIT_MTD_OLD_READS";

/// How pages are read.
enum Reads {
    /// By `MEMREAD`, which tells of the bits that it has corrected.
    Request,
    /// By `read` and `MEMREADOOB64`, between two looks at the chip's statistics. Free spare bytes
    /// are at these offsets, for so many bytes.
    Statistics(Vec<(usize, usize)>),
}

/// A NAND chip, or a partition of one, behind `/dev/mtdN`.
///
/// Locked as long as it is open, against other programs that lock it too. The times of
/// [`Metered::counters`] are those that requests have taken; erases are counted from the opening.
pub struct MtdNand {
    file: File,
    described: Described,
    reads: Reads,
    page: Vec<u8>,
    spare: Vec<u8>,
    counters: Counters,
    erases: Vec<u32>,
}

/// Whether a path is an MTD character device.
pub fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| sysfs::folder(&metadata).is_ok())
}

impl MtdNand {
    /// Opens a device, to be changed with `write`. Nothing is changed by that.
    ///
    /// # Errors
    /// [`MtdError::NotMtd`], [`MtdError::NotNand`], [`MtdError::Geometry`] for what is no NAND
    /// chip, [`MtdError::InUse`], and what the system says.
    pub fn open(path: &Path, write: bool) -> Result<MtdNand, MtdError> {
        // Before it is opened: that alone does something to other devices.
        let metadata = std::fs::metadata(path).map_err(|_| MtdError::NotMtd)?;
        let folder = sysfs::folder(&metadata)?;
        let file = OpenOptions::new().read(true).write(write).open(path);
        let file = file.map_err(|error| MtdError::Request("open", error))?;
        let described = sysfs::describe(&folder)?;
        let locked = if write {
            file.try_lock()
        } else {
            file.try_lock_shared()
        };
        match locked {
            Err(TryLockError::WouldBlock) => return Err(MtdError::InUse),
            Err(TryLockError::Error(error)) => return Err(MtdError::Request("lock", error)),
            Ok(()) => {}
        }
        let geometry = described.geometry;
        let mut chip = MtdNand {
            file,
            reads: Reads::Request,
            page: vec![0; geometry.page_size() as usize],
            spare: Vec::new(),
            counters: Counters::default(),
            erases: vec![0; geometry.blocks() as usize],
            described,
        };
        chip.choose_reads()?;
        Ok(chip)
    }

    /// Begins to count operations and time anew.
    pub fn clear_counters(&mut self) {
        self.counters = Counters::default();
    }

    /// Its name, that of a partition often.
    pub fn name(&self) -> &str {
        &self.described.name
    }

    fn choose_reads(&mut self) -> Result<(), MtdError> {
        let old = std::env::var_os(OLD_READS).is_some();
        let probed = match old {
            true => Err(io::Error::from_raw_os_error(nix::libc::ENOTTY)),
            false => ioctl::read(&self.file, 0, &mut self.page, &mut []).map(drop),
        };
        match probed {
            Err(error) if is(&error, nix::libc::ENOTTY) => {
                // A driver that does not tell its layout offers no spare bytes.
                let regions = ioctl::free_regions(&self.file).unwrap_or_default();
                let geometry = self.described.geometry;
                let free: usize = regions.iter().map(|r| r.1).sum();
                let spare = geometry.spare_size().min(free as u32);
                let (page, pages) = (geometry.page_size(), geometry.pages_per_block());
                self.described.geometry = Geometry::new(page, spare, pages, geometry.blocks())
                    .map_err(|_| MtdError::NotMtd)?;
                let end = regions.iter().map(|r| r.0 + r.1).max().unwrap_or(0);
                self.spare = vec![0; end];
                self.reads = Reads::Statistics(regions);
                Ok(())
            }
            Err(error) => Err(MtdError::Request("MEMREAD", error)),
            Ok(()) => Ok(()),
        }
    }

    fn at(&self, page: PageAddr) -> u64 {
        u64::from(page.0) * u64::from(self.described.geometry.page_size())
    }

    fn block_at(&self, block: BlockAddr) -> u64 {
        self.at(PageAddr(
            block.0 * self.described.geometry.pages_per_block(),
        ))
    }

    /// As [`Nand::read`] by one `MEMREAD`.
    fn read_by_request(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> io::Result<ReadStatus> {
        let start = self.at(page);
        let bits = if data.is_empty() || spare.is_empty() {
            ioctl::read(&self.file, start + u64::from(offset), data, spare)?
        } else {
            // Both from the page's beginning: drivers differ in what an offset means to the spare.
            let bits = ioctl::read(&self.file, start, &mut self.page, spare)?;
            let from = offset as usize;
            data.copy_from_slice(&self.page[from..from + data.len()]);
            bits
        };
        Ok(match bits {
            _ if bits.uncorrectable => ReadStatus::Uncorrectable,
            _ if bits.corrected > 0 => ReadStatus::Corrected(bits.corrected),
            _ => ReadStatus::Clean,
        })
    }

    /// As [`Nand::read`] by the requests of older kernels.
    fn read_by_statistics(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> io::Result<ReadStatus> {
        let (start, before) = (self.at(page), ioctl::stats(&self.file)?);
        if !data.is_empty() {
            self.file.read_exact_at(data, start + u64::from(offset))?;
        }
        if let Reads::Statistics(regions) = &self.reads
            && !spare.is_empty()
        {
            ioctl::read_oob(&self.file, start, &mut self.spare)?;
            gather(&self.spare, regions, spare);
        }
        let after = ioctl::stats(&self.file)?;
        Ok(match after.corrected.wrapping_sub(before.corrected) {
            _ if after.failed != before.failed => ReadStatus::Uncorrectable,
            0 => ReadStatus::Clean,
            n => ReadStatus::Corrected(n),
        })
    }

    /// What a program or an erase says: the medium's failures are no errors.
    fn status(result: io::Result<()>, what: &'static str) -> Result<OpStatus, MtdError> {
        match result {
            Ok(()) => Ok(OpStatus::Done),
            Err(error) if is(&error, nix::libc::EIO) => Ok(OpStatus::Failed),
            Err(error) => Err(MtdError::Request(what, error)),
        }
    }

    fn clocked<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let start = Instant::now();
        let result = work(self);
        self.counters.time_ns += start.elapsed().as_nanos() as u64;
        result
    }
}

fn is(error: &io::Error, code: i32) -> bool {
    error.raw_os_error() == Some(code)
}

/// Copies bytes of regions, one after another.
fn gather(from: &[u8], regions: &[(usize, usize)], to: &mut [u8]) {
    let free = regions.iter().flat_map(|r| &from[r.0..r.0 + r.1]);
    for (to, from) in to.iter_mut().zip(free) {
        *to = *from;
    }
}

impl Nand for MtdNand {
    type Error = MtdError;

    fn geometry(&self) -> Geometry {
        self.described.geometry
    }

    fn correctable_bits(&self) -> u32 {
        self.described.strength
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, MtdError> {
        if data.is_empty() {
            self.counters.spare_reads += 1;
        } else {
            self.counters.page_reads += 1;
        }
        let read = self.clocked(|chip| match chip.reads {
            Reads::Request => chip.read_by_request(page, offset, data, spare),
            Reads::Statistics(_) => chip.read_by_statistics(page, offset, data, spare),
        });
        read.map_err(|error| MtdError::Request("read", error))
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, MtdError> {
        self.counters.page_programs += 1;
        let start = self.at(page);
        let result = self.clocked(|chip| {
            if data.is_empty() || data.len() == chip.page.len() {
                return ioctl::write(&chip.file, start, data, spare);
            }
            chip.page[..data.len()].copy_from_slice(data);
            chip.page[data.len()..].fill(0xff);
            ioctl::write(&chip.file, start, &chip.page, spare)
        });
        Self::status(result, "program")
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, MtdError> {
        self.counters.block_erases += 1;
        if let Some(erases) = self.erases.get_mut(block.0 as usize) {
            *erases += 1;
        }
        let start = self.block_at(block);
        let length = self.block_at(BlockAddr(1));
        let result = self.clocked(|chip| ioctl::erase(&chip.file, start, length));
        Self::status(result, "erase")
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, MtdError> {
        ioctl::is_bad(&self.file, self.block_at(block))
            .map_err(|error| MtdError::Request("MEMGETBADBLOCK", error))
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), MtdError> {
        Self::status(
            ioctl::mark_bad(&self.file, self.block_at(block)),
            "MEMSETBADBLOCK",
        )
        .map(drop)
    }
}

impl Metered for MtdNand {
    fn counters(&self) -> Counters {
        self.counters
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.erases.clone()
    }

    /// Time goes by itself here.
    fn idle(&mut self, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_spare_bytes_are_gathered() {
        let spare: Vec<u8> = (0..16).collect();
        let mut to = [0; 5];
        gather(&spare, &[(2, 3), (10, 4)], &mut to);
        assert_eq!(to, [2, 3, 4, 10, 11]);
    }

    #[test]
    fn what_is_no_mtd_device_is_refused() {
        for path in ["/dev/null", "/", "/nonexistent"] {
            let refused = MtdNand::open(Path::new(path), false);
            assert!(matches!(refused, Err(MtdError::NotMtd)), "{path}");
        }
    }
}
