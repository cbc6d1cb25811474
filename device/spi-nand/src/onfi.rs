//! The parameter page of ONFI: what a chip says of itself.
//!
//! Three copies of 256 bytes, one behind the other. Of each the driver uses:
//!
//! | bytes | what |
//! | --- | --- |
//! | 0 to 3 | `ONFI` |
//! | 44 to 63 | the part's name, with spaces behind |
//! | 80 to 83 | data bytes of a page |
//! | 84, 85 | spare bytes of a page |
//! | 92 to 95 | pages of a block |
//! | 96 to 99 | blocks of a LUN |
//! | 100 | LUNs |
//! | 112 | bits that the ECC must correct |
//! | 254, 255 | CRC-16 of the bytes before |
//!
//! Numbers have their lowest byte first.

use crate::Part;

/// Bytes of a copy.
pub(crate) const COPY: u16 = 256;
/// Copies.
pub(crate) const COPIES: u16 = 3;
/// Bytes that are read at a time. No field lies across two such pieces.
pub(crate) const PIECE: usize = 32;

/// What a chip's parameter page says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Onfi {
    /// The part's name, with spaces behind.
    pub model: [u8; 20],
    /// Data bytes of a page.
    pub page_size: u32,
    /// Spare bytes of a page, as the chip has them.
    pub raw_spare: u16,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Blocks, of all LUNs.
    pub blocks: u32,
    /// Bits in 512 bytes that the host's ECC must correct; 0 with some chips that correct
    /// themselves.
    pub ecc_bits: u8,
}

impl Onfi {
    /// Whether a row of the table can be that of the chip which says this.
    ///
    /// More spare bytes than the row has are no contradiction: some parts say what they have with
    /// their own ECC off.
    pub fn agrees_with(&self, part: &Part) -> bool {
        self.page_size == part.page_size
            && self.pages_per_block == part.pages_per_block
            && self.blocks == part.blocks
            && part.spare_end() <= u32::from(self.raw_spare)
    }
}

impl core::fmt::Display for Onfi {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("its parameter page says ")?;
        let last = self.model.iter().rposition(|byte| *byte != b' ');
        for byte in self.model.iter().take(last.map_or(0, |last| last + 1)) {
            let shown = byte.is_ascii_graphic() || *byte == b' ';
            write!(f, "{}", if shown { char::from(*byte) } else { '?' })?;
        }
        write!(
            f,
            ", {} blocks of {} pages of {} + {} bytes",
            self.blocks, self.pages_per_block, self.page_size, self.raw_spare
        )
    }
}

/// Reads one copy, piece by piece.
pub(crate) struct Reader {
    onfi: Onfi,
    crc: u16,
    stored: u16,
    signed: bool,
}

impl Reader {
    pub(crate) fn new() -> Reader {
        Reader {
            onfi: Onfi::default(),
            crc: 0x4F4E,
            stored: 0,
            signed: false,
        }
    }

    /// Takes the piece of this number. Whether this can still be a parameter page.
    pub(crate) fn take(&mut self, number: u16, piece: &[u8; PIECE]) -> bool {
        let last = number == COPY / PIECE as u16 - 1;
        let covered = if last { PIECE - 2 } else { PIECE };
        for byte in piece.iter().take(covered) {
            self.crc = crc16(self.crc, *byte);
        }
        match number {
            0 => self.signed = piece.starts_with(b"ONFI"),
            1 => {
                for (to, from) in self.onfi.model.iter_mut().zip(piece.iter().skip(12)) {
                    *to = *from;
                }
            }
            2 => {
                self.onfi.page_size = number_at(piece, 16, 4);
                self.onfi.raw_spare = number_at(piece, 20, 2) as u16;
                self.onfi.pages_per_block = number_at(piece, 28, 4);
            }
            3 => {
                let luns = number_at(piece, 4, 1);
                self.onfi.blocks = number_at(piece, 0, 4).saturating_mul(luns);
                self.onfi.ecc_bits = number_at(piece, 16, 1) as u8;
            }
            _ => {}
        }
        if last {
            self.stored = number_at(piece, PIECE - 2, 2) as u16;
        }
        self.signed
    }

    /// What the copy says, if it is one.
    pub(crate) fn end(self) -> Option<Onfi> {
        (self.signed && self.crc == self.stored).then_some(self.onfi)
    }
}

fn number_at(piece: &[u8; PIECE], at: usize, bytes: usize) -> u32 {
    let field = piece.iter().skip(at).take(bytes);
    field.rev().fold(0, |n, byte| n << 8 | u32::from(*byte))
}

/// CRC-16 with the polynomial 0x8005, the highest bit first.
fn crc16(crc: u16, byte: u8) -> u16 {
    (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
        let carry = crc & 0x8000 != 0;
        crc << 1 ^ if carry { 0x8005 } else { 0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CRC that ONFI takes is the one known as CRC-16/UMTS (check value 0xFEE8), begun at
    /// 0x4F4E.
    #[test]
    fn crc_of_a_known_text() {
        let crc = b"123456789".iter().fold(0, |crc, byte| crc16(crc, *byte));
        assert_eq!(crc, 0xFEE8);
    }

    fn page() -> [u8; 256] {
        let mut page = [0; 256];
        page[..4].copy_from_slice(b"ONFI");
        page[44..64].copy_from_slice(b"A-PART              ");
        page[80..84].copy_from_slice(&2048u32.to_le_bytes());
        page[84..86].copy_from_slice(&64u16.to_le_bytes());
        page[92..96].copy_from_slice(&64u32.to_le_bytes());
        page[96..100].copy_from_slice(&1024u32.to_le_bytes());
        (page[100], page[112]) = (2, 1);
        let crc = page[..254].iter().fold(0x4F4E, |crc, b| crc16(crc, *b));
        page[254..].copy_from_slice(&crc.to_le_bytes());
        page
    }

    fn read(page: &[u8; 256]) -> Option<Onfi> {
        let mut reader = Reader::new();
        for (number, piece) in (0..).zip(page.chunks_exact(PIECE)) {
            reader.take(number, piece.try_into().unwrap());
        }
        reader.end()
    }

    #[test]
    fn a_page_is_read_field_by_field() {
        let onfi = read(&page()).unwrap();
        let model = *b"A-PART              ";
        let expected = Onfi {
            model,
            page_size: 2048,
            raw_spare: 64,
            pages_per_block: 64,
            blocks: 2048,
            ecc_bits: 1,
        };
        assert_eq!(onfi, expected);
    }

    #[test]
    fn any_flipped_bit_is_found() {
        for bit in 0..256 * 8 {
            let mut page = page();
            page[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&page), None, "bit {bit}");
        }
    }
}
