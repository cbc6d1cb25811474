//! A block device on NAND: a translation layer with a map by pages, for any disk file system.
//!
//! After H. J. Choi, S.-H. Lim, K. H. Park: *JFTL: A Flash Translation Layer Based on a Journal
//! Remapping for Flash Memory*, ACM Transactions on Storage 4(4), January 2009 (*the paper*).
//!
//! From the bottom up, each importing what stands above it alone:
//!
//! | module | what it is |
//! | --- | --- |
//! | `layout` | sizes that follow from the chip, and places in it |
//! | `record` | the pages of the log and the anchors, as bytes |
//! | `squeeze` | the code of a sector of the journal |
//! | `packed` | several such sectors in a page, as bytes |
//! | `ram` | the caller's slice: block table, places of map pages, cache |
//! | `memory` | sums and copies in RAM, which save reads |
//! | `journal` | what is known of the journal of a file system |
//! | `state` | the disk, and what its mechanisms keep in it |
//! | `place` | heads, free blocks, erases, tags |
//! | `map` | from sectors to pages |
//! | `log` | the log of changes, its blocks, snapshots and anchors |
//! | `pack` | several sectors of the journal in a page |
//! | `clean` | garbage, wear, rot, failing blocks |
//! | `session` | what every change passes through |
//! | `sector` | one sector, read and written |
//! | `ext` | finds the journal of ext3 and ext4 |
//! | `watch` | follows that journal, and elides writes |
//! | `remap` | the paper's interface for file systems that can call it |
//! | `scan` | finds the newest anchor and the end of the log |
//! | `recover` | what a mount after a cut does |
//! | `salvage` | mounts what can be read where a page of log or map cannot |
//! | `mount` | format, mount, orderly end |
//! | `disk` | read, write, trim, flush |
//! | `patrol` | reads what nobody asks for, and begins a rotting log anew |
//! | `inspect` | the checker |
//!
//! Methods are called downwards as well, but among `place`, `map`, `log` and `pack`. There a page
//! needs a block, and a block that is free needs the log to say so. A page of the log waits for the
//! page that is being packed.
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
//!
//! Without the feature `journals`, which is on by default, no journal is followed and nothing is
//! packed: for firmware whose file system has none.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "journals"), allow(dead_code))]

mod anchor;
mod clean;
mod disk;
mod error;
mod ext;
mod find;
mod inspect;
mod journal;
mod layout;
mod log;
mod map;
mod memory;
mod mount;
mod pack;
mod packed;
mod patrol;
mod place;
mod ram;
mod record;
mod recover;
mod remap;
mod salvage;
mod scan;
mod sector;
mod session;
mod squeeze;
mod state;
mod watch;

pub use error::Error;
pub use journal::JournalState;
pub use mount::{MapCache, ram_bytes};
pub use state::{Damage, Jftl, Stats};
