//! What every file must hold, known from the operations alone.

use std::collections::BTreeMap;
use std::path::Path;

use flashkit_vfs::Measured;

use crate::content::Key;
use crate::store::{DirStore, FsStore, Store};

/// What a replay must have left behind.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    entries: BTreeMap<String, Entry>,
    /// Nothing else was there, so nothing else may be there now.
    only: bool,
}

#[derive(Clone, Debug)]
enum Entry {
    Dir,
    File(Extents),
}

/// The contents of a file: who wrote which range. What is in no range is zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents {
    pub(crate) size: u64,
    /// By start: the end, and what was written.
    ranges: BTreeMap<u64, (u64, Key)>,
}

impl Extents {
    /// Forgets a range, so that it reads as zeros.
    fn clear(&mut self, start: u64, end: u64) {
        // The range that reaches in from below keeps its head, and its tail if it goes beyond.
        if let Some((&low, &(high, key))) = self.ranges.range(..start).next_back()
            && high > start
        {
            self.ranges.insert(low, (start, key));
            if high > end {
                self.ranges.insert(end, (high, key));
            }
        }
        while let Some((&low, &(high, key))) = self.ranges.range(start..end).next() {
            self.ranges.remove(&low);
            if high > end {
                self.ranges.insert(end, (high, key));
            }
        }
    }

    fn write(&mut self, start: u64, len: u64, key: Key) {
        let end = start + len;
        if len > 0 {
            self.clear(start, end);
            self.ranges.insert(start, (end, key));
            self.size = self.size.max(end);
        }
    }

    fn resize(&mut self, size: u64) {
        if size < self.size {
            self.clear(size, self.size);
        }
        self.size = size;
    }

    /// The first wrong byte of `data`, read from `offset` on.
    pub(crate) fn mismatch(&self, offset: u64, data: &[u8]) -> Option<u64> {
        let end = offset + data.len() as u64;
        let part = |from: u64, to: u64| &data[(from - offset) as usize..(to - offset) as usize];
        let zeros = |from: u64, to: u64| {
            part(from, to)
                .iter()
                .position(|byte| *byte != 0)
                .map(|place| from + place as u64)
        };
        let mut at = offset;
        let below = self.ranges.range(..=offset).next_back();
        let above = self.ranges.range(offset + 1..end.max(offset + 1));
        for (&low, &(high, key)) in below.into_iter().chain(above) {
            let (low, high) = (low.max(at), high.min(end));
            if low >= high {
                continue;
            }
            if let Some(place) = zeros(at, low).or_else(|| key.mismatch(low, part(low, high))) {
                return Some(place);
            }
            at = high;
        }
        zeros(at, end)
    }
}

impl Expected {
    /// Starts from what `store` holds. A file that is there already is not checked until it has
    /// been created anew.
    pub(crate) fn new(store: &mut impl Store) -> Result<Expected, String> {
        let found = store.list().map_err(|error| error.to_string())?;
        Ok(Expected {
            entries: BTreeMap::new(),
            only: found.is_empty(),
        })
    }

    pub(crate) fn create(&mut self, path: &str) {
        self.entries
            .insert(path.to_owned(), Entry::File(Extents::default()));
    }

    pub(crate) fn mkdir(&mut self, path: &str) {
        self.entries.insert(path.to_owned(), Entry::Dir);
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.entries.remove(path);
    }

    pub(crate) fn write(&mut self, path: &str, offset: u64, len: u64, key: Key) {
        if let Some(Entry::File(extents)) = self.entries.get_mut(path) {
            extents.write(offset, len, key);
        }
    }

    pub(crate) fn resize(&mut self, path: &str, size: u64) {
        if let Some(Entry::File(extents)) = self.entries.get_mut(path) {
            extents.resize(size);
        }
    }

    /// The old name goes, with all that is below it, whether it is known or not.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        if from == to {
            return;
        }
        self.entries.remove(to);
        if let Some(entry) = self.entries.remove(from) {
            self.entries.insert(to.to_owned(), entry);
        }
        let prefix = format!("{from}/");
        let range = self.entries.range(prefix.clone()..);
        let below: Vec<String> = range
            .map(|(path, _)| path.clone())
            .take_while(|path| path.starts_with(&prefix))
            .collect();
        for path in below {
            if let Some(entry) = self.entries.remove(&path) {
                self.entries
                    .insert(format!("{to}/{}", &path[prefix.len()..]), entry);
            }
        }
    }

    pub(crate) fn file(&self, path: &str) -> Option<&Extents> {
        match self.entries.get(path) {
            Some(Entry::File(extents)) => Some(extents),
            _ => None,
        }
    }

    /// Reads everything back from a file system; returns the bytes compared.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check_fs(&self, fs: &mut dyn Measured) -> Result<u64, String> {
        self.check(&mut FsStore::new(fs, false))
    }

    /// Reads everything back from a directory of the host.
    pub fn check_dir(&self, dir: &Path) -> Result<u64, String> {
        self.check(&mut DirStore::new(dir, None, false, false))
    }

    pub(crate) fn check(&self, store: &mut impl Store) -> Result<u64, String> {
        let mut found = BTreeMap::new();
        for (path, is_dir) in store.list().map_err(|error| format!("listing: {error}"))? {
            if self.only && !self.entries.contains_key(&path) {
                return Err(format!("{path} is there and should not be"));
            }
            if found.insert(path.clone(), is_dir).is_some() {
                return Err(format!("{path} is listed twice"));
            }
        }
        let mut bytes = 0;
        let mut buf = vec![0; 128 << 10];
        for (path, entry) in &self.entries {
            let is_dir = found.get(path).ok_or_else(|| format!("{path} is lost"))?;
            match entry {
                Entry::Dir if !is_dir => return Err(format!("{path} is no directory")),
                Entry::Dir => {}
                Entry::File(extents) => {
                    check_file(store, path, extents, &mut buf)
                        .map_err(|what| format!("{path}: {what}"))?;
                    bytes += extents.size;
                }
            }
        }
        Ok(bytes)
    }
}

fn check_file<S: Store>(
    store: &mut S,
    path: &str,
    extents: &Extents,
    buf: &mut [u8],
) -> Result<(), String> {
    let file = store.open(path)?;
    let size = store.size(&file)?;
    if size != extents.size {
        return Err(format!("has {size} bytes instead of {}", extents.size));
    }
    let mut offset = 0;
    loop {
        let n = store.read(&file, offset, buf)?;
        if let Some(place) = extents.mismatch(offset, &buf[..n]) {
            return Err(format!("byte {place} is wrong"));
        }
        offset += n as u64;
        if n == 0 {
            break;
        }
    }
    if offset != size {
        return Err(format!("ends at {offset} instead of {size}"));
    }
    Ok(store.close(file)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn extents_agree_with_plain_bytes() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let (mut extents, mut plain) = (Extents::default(), Vec::new());
            for version in 0..20 {
                let (start, len) = (rng.below(300), rng.below(100));
                if rng.one_in(5) {
                    extents.resize(start);
                    plain.resize(start as usize, 0);
                } else {
                    let key = Key::new("f", version);
                    extents.write(start, len, key);
                    if len > 0 {
                        let end = (start + len) as usize;
                        plain.resize(plain.len().max(end), 0);
                        key.fill(start, &mut plain[start as usize..end]);
                    }
                }
                assert_eq!(extents.size, plain.len() as u64);
                let from = rng.below(plain.len() as u64 + 1) as usize;
                assert_eq!(extents.mismatch(from as u64, &plain[from..]), None);
            }
            for place in 0..plain.len() {
                plain[place] ^= 1;
                assert_eq!(extents.mismatch(0, &plain), Some(place as u64));
                plain[place] ^= 1;
            }
        }
    }

    #[test]
    fn renames_carry_everything_below() {
        let mut expected = Expected::default();
        for path in ["a/x", "a/y/z", "a-b", "b"] {
            expected.create(path);
        }
        expected.rename("a", "c/d");
        expected.rename("b", "a-b");
        let paths: Vec<_> = expected.entries.keys().map(String::as_str).collect();
        assert_eq!(paths, ["a-b", "c/d/x", "c/d/y/z"]);
    }
}
