//! The requests of `mtd/mtd-abi.h`.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::errno::Errno;

/// Spare bytes are given and taken without holes, in the places that the driver leaves free.
const AUTO_OOB: u8 = 1;
/// Regions of free spare bytes that [`Layout`] tells of.
const REGIONS: usize = 8;

#[repr(C)]
struct Erase64 {
    start: u64,
    length: u64,
}

#[repr(C)]
struct Oob64 {
    start: u64,
    pad: u32,
    length: u32,
    to: u64,
}

/// Data and spare bytes of a page, either without the other. `MEMWRITE` is just that.
#[repr(C)]
struct Transfer {
    start: u64,
    len: u64,
    ooblen: u64,
    data: u64,
    oob: u64,
    mode: u8,
    padding: [u8; 7],
}

#[repr(C)]
struct Read {
    transfer: Transfer,
    uncorrectable: u32,
    corrected: u32,
    max_bitflips: u32,
}

impl Transfer {
    /// Of two buffers, each by its address and length.
    fn new(start: u64, data: (*const u8, usize), oob: (*const u8, usize)) -> Transfer {
        let address = |buffer: (*const u8, usize)| match buffer.1 {
            0 => 0,
            _ => buffer.0 as u64,
        };
        Transfer {
            start,
            len: data.1 as u64,
            ooblen: oob.1 as u64,
            data: address(data),
            oob: address(oob),
            mode: AUTO_OOB,
            padding: [0; 7],
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    offset: u32,
    length: u32,
}

#[repr(C)]
struct Layout {
    eccbytes: u32,
    eccpos: [u32; 64],
    oobavail: u32,
    oobfree: [Region; REGIONS],
}

/// Bits corrected and pages that could not be, since the chip was found.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub corrected: u32,
    pub failed: u32,
    bad_blocks: u32,
    table_blocks: u32,
}

nix::ioctl_write_ptr!(mem_get_bad_block, b'M', 11, i64);
nix::ioctl_write_ptr!(mem_set_bad_block, b'M', 12, i64);
nix::ioctl_read!(ecc_get_layout, b'M', 17, Layout);
nix::ioctl_read!(ecc_get_stats, b'M', 18, Stats);
nix::ioctl_write_ptr!(mem_erase64, b'M', 20, Erase64);
nix::ioctl_readwrite!(mem_read_oob64, b'M', 22, Oob64);
nix::ioctl_readwrite!(mem_write, b'M', 24, Transfer);
nix::ioctl_readwrite!(mem_read, b'M', 26, Read);

fn done(result: Result<i32, Errno>) -> io::Result<i32> {
    result.map_err(io::Error::from)
}

/// Whether the block at `at` is marked bad.
pub fn is_bad(file: &File, at: u64) -> io::Result<bool> {
    let at = at as i64;
    // SAFETY: the kernel reads eight bytes from a pointer that is valid for them.
    done(unsafe { mem_get_bad_block(file.as_raw_fd(), &raw const at) }).map(|bad| bad != 0)
}

/// Marks the block at `at` bad.
pub fn mark_bad(file: &File, at: u64) -> io::Result<()> {
    let at = at as i64;
    // SAFETY: as for `is_bad`.
    done(unsafe { mem_set_bad_block(file.as_raw_fd(), &raw const at) }).map(drop)
}

/// Erases `length` bytes from `start`, whole blocks.
pub fn erase(file: &File, start: u64, length: u64) -> io::Result<()> {
    let request = Erase64 { start, length };
    // SAFETY: the kernel reads the request from a pointer that is valid for it.
    done(unsafe { mem_erase64(file.as_raw_fd(), &raw const request) }).map(drop)
}

/// Programs a page: `data` is empty or the whole of it, `oob` its first free spare bytes.
pub fn write(file: &File, start: u64, data: &[u8], oob: &[u8]) -> io::Result<()> {
    let (data, oob) = ((data.as_ptr(), data.len()), (oob.as_ptr(), oob.len()));
    let mut request = Transfer::new(start, data, oob);
    // SAFETY: the request and the two buffers that it names outlive the call; the kernel only reads
    // the buffers, no more than their lengths.
    done(unsafe { mem_write(file.as_raw_fd(), &raw mut request) }).map(drop)
}

/// What a read has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Most bits corrected in one of the ECC's steps.
    pub corrected: u32,
    pub uncorrectable: bool,
}

/// Reads data, free spare bytes, or both. Fails with `ENOTTY` on kernels before 6.1.
pub fn read(file: &File, start: u64, data: &mut [u8], oob: &mut [u8]) -> io::Result<Bits> {
    let data = (data.as_mut_ptr().cast_const(), data.len());
    let oob = (oob.as_mut_ptr().cast_const(), oob.len());
    let mut request = Read {
        transfer: Transfer::new(start, data, oob),
        uncorrectable: 0,
        corrected: 0,
        max_bitflips: 0,
    };
    // SAFETY: the request and the two buffers that it names outlive the call, the buffers are
    // borrowed exclusively, and the kernel writes no more than their lengths.
    let done = unsafe { mem_read(file.as_raw_fd(), &raw mut request) };
    Ok(met(done.err(), &request)?)
}

/// What a read has met, by its end and by its figures. Not every driver gives figures.
fn met(error: Option<Errno>, request: &Read) -> Result<Bits, Errno> {
    // Two errors tell of the medium, and the buffers have been filled.
    match error {
        None | Some(Errno::EUCLEAN | Errno::EBADMSG) => {}
        Some(error) => return Err(error),
    }
    let corrected = request.max_bitflips;
    Ok(Bits {
        corrected: corrected.max(u32::from(error == Some(Errno::EUCLEAN))),
        uncorrectable: request.uncorrectable > 0 || error == Some(Errno::EBADMSG),
    })
}

/// Bits corrected so far.
pub fn stats(file: &File) -> io::Result<Stats> {
    let mut stats = Stats::default();
    // SAFETY: the kernel writes the four numbers to a pointer that is valid for them.
    done(unsafe { ecc_get_stats(file.as_raw_fd(), &raw mut stats) }).map(|_| stats)
}

/// Where the free spare bytes are: offsets and lengths.
pub fn free_regions(file: &File) -> io::Result<Vec<(usize, usize)>> {
    let mut layout = Layout {
        eccbytes: 0,
        eccpos: [0; 64],
        oobavail: 0,
        oobfree: [Region::default(); REGIONS],
    };
    // SAFETY: the kernel writes the layout to a pointer that is valid for it.
    done(unsafe { ecc_get_layout(file.as_raw_fd(), &raw mut layout) })?;
    let regions = layout.oobfree.iter().take_while(|r| r.length > 0);
    Ok(regions
        .map(|r| (r.offset as usize, r.length as usize))
        .collect())
}

/// Reads the first spare bytes of the page at `start`, in use by the driver or not.
pub fn read_oob(file: &File, start: u64, oob: &mut [u8]) -> io::Result<()> {
    let mut request = Oob64 {
        start,
        pad: 0,
        length: oob.len() as u32,
        to: oob.as_mut_ptr() as u64,
    };
    // SAFETY: the request and the buffer outlive the call, the buffer is borrowed exclusively, and
    // the kernel writes no more than its length.
    done(unsafe { mem_read_oob64(file.as_raw_fd(), &raw mut request) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mtd/mtd-abi.h` on a 64-bit machine.
    #[test]
    fn sizes_of_the_requests() {
        assert_eq!(size_of::<Erase64>(), 16);
        assert_eq!(size_of::<Oob64>(), 24);
        assert_eq!(size_of::<Transfer>(), 48);
        assert_eq!(size_of::<Read>(), 64);
        assert_eq!(size_of::<Layout>(), 328);
        assert_eq!(size_of::<Stats>(), 16);
    }

    /// A driver that gives no figures: what could not be corrected must not pass for data.
    #[test]
    fn a_page_that_cannot_be_corrected_is_not_clean() {
        let request = Read {
            transfer: Transfer::new(0, (std::ptr::null(), 0), (std::ptr::null(), 0)),
            uncorrectable: 0,
            corrected: 0,
            max_bitflips: 0,
        };
        let bits = |corrected, uncorrectable| {
            Ok(Bits {
                corrected,
                uncorrectable,
            })
        };
        assert_eq!(met(None, &request), bits(0, false));
        assert_eq!(met(Some(Errno::EUCLEAN), &request), bits(1, false));
        assert_eq!(met(Some(Errno::EBADMSG), &request), bits(0, true));
        assert_eq!(met(Some(Errno::EIO), &request), Err(Errno::EIO));
    }

    #[test]
    fn requests_to_another_device_fail() {
        let file = File::open("/dev/null").unwrap();
        let mut page = [0; 16];
        assert!(is_bad(&file, 0).is_err());
        assert!(mark_bad(&file, 0).is_err());
        assert!(erase(&file, 0, 16).is_err());
        assert!(write(&file, 0, &page, &[]).is_err());
        let error = read(&file, 0, &mut page, &mut []).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::ENOTTY as i32));
        assert!(stats(&file).is_err());
        assert!(free_regions(&file).is_err());
        assert!(read_oob(&file, 0, &mut page).is_err());
    }
}
