//! Simulated NAND and NOR chips: strict about their callers, nasty in their physics, exact in their
//! costs.
//!
//! [`SimNand`] is a chip in RAM or in an image file. It panics when the software above breaks a
//! promise of the [`flashkit_nand`] contract, and only then; faults of the medium are
//! reported as the contract says. A virtual clock advances by the chip's [`Timing`], so that a
//! run has a flash time that no noise of the machine changes.
//!
//! Wrappers are chips around chips and stack: [`PowerCut`] over [`Trace`] over [`Count`] over a
//! chip. [`Faults`] are the physics that goes wrong, all off by default; [`Tearable`] chips can
//! be cut in the middle of an operation; [`SimNand::rot`] spoils one page.
//!
//! NOR chips are in [`nor`], SPI NAND at command level in [`spi`].
//!
//! ```
//! use flashkit_nand::{Nand, PageAddr};
//! use flashkit_sim::{Cut, EraseTear, Metered, PowerCut, SimNand, Tear, preset};
//!
//! let chip = SimNand::new(preset("slc-256m").unwrap());
//! let cut = Cut { after: 1, program: Tear::Garbage, erase: EraseTear::Partial, seed: 7 };
//! let mut nand = PowerCut::new(chip, cut);
//! assert!(nand.program(PageAddr(0), b"safe", &[]).is_ok());
//! assert!(nand.program(PageAddr(1), b"torn", &[]).is_err());
//!
//! let mut chip = nand.into_inner();
//! let mut data = [0; 4];
//! assert!(chip.read(PageAddr(0), 0, &mut data, &mut []).unwrap().is_readable());
//! assert!(!chip.read(PageAddr(1), 0, &mut data, &mut []).unwrap().is_readable());
//! assert_eq!(chip.counters().time_ns, 2 * 252_800 + 2 * 77_800);
//! ```
//!
//! | module | what it is |
//! | --- | --- |
//! | `chip`, `fault`, `rot`, `tear` | a NAND chip, and what goes wrong with it |
//! | `preset` | chips by name, with the latencies of papers and data sheets |
//! | `bus` | what a SPI NAND and its host send each other, and how long that takes |
//! | `count`, `trace`, `powercut` | the wrappers |
//! | `backing`, `image`, `raw` | a chip in RAM or in a file; raw images of programmers |
//! | `host`, `journal` | an image when the host crashes |
//! | [`nor`] | NOR chips, their wrappers and images |
//! | [`spi`] | SPI NAND at command level, for drivers |
//! | `block`, `card`, `card_file` | SD cards and sectors |
//! | `rng` | random numbers that are the same on every machine |

#![forbid(unsafe_code)]

mod backing;
mod block;
mod bus;
mod card;
mod card_file;
mod chip;
mod count;
mod error;
mod fault;
mod fault_text;
mod host;
mod image;
mod journal;
pub mod nor;
mod powercut;
mod preset;
mod raw;
mod rng;
mod rot;
pub mod spi;
mod tear;
mod trace;

pub use bus::{Bus, SpiSpeed};
pub use card::{CARD_BLOCK, CardCut, CardError, CardLog, CardTiming, SimCard};
pub use card_file::CardFile;
pub use chip::SimNand;
pub use count::Count;
pub use error::SimError;
pub use fault::{Faults, FaultsError, Rate, Weak};
pub use flashkit_meter::{CardCounters, Counters, Metered, MeteredCard};
pub use host::TestHost;
pub use image::{Access, ImageError};
pub use powercut::{Cut, CutError, PowerCut};
pub use preset::{ChipSpec, DEFAULT_PRESET, Power, Preset, Timing, preset, presets};
pub use rng::Rng;
pub use rot::Rot;
pub use tear::{EraseTear, Tear, Tearable};
pub use trace::{OpKind, Outcome, Trace, TraceOp};
