//! A block device on NAND: a translation layer with a map by pages, for any disk file system.
//!
//! After H. J. Choi, S.-H. Lim, K. H. Park: *JFTL: A Flash Translation Layer Based on a Journal
//! Remapping for Flash Memory*, ACM Transactions on Storage 4(4), January 2009 (*the paper*).
//!
//! | module | what it is |
//! | --- | --- |
//! | `layout` | sizes that follow from the chip |
//! | `record` | the pages of the log and the anchors, as bytes |
//! | `ram` | the caller's slice: block table, places of map pages, cache |
//! | `map` | from sectors to pages |
//! | `place` | heads, free blocks, erases, tags |
//! | `log` | the log of changes, its blocks, snapshots and anchors |
//! | `clean` | garbage, wear, rot, failing blocks |
//! | `disk` | read, write, trim, flush |
//! | `mount` | format, mount, orderly end |
//! | `recover` | what a mount after a cut does |
//! | `salvage` | mounts what can be read where a page of log or map cannot |
//! | `watch` | follows the journal of a file system, and elides writes |
//! | `memory` | sums and copies in RAM, which save reads |
//! | `pack` | several sectors of the journal in a page |
//! | `packed` | such a page, as bytes |
//! | `squeeze` | the code of its sectors |
//! | `ext` | finds the journal of ext3 and ext4 |
//! | `remap` | the paper's interface for file systems that can call it |
//! | `inspect` | the checker |
//!
//! # Durability
//!
//! What was written or trimmed is durable when the next flush returns. After a power cut every
//! sector holds what it held at some moment since then, whole, and all sectors of the same
//! moment. See `docs/jftl.md`.
//!
//! ```
//! use flashkit_jftl::{Jftl, MapCache, ram_bytes};
//! use flashkit_nand::Nand;
//! use flashkit_sim::{SimNand, preset};
//!
//! let mut chip = SimNand::new(preset("w25n01gv").unwrap());
//! let mut ram = vec![0; ram_bytes(&chip.geometry(), MapCache::Pieces(4)).unwrap()];
//! Jftl::format(&mut chip, &mut ram, 1).unwrap();
//! let mut disk = Jftl::mount(chip, &mut ram).unwrap();
//! disk.write(7, &[0x55; 2048]).unwrap();
//! disk.flush().unwrap();
//! let mut sector = [0; 2048];
//! disk.read(7, &mut sector).unwrap();
//! assert_eq!(sector, [0x55; 2048]);
//! ```

#![no_std]
#![forbid(unsafe_code)]

mod clean;
mod disk;
mod error;
mod ext;
mod inspect;
mod layout;
mod log;
mod map;
mod memory;
mod mount;
mod pack;
mod packed;
mod place;
mod ram;
mod record;
mod recover;
mod remap;
mod salvage;
mod squeeze;
mod watch;

pub use disk::{Damage, Jftl, Stats};
pub use error::Error;
pub use mount::{MapCache, ram_bytes};
pub use watch::JournalState;
