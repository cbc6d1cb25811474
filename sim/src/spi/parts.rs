//! The simulated parts.

use super::ecc::EccCode::{
    self, Any, Cmd7c, Cmd7cHigh, Four, FourF0, Max30, One, SevenEight, SevenEightF0, Three2,
    Three7, Upper,
};
use super::part::CopyRange::{self, All, Nothing, Parity, ParityAndHalf};
use super::part::SpiPart;
use crate::Timing;

/// Page, spare, pages of a block, blocks.
type Shape = (u32, u32, u32, u32);

const G1: Shape = (2048, 64, 64, 1024);
const G2: Shape = (2048, 64, 64, 2048);
const G4: Shape = (2048, 64, 64, 4096);
const G1_128: Shape = (2048, 128, 64, 1024);
const G2_128: Shape = (2048, 128, 64, 2048);
const G4_128: Shape = (2048, 128, 64, 4096);
const G4_4K: Shape = (4096, 256, 64, 2048);

const SIX: &[(u32, u32)] = &[(2, 6), (18, 6), (34, 6), (50, 6)];
const FOURTEEN: &[(u32, u32)] = &[(2, 14), (18, 14), (34, 14), (50, 14)];
const EIGHT: &[(u32, u32)] = &[(1, 7), (16, 8), (32, 8), (48, 8)];
const TWO: &[(u32, u32)] = &[(2, 2), (34, 2), (66, 2), (98, 2)];
const FROM_1_TO_48: &[(u32, u32)] = &[(1, 47)];
const FROM_1_TO_64: &[(u32, u32)] = &[(1, 63)];
const FROM_1_TO_128: &[(u32, u32)] = &[(1, 127)];
const FROM_2_TO_64: &[(u32, u32)] = &[(2, 62)];
const FROM_2_TO_128: &[(u32, u32)] = &[(2, 126)];

const fn us(read: u64, program: u64, erase: u64) -> Timing {
    Timing {
        read_ns: read * 1_000,
        program_ns: program * 1_000,
        erase_ns: erase * 1_000,
    }
}

const fn part(
    name: &'static str,
    id: &'static [u8],
    (page_size, raw_spare, pages_per_block, blocks): Shape,
    runs: &'static [(u32, u32)],
    (code, ecc_bits): (EccCode, u32),
    copies: CopyRange,
) -> SpiPart {
    let timing = match id[0] {
        0xEF => us(60, 250, 2_000),
        0x2C => us(115, 240, 2_000),
        0xC2 => us(70, 440, 6_000),
        0x98 => us(300, 600, 7_000),
        0x0B => us(50, 650, 3_500),
        _ => us(80, 380, 3_200),
    };
    // Micron's parts of 4 Gbit with pages of 4 KiB read on behind a page at power-up.
    let buffer = match id[0] {
        0xEF => Some((0x08, true)),
        0x2C if page_size == 4096 => Some((0x01, false)),
        _ => None,
    };
    SpiPart {
        name,
        id,
        direct: false,
        page_size,
        raw_spare,
        pages_per_block,
        blocks,
        two_planes: false,
        runs,
        code,
        ecc_bits,
        copies,
        buffer,
        load_clears: id[0] == 0xEF,
        timing,
    }
}

const fn direct(part: SpiPart) -> SpiPart {
    SpiPart {
        direct: true,
        ..part
    }
}

const fn two_planes(part: SpiPart) -> SpiPart {
    SpiPart {
        two_planes: true,
        ..part
    }
}

/// All simulated parts.
#[rustfmt::skip]
pub static SPI_PARTS: [SpiPart; 59] = [
    part("W25N512GV", &[0xEF, 0xAA, 0x20], (2048, 64, 64, 512), SIX, (One, 1), All),
    part("W25N512GW", &[0xEF, 0xBA, 0x20], (2048, 64, 64, 512), SIX, (One, 1), All),
    part("W25N01GV", &[0xEF, 0xAA, 0x21], G1, SIX, (One, 1), All),
    part("W25N01GW", &[0xEF, 0xBA, 0x21], G1, SIX, (One, 1), All),
    part("W25N01KV", &[0xEF, 0xAE, 0x21], (2048, 96, 64, 1024), FOURTEEN, (Max30, 4), Nothing),
    part("W25N02KV", &[0xEF, 0xAA, 0x22], G2_128, FOURTEEN, (Max30, 8), All),
    part("W25N02KW", &[0xEF, 0xBA, 0x22], G2_128, FOURTEEN, (Max30, 8), Nothing),
    part("W25N04KV", &[0xEF, 0xAA, 0x23], G4_128, FOURTEEN, (Max30, 8), Nothing),
    part("W25N04KW", &[0xEF, 0xBA, 0x23], G4_128, FOURTEEN, (Max30, 8), Nothing),
    part("GD5F1GQ4UA", &[0xC8, 0xF1], G1, EIGHT, (SevenEight, 8), Parity),
    part("GD5F2GQ4UA", &[0xC8, 0xF2], G2, EIGHT, (SevenEight, 8), Parity),
    part("GD5F4GQ4UA", &[0xC8, 0xF4], G4, EIGHT, (SevenEight, 8), Parity),
    part("GD5F1GQ4UE", &[0xC8, 0xD1], G1_128, FROM_1_TO_64, (SevenEightF0, 4), Parity),
    part("GD5F1GQ4RE", &[0xC8, 0xC1], G1_128, FROM_1_TO_64, (SevenEightF0, 4), Parity),
    part("GD5F2GQ4UE", &[0xC8, 0xD2], G2_128, FROM_1_TO_64, (SevenEightF0, 4), Parity),
    part("GD5F2GQ4RE", &[0xC8, 0xC2], G2_128, FROM_1_TO_64, (SevenEightF0, 4), Parity),
    direct(part("GD5F1GQ4UF", &[0xC8, 0xB1, 0x48], G1_128, FROM_1_TO_64, (Three7, 8), Parity)),
    direct(part("GD5F4GQ4UC", &[0xC8, 0xB4, 0x68], G4_4K, FROM_1_TO_128, (Three7, 8), Parity)),
    part("GD5F1GQ5UE", &[0xC8, 0x51], G1_128, FROM_1_TO_64, (FourF0, 4), Parity),
    part("GD5F1GQ5RE", &[0xC8, 0x41], G1_128, FROM_1_TO_64, (FourF0, 4), Parity),
    part("GD5F2GQ5UE", &[0xC8, 0x52], G2_128, FROM_1_TO_64, (FourF0, 4), Parity),
    part("GD5F2GQ5RE", &[0xC8, 0x42], G2_128, FROM_1_TO_64, (FourF0, 4), Parity),
    part("GD5F4GQ6UE", &[0xC8, 0x55], G4_128, FROM_1_TO_64, (FourF0, 4), ParityAndHalf),
    part("GD5F1GM7UE", &[0xC8, 0x91], G1_128, FROM_1_TO_64, (SevenEightF0, 8), Parity),
    part("GD5F1GM7RE", &[0xC8, 0x81], G1_128, FROM_1_TO_64, (SevenEightF0, 8), Parity),
    part("GD5F2GM7UE", &[0xC8, 0x92], G2_128, FROM_1_TO_64, (SevenEightF0, 8), Parity),
    part("GD5F2GM7RE", &[0xC8, 0x82], G2_128, FROM_1_TO_64, (SevenEightF0, 8), Parity),
    part("GD5F4GM8UE", &[0xC8, 0x95], G4_128, FROM_1_TO_64, (SevenEightF0, 8), ParityAndHalf),
    part("MT29F1G01ABAFD", &[0x2C, 0x14], G1_128, FROM_2_TO_64, (Three2, 8), All),
    part("MT29F1G01ABBFD", &[0x2C, 0x15], G1_128, FROM_2_TO_64, (Three2, 8), All),
    two_planes(part("MT29F2G01ABAGD", &[0x2C, 0x24], G2_128, FROM_2_TO_64, (Three2, 8), Parity)),
    two_planes(part("MT29F2G01ABBGD", &[0x2C, 0x25], G2_128, FROM_2_TO_64, (Three2, 8), Parity)),
    part("MT29F4G01ABAFD", &[0x2C, 0x34], G4_4K, FROM_2_TO_128, (Three2, 8), All),
    part("MT29F4G01ABBFD", &[0x2C, 0x35], G4_4K, FROM_2_TO_128, (Three2, 8), All),
    part("MX35LF1GE4AB", &[0xC2, 0x12], G1, FROM_2_TO_64, (Cmd7c, 4), Nothing),
    two_planes(part("MX35LF2GE4AB", &[0xC2, 0x22], G2, FROM_2_TO_64, (Any, 4), Nothing)),
    two_planes(part("MX35LF2G14AC", &[0xC2, 0x20], G2, FROM_2_TO_64, (Cmd7c, 4), Nothing)),
    part("MX35LF2GE4AD", &[0xC2, 0x26], G2, FROM_2_TO_64, (Cmd7cHigh, 8), All),
    part("MX35LF4GE4AD", &[0xC2, 0x37], (4096, 128, 64, 2048), FROM_2_TO_128, (Cmd7cHigh, 8), All),
    part("MX35UF1GE4AC", &[0xC2, 0x92], G1, FROM_2_TO_64, (Cmd7c, 4), Nothing),
    part("MX35UF2GE4AC", &[0xC2, 0xA2], G2, FROM_2_TO_64, (Cmd7c, 4), Nothing),
    part("TC58CVG0S3HRAIG", &[0x98, 0xC2], G1_128, FROM_2_TO_64, (Max30, 8), Nothing),
    part("TC58CVG1S3HRAIG", &[0x98, 0xCB], G2_128, FROM_2_TO_64, (Max30, 8), Nothing),
    part("TC58CVG2S0HRAIG", &[0x98, 0xCD], G4_4K, FROM_2_TO_128, (Max30, 8), Nothing),
    part("TC58CVG0S3HRAIJ", &[0x98, 0xE2], G1_128, FROM_2_TO_64, (Max30, 8), Nothing),
    part("TC58CVG1S3HRAIJ", &[0x98, 0xEB], G2_128, FROM_2_TO_64, (Max30, 8), Nothing),
    part("TC58CVG2S0HRAIJ", &[0x98, 0xED], G4_4K, FROM_2_TO_128, (Max30, 8), Nothing),
    part("TH58CVG3S0HRAIJ", &[0x98, 0xE4], (4096, 256, 64, 4096), FROM_2_TO_128, (Max30, 8), Nothing),
    part("XT26G01A", &[0x0B, 0xE1], G1, FROM_1_TO_48, (Four, 8), Nothing),
    part("XT26G02A", &[0x0B, 0xE2], G2, FROM_1_TO_48, (Four, 8), Nothing),
    part("XT26G04A", &[0x0B, 0xE3], (2048, 64, 128, 2048), FROM_1_TO_48, (Four, 8), Nothing),
    part("XT26G01D", &[0x0B, 0x31], G1_128, FROM_2_TO_64, (Upper, 8), Nothing),
    part("XT26G02D", &[0x0B, 0x32], G2_128, FROM_2_TO_64, (Upper, 8), Nothing),
    part("XT26G04D", &[0x0B, 0x33], G4_4K, FROM_2_TO_128, (Upper, 8), Nothing),
    part("F35SQA001G", &[0xCD, 0x71, 0x71], G1, FROM_2_TO_64, (One, 1), Nothing),
    part("F35SQA002G", &[0xCD, 0x72, 0x72], G2, FROM_2_TO_64, (One, 1), Nothing),
    part("F50L1G41LB", &[0xC8, 0x01, 0x7F, 0x7F, 0x7F], G1, SIX, (Any, 1), Nothing),
    part("F50D1G41LB", &[0xC8, 0x11, 0x7F, 0x7F, 0x7F], G1, SIX, (Any, 1), Nothing),
    part("F50D2G41KA", &[0xC8, 0x51, 0x7F, 0x7F, 0x7F], G2_128, TWO, (Any, 8), Nothing),
];

/// The simulated part of this name.
pub fn spi_part(name: &str) -> Option<&'static SpiPart> {
    SPI_PARTS.iter().find(|part| part.name == name)
}
