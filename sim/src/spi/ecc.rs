//! How each maker's chips tell of flipped bits.

use flashkit_nand::ReadStatus;

/// A way to tell of flipped bits in the status register, and in a further one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EccCode {
    /// Two bits, 01 for the one bit that is corrected.
    One,
    /// Two bits, 01 for any number.
    Any,
    /// Two bits, 01 for 1 to 7, 11 for 8.
    SevenEight,
    /// The same, and register F0h for what is between 4 and 7.
    SevenEightF0,
    /// Two bits, 01 for 1 to 4, and register F0h for how many.
    FourF0,
    /// Three bits: 1 to 3, 4, 5, 6, 7, 8 corrected, and 7 for too many.
    Three7,
    /// Three bits: 1 for 1 to 3, 3 for 4 to 6, 5 for 7 and 8, and 2 for too many.
    Three2,
    /// Two bits, and the exact number in the upper half of register 30h. 11 from 5 bits on.
    Max30,
    /// Two bits, and the exact number in what command 7Ch reads.
    Cmd7c,
    /// The same, and 11 from 5 bits on.
    Cmd7cHigh,
    /// Four bits from bit 2 on: the number, 12 for 8, 8 for too many.
    Four,
    /// Two bits, and in bits 7 and 6 what is between 4 and 7; 11 for 8.
    Upper,
}

impl EccCode {
    /// The feature register that tells more, if there is one.
    pub(crate) fn register(self) -> Option<u8> {
        match self {
            EccCode::SevenEightF0 | EccCode::FourF0 => Some(0xF0),
            EccCode::Max30 => Some(0x30),
            _ => None,
        }
    }

    /// Whether there is a command 7Ch.
    pub(crate) fn has_command(self) -> bool {
        matches!(self, EccCode::Cmd7c | EccCode::Cmd7cHigh)
    }

    /// The bits of the status, and of the further register.
    pub fn encode(self, read: ReadStatus) -> (u8, u8) {
        let bits = match read {
            ReadStatus::Clean => return (0, 0),
            ReadStatus::Uncorrectable => {
                return match self {
                    EccCode::Three7 => (0x70, 0),
                    EccCode::Max30 => (0x20, 0xF0),
                    EccCode::Cmd7c | EccCode::Cmd7cHigh => (0x20, 0x0F),
                    _ => (0x20, 0),
                };
            }
            ReadStatus::Corrected(bits) => bits as u8,
        };
        let from_4 = bits.clamp(4, 7) - 4;
        match self {
            EccCode::One | EccCode::Any => (0x10, 0),
            EccCode::SevenEight if bits < 8 => (0x10, 0),
            EccCode::SevenEightF0 if bits < 8 => (0x10, from_4 << 4),
            EccCode::Upper if bits < 8 => (0x10 | from_4 << 6, 0),
            EccCode::SevenEight | EccCode::SevenEightF0 | EccCode::Upper => (0x30, 0),
            EccCode::FourF0 => (0x10, (bits - 1) << 4),
            EccCode::Three7 => ((bits.max(3) - 2) << 4, 0),
            EccCode::Three2 if bits < 4 => (0x10, 0),
            EccCode::Three2 if bits < 7 => (0x30, 0),
            EccCode::Three2 => (0x50, 0),
            EccCode::Max30 => (if bits < 5 { 0x10 } else { 0x30 }, bits << 4 | 1),
            EccCode::Cmd7cHigh if bits > 4 => (0x30, bits << 4 | bits),
            EccCode::Cmd7c | EccCode::Cmd7cHigh => (0x10, bits << 4 | bits),
            EccCode::Four if bits < 8 => (bits << 2, 0),
            EccCode::Four => (0x30, 0),
        }
    }
}
