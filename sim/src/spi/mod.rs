//! A SPI NAND at command level: `embedded_hal::spi::SpiDevice` over a simulated chip.
//!
//! What is below is any [`Tearable`](crate::Tearable) chip; what is above is a driver. Every byte
//! of every transaction is looked at. What a data sheet does not allow is
//! [`SpiNandError::Protocol`]: an unknown command, one that ends too early or goes on too long, one
//! while the chip is busy, a program without a write enable, a column behind the page, a copy
//! between pages that the chip does not copy between, spare bytes that are the ECC's.
//!
//! | what | how |
//! | --- | --- |
//! | time | bytes and [delays](SpiDelay) move a virtual clock; the chip is busy until its time |
//! | failures | those of the chip below: P_FAIL, E_FAIL, flipped bits in each maker's code |
//! | protection | all blocks are locked at power-up: a program or an erase fails |
//! | power | [cut](SpiNandChip::cut_after) after any byte; what the array is doing then is torn |
//! | the bus | [counted](SpiNandChip::count) and clocked, in MHz and lanes |
//!
//! With the chip's ECC off a page reads as it is in the array: flipped bits stay flipped. Its
//! parity bytes hold a pattern once the page is programmed.
//!
//! | module | what it is |
//! | --- | --- |
//! | `chip` | [`SpiNandChip`]: bytes, commands, registers |
//! | `array` | what a command has the array do, and when that is done |
//! | `ecc` | [`EccCode`]: the makers' codes |
//! | `part`, `parts` | [`SpiPart`], and the table of them |
//! | `clock` | time and counts |

mod array;
mod chip;
mod clock;
mod ecc;
mod part;
mod parts;
#[cfg(test)]
mod tests;

pub use crate::SpiSpeed;
pub use chip::{SpiCut, SpiNandChip, SpiNandError};
pub use clock::{BusCount, SpiDelay};
pub use ecc::EccCode;
pub use part::{CopyRange, SpiPart, seal};
pub use parts::{SPI_PARTS, spi_part};
