//! Files that have lost their names while they are open.

use flashkit_vfs::{FileSystem, SetAttr};

use super::{Done, Stop, Work, time};
use crate::history::bytes::stamp;

/// So many at a time.
const MOST: usize = 8;

impl Work<'_, '_, '_> {
    /// Opens a file and removes its name, or goes on with one of those.
    pub(super) fn orphan(&mut self) -> Done {
        if self.rng.below(MOST as u64) < self.orphans.len() as u64 {
            return self.use_orphan();
        }
        let Some((at, f, attr)) = self.pick_regular()? else {
            return Ok(());
        };
        if attr.nlink > 1 {
            return Ok(());
        }
        let bytes = self.model.file(f).bytes().clone();
        let opened = self.fs.open(attr.ino);
        self.came(opened)?;
        if self.unlink_at(&at, f)? {
            self.model.settle_dir(at.0);
            self.orphans.push((attr.ino, bytes));
            return Ok(());
        }
        let released = self.fs.release(attr.ino);
        self.came(released).map(drop)
    }

    fn use_orphan(&mut self) -> Done {
        let n = self.rng.below(self.orphans.len() as u64) as usize;
        let (ino, mut bytes) = self.orphans.swap_remove(n);
        let from = self.rng.below(bytes.size + self.model.page);
        let len = 1 + self.length().min(bytes.size + self.model.page);
        let op = self.begin(format_args!("file {ino} without a name, {len} at {from}"));
        let done = match self.rng.below(8) {
            0 => None,
            1 => {
                bytes.resize(from);
                let set = SetAttr {
                    size: Some(from),
                    now: time(op),
                    ..SetAttr::default()
                };
                let set = self.fs.setattr(ino, &set);
                self.came(set)?.map(drop)
            }
            2..5 => {
                let mut data = vec![0; len as usize];
                stamp(op, from, &mut data);
                bytes.put(from, from + len, op);
                bytes.size = bytes.size.max(from + len);
                let written = self.fs.write(ino, from, &data, time(op));
                self.came(written)?
            }
            5 => {
                let synced = self.fs.fsync(ino);
                self.came(synced)?
            }
            _ => {
                let len = bytes.size.saturating_sub(from).min(len) as usize;
                let (mut seen, mut known) = (vec![0; len], vec![0; len]);
                let read = self.fs.read(ino, from, &mut seen);
                let read = self.came(read)?;
                bytes.read(from, &mut known);
                if read.is_some_and(|n| n != len || seen != known) {
                    return Err(Stop::Bad("it is not what was written".into()));
                }
                read.map(drop)
            }
        };
        if done.is_some() {
            self.orphans.push((ino, bytes));
            return Ok(());
        }
        // What has been done in part is not asked for.
        let released = self.fs.release(ino);
        self.came(released).map(drop)
    }
}
