//! The traces that come with this crate, stored compressed.
//!
//! `seq`: one file of 190 MiB. `postmark`: 1,300 files of 128 KiB, 30,000 creates and deletes, all
//! deleted. `small`: 5,000 files of 0.5 to 4 KB, then 15,000 rewrites and appends. `randupd`:
//! 20,000 overwrites of 4 KiB in 100 MiB; `randupd75`: 40,000 in 180 MiB. `append`: 20,000 appends
//! of 100 bytes.
//!
//! Four change many directories. `config`: 60 settings files replaced 12,000 times by a rename, in
//! 6 directories, beside 2,000 that rest. `tree`: directories in directories, with renames,
//! truncations and small appends. `mail`: 40 directories of mails that come, grow, are read and go.
//! `cache`: files of 256 directories that come and go on a chip 80 % full.

use crate::trace::{self, Line};

/// Name and compressed text of each trace.
const STORED: [(&str, &[u8]); 10] = [
    ("append", include_bytes!("../traces/append.trace.gz")),
    ("cache", include_bytes!("../traces/cache.trace.gz")),
    ("config", include_bytes!("../traces/config.trace.gz")),
    ("mail", include_bytes!("../traces/mail.trace.gz")),
    ("postmark", include_bytes!("../traces/postmark.trace.gz")),
    ("randupd", include_bytes!("../traces/randupd.trace.gz")),
    ("randupd75", include_bytes!("../traces/randupd75.trace.gz")),
    ("seq", include_bytes!("../traces/seq.trace.gz")),
    ("small", include_bytes!("../traces/small.trace.gz")),
    ("tree", include_bytes!("../traces/tree.trace.gz")),
];

/// The names of the traces.
pub fn names() -> impl Iterator<Item = &'static str> {
    STORED.iter().map(|(name, _)| *name)
}

/// The operations of a trace, or `None` when there is no such trace.
///
/// # Panics
/// Never: every stored trace parses.
pub fn open(name: &str) -> Option<Vec<Line>> {
    let (_, data) = STORED.iter().find(|(held, _)| *held == name)?;
    Some(trace::parse(*data).expect("the stored traces parse"))
}
