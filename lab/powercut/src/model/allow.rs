//! Whether a tree is one of those that may be seen.

use flashkit_vfs::Ino;

use super::{Entry, Model, Names, State};
use crate::seen::{Seen, SeenDir, SeenFile};

/// Which file has been taken for which.
type Pairs = Vec<(usize, Ino)>;

impl Model {
    /// Whether a tree is one of those that may be seen now.
    ///
    /// # Errors
    /// Says what should not be.
    pub fn allows(&self, seen: &SeenDir) -> Result<(), String> {
        let before = self.matches(seen, false);
        if before.is_ok() || !self.at_work {
            return before;
        }
        match (before, self.matches(seen, true)) {
            (Err(a), Err(b)) if a != b => Err(format!("{b}; or before the operation: {a}")),
            (_, result) => result,
        }
    }

    /// With the operation at work applied to names everywhere, or nowhere.
    fn matches(&self, seen: &SeenDir, applied: bool) -> Result<(), String> {
        let mut pairs = Pairs::new();
        self.match_dir(0, seen, "", applied, &mut pairs)?;
        pairs.sort_unstable();
        pairs.dedup();
        for pair in pairs.windows(2) {
            if pair[0].0 == pair[1].0 {
                let (a, b) = (pair[0].1, pair[1].1);
                return Err(format!("the names of one file lead to files {a} and {b}"));
            }
        }
        pairs.sort_unstable_by_key(|pair| pair.1);
        match pairs.windows(2).find(|pair| pair[0].1 == pair[1].1) {
            Some(pair) => Err(format!("the names of two files lead to file {}", pair[0].1)),
            None => Ok(()),
        }
    }

    fn match_dir(
        &self,
        d: usize,
        seen: &SeenDir,
        at: &str,
        applied: bool,
        pairs: &mut Pairs,
    ) -> Result<(), String> {
        let dir = &self.dirs[d];
        let names = &dir.names;
        let (mut lo, mut hi) = (names.floor, names.versions.len() - 1);
        if self.at_work && names.versions[hi].0 == self.op && hi > 0 {
            if applied {
                lo = hi;
            } else {
                hi -= 1;
            }
        }
        let mut first = None;
        let before = pairs.len();
        for k in (lo..=hi).rev() {
            pairs.truncate(before);
            match self.match_names(&names.versions[k].1, seen, at, applied, pairs) {
                Ok(()) => return self.match_dir_attrs(d, seen, at),
                Err(e) => first = first.or(Some(e)),
            }
        }
        let first = first.unwrap_or_default();
        Err(format!("{first} (versions {lo} to {hi} of {at}/)"))
    }

    fn match_dir_attrs(&self, d: usize, seen: &SeenDir, at: &str) -> Result<(), String> {
        let mut attrs = self.dirs[d].attrs.may_be_seen().iter();
        match attrs.any(|v| v.1 == seen.attrs) {
            true => Ok(()),
            false => Err(format!("directory shows attributes it has not: {at}/")),
        }
    }

    fn match_names(
        &self,
        names: &Names,
        seen: &SeenDir,
        at: &str,
        applied: bool,
        pairs: &mut Pairs,
    ) -> Result<(), String> {
        for (name, entry) in names {
            let path = format!("{at}/{name}");
            match (entry, seen.names.get(name)) {
                (Entry::File(_), None) => return Err(format!("file lost: {path}")),
                (Entry::Dir(_), None) => return Err(format!("directory lost: {path}")),
                (Entry::File(f), Some(Seen::File(file))) => {
                    self.match_file(*f, file)
                        .map_err(|e| format!("{e}: {path}"))?;
                    pairs.push((*f, file.ino));
                }
                (Entry::Dir(d), Some(Seen::Dir(dir))) => {
                    self.match_dir(*d, dir, &path, applied, pairs)?;
                }
                _ => return Err(format!("wrong kind: {path}")),
            }
        }
        match seen.names.keys().find(|name| !names.contains_key(*name)) {
            Some(name) => Err(format!("should not be there: {at}/{name}")),
            None => Ok(()),
        }
    }

    fn match_file(&self, f: usize, seen: &SeenFile) -> Result<(), String> {
        let file = &self.files[f];
        if seen.what != file.what {
            return Err("wrong kind".into());
        }
        let state = State {
            size: seen.content.size,
            digest: seen.content.digest(),
            attrs: seen.attrs.clone(),
        };
        if file.states.may_be_seen().iter().any(|v| v.1 == state) {
            return Ok(());
        }
        let versions = &file.states.versions;
        if let Some(k) = versions.iter().rposition(|v| v.1 == state) {
            let (floor, last) = (file.states.floor, versions.len() - 1);
            return Err(format!(
                "file is back at state {k}, durable was {floor} of {last}"
            ));
        }
        let same = |v: &&(usize, State)| (v.1.size, v.1.digest) == (state.size, state.digest);
        if versions.iter().any(|v| same(&v)) {
            return Err("file shows attributes that it did not have with these contents".into());
        }
        let foreign = seen
            .content
            .pages()
            .find(|(i, digest)| !file.ever.get(i).is_some_and(|e| e.contains(digest)));
        let (size, expected) = (seen.content.size, file.content.size);
        let Some((index, digest)) = foreign else {
            return Err(format!(
                "file shows a mixture of its states (size {size}, expected {expected})"
            ));
        };
        let known = self
            .files
            .iter()
            .position(|o| o.ever.values().any(|held| held.contains(&digest)));
        Err(format!(
            "file shows foreign bytes (page {index}, of file {known:?}, size {size}, expected {expected})"
        ))
    }
}
