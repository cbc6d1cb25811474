//! A raw NAND chip whose page data is encrypted: a [`Nand`] around a [`Nand`].
//!
//! XTS-AES, the mode of IEEE 1619 for storage, with a key of 32 bytes (AES-128) or 64 (AES-256)
//! from the caller. It needs no room on flash, so what is above does not change. Erased pages read
//! as erased. Spare bytes, and with them FlashLight's tags, are not encrypted.
//!
//! It protects what files hold, and their names, from whoever reads the chip. It does not protect:
//!
//! * how much is stored, which pages are written when, and which units of 64 bytes have changed;
//! * what tags say: numbers of files, pages and volumes, and a checksum of 32 bits of the data
//!   before encryption, which a guess of a page's contents can be checked with;
//! * against changes: who can write the chip can put back old pages, or make 16 bytes noise, and is
//!   not found out by this crate;
//! * the key, which is in RAM while the chip is in use.
//!
//! # Costs
//! No flash operation more. A read of a few bytes moves the units of 64 bytes that these are in,
//! and a program is padded to whole ones. RAM: a page of the caller's, and about 1 KB for the key.
//! Of the processor, five AES blocks for each 64 bytes.
//!
//! # Power cuts
//! As without it, but for one thing: where a page that was cut reads as a mixture of old and new
//! bits, whole blocks of 16 bytes of it are noise. Who checks a checksum sees no difference.
//!
//! ```
//! use flashkit_nand::{Nand, PageAddr};
//! use flashkit_nand_xts::XtsNand;
//! use flashkit_sim::{SimNand, preset};
//!
//! let chip = SimNand::new(preset("w25n01gv").unwrap());
//! let key: Vec<u8> = (0..64).collect();
//! let mut page = [0; 2048];
//! let mut nand = XtsNand::new(chip, &key, &mut page).unwrap();
//! nand.program(PageAddr(0), b"secret", &[]).unwrap();
//! let mut data = [0; 6];
//! nand.read(PageAddr(0), 0, &mut data, &mut []).unwrap();
//! assert_eq!(&data, b"secret");
//!
//! let mut chip = nand.into_inner();
//! chip.read(PageAddr(0), 0, &mut data, &mut []).unwrap();
//! assert_ne!(&data, b"secret");
//! ```
//!
//! | module | what it is |
//! | --- | --- |
//! | `xts` | the cipher of a page |

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod xts;

pub use xts::{UNIT, Xts, XtsError};

use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};

/// The largest head of a page for which only what is used is read.
const HEAD_MAX: usize = 2 * UNIT;

/// A chip whose page data is encrypted. `'b` is for how long the page of RAM is lent.
#[derive(Debug)]
pub struct XtsNand<'b, N> {
    inner: N,
    xts: Xts,
    page: &'b mut [u8],
}

impl<'b, N: Nand> XtsNand<'b, N> {
    /// Around a chip, with a key of 32 or 64 bytes and a page of RAM.
    ///
    /// A wrong key cannot be told from a chip with something else on it: what is above finds
    /// nothing of its own.
    ///
    /// # Errors
    /// Another key, or less RAM.
    pub fn new(inner: N, key: &[u8], page: &'b mut [u8]) -> Result<Self, XtsError> {
        let size = inner.geometry().page_size() as usize;
        let page = page.get_mut(..size).ok_or(XtsError::RamTooSmall)?;
        let xts = Xts::new(key)?;
        Ok(XtsNand { inner, xts, page })
    }

    /// The chip.
    pub fn inner(&self) -> &N {
        &self.inner
    }

    /// The chip, as it is.
    pub fn inner_mut(&mut self) -> &mut N {
        &mut self.inner
    }

    /// The chip.
    pub fn into_inner(self) -> N {
        self.inner
    }

    /// The chip, and what is programmed for these bytes of a page: for who does that in another
    /// way than [`Nand::program`].
    pub fn sealed(&mut self, page: PageAddr, data: &[u8]) -> (&mut N, &[u8]) {
        let whole = data.len().next_multiple_of(UNIT);
        let bytes = &mut self.page[..whole];
        bytes[..data.len()].copy_from_slice(data);
        bytes[data.len()..].fill(0xFF);
        self.xts.seal(&self.inner.geometry(), page, 0, bytes);
        (&mut self.inner, bytes)
    }
}

impl<N: Nand> Nand for XtsNand<'_, N> {
    type Error = N::Error;

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn correctable_bits(&self) -> u32 {
        self.inner.correctable_bits()
    }

    /// Reads the units that the bytes are in.
    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, N::Error> {
        if data.is_empty() {
            return self.inner.read(page, offset, data, spare);
        }
        let before = offset as usize % UNIT;
        let from = offset as usize - before;
        let units = &mut self.page[..(before + data.len()).next_multiple_of(UNIT)];
        let status = self.inner.read(page, from as u32, units, spare)?;
        if status.is_readable() {
            self.xts.open(&self.inner.geometry(), page, from, units);
            data.copy_from_slice(&units[before..before + data.len()]);
        }
        Ok(status)
    }

    /// Reads the units that are used.
    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, N::Error> {
        let geometry = self.inner.geometry();
        let head_units = head.next_multiple_of(UNIT);
        if head_units > HEAD_MAX {
            return self.read(page, 0, data, &mut []);
        }
        let (xts, units) = (
            &self.xts,
            &mut self.page[..data.len().next_multiple_of(UNIT)],
        );
        let sealed_used = |sealed: &[u8]| {
            let mut plain = [0; HEAD_MAX];
            let plain = &mut plain[..head_units];
            plain.copy_from_slice(sealed);
            xts.open(&geometry, page, 0, plain);
            used(&plain[..head]).next_multiple_of(UNIT)
        };
        let status = self
            .inner
            .read_used(page, units, head_units, &sealed_used)?;
        if status.is_readable() {
            let (first, rest) = units.split_at_mut(head_units);
            self.xts.open(&geometry, page, 0, first);
            let wanted = used(&first[..head]).clamp(head, data.len());
            let more = wanted.saturating_sub(head_units).next_multiple_of(UNIT);
            self.xts
                .open(&geometry, page, head_units, &mut rest[..more]);
            data[..wanted].copy_from_slice(&units[..wanted]);
        }
        Ok(status)
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, N::Error> {
        let (inner, sealed) = self.sealed(page, data);
        inner.program(page, sealed, spare)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, N::Error> {
        self.inner.erase(block)
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, N::Error> {
        self.inner.is_bad(block)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), N::Error> {
        self.inner.mark_bad(block)
    }

    fn flush(&mut self) -> Result<(), N::Error> {
        self.inner.flush()
    }
}
