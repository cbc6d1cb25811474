//! A block device in a log over NOR flash with banks.
//!
//! After A. Kawaguchi, S. Nishioka, H. Motoda: *A Flash-Memory Based File System*, USENIX Winter
//! 1995 (*the paper*). Every write of a sector goes to a new block. A translation table in RAM says
//! where each sector is; it is rebuilt from the segment summaries at start. A cleaner moves what is
//! valid out of a segment and erases it, while other banks are read and written.
//!
//! | module | what it is |
//! | --- | --- |
//! | `layout` | where things are on the chip |
//! | `header` | a segment's header and the erase intents in it |
//! | `entry` | a block's information entry: its sector and the four flags |
//! | `ram` | the caller's slice: table, segments, banks, flag update queue |
//! | `disk` | read, write, trim, flush |
//! | `place` | banks, open segments, which block is written next |
//! | `erase` | erases under way, and the queue that waits for them |
//! | `clean` | the cleaner's steps |
//! | `policy` | which segment is cleaned, and when |
//! | `mount` | format, start, and what a power cut has left |
//! | `damage` | what a mount has found damaged, and what is lost by it |
//! | `inspect` | the checker |
//!
//! # Durability
//!
//! A sector is durable when its write returns; a trim when the next flush returns. After a power
//! cut each sector in flight holds its old contents or the new ones, whole. See `docs/logdisk.md`.
//!
//! # RAM
//!
//! The caller hands over one slice; [`ram_bytes`] says how large. For a chip of 16 MiB with a disk
//! of 14 MiB it is 63,208 bytes, besides the [`LogDisk`] itself (some 300 bytes).
//!
//! ```
//! use flashkit_logdisk::{Config, LogDisk, Shape, ram_bytes};
//! use flashkit_sim::nor::{SimNor, nor_preset};
//!
//! let shape = Shape { sector_size: 512, sectors: 28_672 };
//! let mut chip: SimNor = SimNor::new(nor_preset("nor-16m").unwrap());
//! LogDisk::format(&mut chip, &shape, 1).unwrap();
//! let mut ram = vec![0; ram_bytes::<SimNor>(16 << 20, 8, &shape, &Config::new()).unwrap()];
//! assert!(ram.len() <= 64 * 1024);
//! let mut disk = LogDisk::mount(chip, Config::new(), &mut ram).unwrap();
//! disk.write(7, &[0x55; 512]).unwrap();
//! let mut sector = [0; 512];
//! disk.read(7, &mut sector).unwrap();
//! assert_eq!(sector, [0x55; 512]);
//! ```

#![no_std]
#![forbid(unsafe_code)]

mod clean;
mod config;
mod damage;
mod disk;
mod entry;
mod erase;
mod error;
mod header;
mod inspect;
mod layout;
mod mount;
mod place;
mod policy;
mod ram;

pub use clean::{CLEAN_BLOCKS, Step};
pub use config::{Config, Separate, Shape, Start, Victim};
pub use damage::Damage;
pub use disk::{LogDisk, SegmentInfo, SegmentState, Stats};
pub use error::Error;
pub use mount::ram_bytes;
