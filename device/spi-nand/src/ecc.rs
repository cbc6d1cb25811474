//! What the ECC bits of the status mean, maker by maker.
//!
//! A code often stands for several counts. The decoder says the highest that it may mean, so that
//! data is moved early rather than late. A code that the data sheet reserves is uncorrectable: what
//! it stands for is not known, and data that may be wrong must not pass for right.

use flashkit_nand::ReadStatus;

/// Which further register says how many bits were corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extended {
    /// A feature register.
    Feature(u8),
    /// The command 7Ch and a dummy byte.
    EccStatus,
}

/// A family of ECC codes. Bits are those of the status, register C0h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecc {
    /// Bits 5, 4: 00 none, 01 one bit, others uncorrectable. Chips that correct one bit.
    OneBit,
    /// Bits 5, 4: 00 none, 01 corrected, 10 uncorrectable, 11 reserved.
    TwoBits,
    /// Bits 5, 4: 00 none, 01 one to seven, 10 uncorrectable, 11 eight. GigaDevice Q4xA.
    SevenOrEight,
    /// Bits 5, 4: 00 none, 01 up to seven, told by bits 5, 4 of register F0h: 00 up to four, 01
    /// five, 10 six, 11 seven; 10 uncorrectable, 11 eight. GigaDevice Q4UE, GM7, GM8.
    UpToEightF0,
    /// Bits 5, 4: 00 none, 01 one to four, one more than bits 5, 4 of register F0h say; 10
    /// uncorrectable, 11 reserved. GigaDevice Q5, Q6.
    UpToFourF0,
    /// Bits 6 to 4: 0 none, 1 up to three, 2 to 6 two more each, 7 uncorrectable. GigaDevice Q4UF,
    /// Q4UC.
    Counted,
    /// Bits 6 to 4: 0 none, 1 up to three, 2 uncorrectable, 3 up to six, 5 up to eight; others
    /// reserved. Micron.
    ThreeBits,
    /// Bits 5, 4: 00 none, 01 and 11 corrected, as many as the upper half of register 30h says; 10
    /// uncorrectable. Winbond KV, Kioxia.
    Register30,
    /// Bits 5, 4: 00 none, 01 corrected, as many as the lower half of what the command 7Ch reads;
    /// 10 uncorrectable, 11 reserved. Macronix AB, AC.
    Command7c,
    /// The same, and 11 is corrected as well: a threshold was reached. Macronix AD.
    Command7cOrThreshold,
    /// Bits 5 to 2: 0 none, 1 to 7 as many, 8 uncorrectable, 12 eight; others reserved. XTX A.
    FourBits,
    /// Bits 5, 4: 00 none, 01 up to four and as many more as bits 7, 6 say; 10 uncorrectable, 11
    /// eight. XTX D.
    UpperBits,
}

impl Ecc {
    /// The register that [`Ecc::decode`] needs for this status.
    pub(crate) fn extended(self, status: u8) -> Option<Extended> {
        let code = status >> 4 & 3;
        match self {
            Ecc::UpToEightF0 | Ecc::UpToFourF0 if code == 1 => Some(Extended::Feature(0xF0)),
            Ecc::Register30 if code & 1 == 1 => Some(Extended::Feature(0x30)),
            Ecc::Command7c if code == 1 => Some(Extended::EccStatus),
            Ecc::Command7cOrThreshold if code & 1 == 1 => Some(Extended::EccStatus),
            _ => None,
        }
    }

    /// What a read was, by the status and, where one is needed, by what the further register says.
    /// `most` is what the chip corrects at most.
    pub(crate) fn decode(self, status: u8, extended: u8, most: u8) -> ReadStatus {
        let (two, three) = (status >> 4 & 3, status >> 4 & 7);
        // A count that cannot be is not believed.
        let or_most = |count: u8| {
            if (1..=most).contains(&count) {
                count
            } else {
                most
            }
        };
        let corrected = match (self, two) {
            (Ecc::Counted, _) => match three {
                0 => 0,
                1 => 3,
                7 => return ReadStatus::Uncorrectable,
                code => code + 2,
            },
            (Ecc::ThreeBits, _) => match three {
                0 => 0,
                1 => 3,
                3 => 6,
                5 => 8,
                _ => return ReadStatus::Uncorrectable,
            },
            (Ecc::FourBits, _) => match status >> 2 & 15 {
                12 => 8,
                count @ 0..8 => count,
                _ => return ReadStatus::Uncorrectable,
            },
            (_, 0) => 0,
            (Ecc::OneBit, 1) => 1,
            (Ecc::TwoBits, 1) => most,
            (Ecc::SevenOrEight, 1) => 7,
            (Ecc::UpToEightF0, 1) => 4 + (extended >> 4 & 3),
            (Ecc::UpToFourF0, 1) => 1 + (extended >> 4 & 3),
            (Ecc::UpperBits, 1) => 4 + (status >> 6),
            (Ecc::SevenOrEight | Ecc::UpToEightF0 | Ecc::UpperBits, 3) => 8,
            (Ecc::Register30, 1 | 3) => or_most(extended >> 4),
            (Ecc::Command7c, 1) | (Ecc::Command7cOrThreshold, 1 | 3) => or_most(extended & 15),
            _ => return ReadStatus::Uncorrectable,
        };
        match corrected {
            0 => ReadStatus::Clean,
            bits => ReadStatus::Corrected(u32::from(bits)),
        }
    }
}
