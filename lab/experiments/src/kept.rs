//! Results that the project keeps, one file a study below `lab/results`, and results by id from
//! there and from a folder.
//!
//! A file is gzip of lines of JSON. The first names the format, the study, the command that makes
//! its results, and the program's version. Each other one is a result and its id, in the order of
//! the ids.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, ensure};
use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::study::{Case, Folder, Made, Outcome};
use crate::{experiments, studies};

/// The format of a file, and of the results in it.
pub const FORMAT: u32 = 1;

/// The first line of a file.
#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
    study: String,
    command: String,
    flashkit: String,
}

/// Every other one.
#[derive(Serialize, Deserialize)]
struct Line {
    id: String,
    result: Value,
}

/// The files, as they were when this was built.
const FILES: &[(&str, &[u8])] = &[
    (
        "flashlight",
        include_bytes!("../../results/flashlight.json.gz"),
    ),
    ("inside", include_bytes!("../../results/inside.json.gz")),
    ("jftl", include_bytes!("../../results/jftl.json.gz")),
    ("loads", include_bytes!("../../results/loads.json.gz")),
    ("logdisk", include_bytes!("../../results/logdisk.json.gz")),
    ("micro", include_bytes!("../../results/micro.json.gz")),
    ("nanofs", include_bytes!("../../results/nanofs.json.gz")),
    ("peers", include_bytes!("../../results/peers.json.gz")),
    ("uflip", include_bytes!("../../results/uflip.json.gz")),
];

/// Results by id: those of a folder, and for what it has none, those that the project keeps.
#[derive(Default)]
pub struct Results {
    folder: Option<Folder>,
    kept: BTreeMap<String, Value>,
}

impl Results {
    /// Those of a folder alone.
    pub fn of(folder: &Folder) -> Results {
        Results {
            folder: Some(folder.clone()),
            kept: BTreeMap::new(),
        }
    }

    /// Those that the project keeps, under those of a folder, if one is given.
    ///
    /// # Errors
    /// A file of this build cannot be read.
    pub fn kept(folder: Option<&Folder>) -> anyhow::Result<Results> {
        let mut kept = BTreeMap::new();
        for (study, bytes) in FILES {
            read(study, bytes, &mut kept)?;
        }
        Ok(Results {
            folder: folder.cloned(),
            kept,
        })
    }

    /// What there is under an id; `None` when there is nothing.
    ///
    /// # Errors
    /// There is something, and it is not that.
    pub fn load_as<T: DeserializeOwned>(&self, id: &str) -> anyhow::Result<Option<T>> {
        if let Some(folder) = &self.folder
            && let Some(held) = folder.load_as(id)?
        {
            return Ok(Some(held));
        }
        let held = self.kept.get(id).cloned().map(serde_json::from_value);
        held.transpose()
            .with_context(|| format!("kept result {id}"))
    }

    /// Whether what is loaded under an id is the folder's.
    pub fn is_own(&self, id: &str) -> bool {
        self.folder.as_ref().is_some_and(|folder| folder.has(id))
    }

    /// The results of these cases, as far as there are any.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn load_all(&self, cases: &[Case]) -> anyhow::Result<Vec<Outcome>> {
        let mut found = Vec::new();
        for case in cases {
            found.extend(self.load_as(&case.id)?);
        }
        Ok(found)
    }
}

fn read(study: &str, bytes: &[u8], into: &mut BTreeMap<String, Value>) -> anyhow::Result<()> {
    let mut text = String::new();
    let named = || format!("kept results of {study}");
    GzDecoder::new(bytes)
        .read_to_string(&mut text)
        .with_context(named)?;
    let mut lines = text.lines();
    let head: Head = serde_json::from_str(lines.next().unwrap_or("")).with_context(named)?;
    ensure!(
        (head.format, &head.study[..]) == (FORMAT, study),
        "{}: format {} of {}",
        named(),
        head.format,
        head.study
    );
    for line in lines {
        let Line { id, result } = serde_json::from_str(line).with_context(named)?;
        into.insert(id, result);
    }
    Ok(())
}

/// Puts the results of a folder into the files of another, beside those that are there. Gives
/// the study, how many results of it the folder had, and how many the file has now.
///
/// # Errors
/// A result cannot be read, or a file not be written.
pub fn keep(folder: &Folder, into: &Path) -> anyhow::Result<Vec<(&'static str, usize, usize)>> {
    let mut done = Vec::new();
    let names = studies().iter().map(|study| study.name);
    for study in names.chain(experiments().iter().map(|e| e.name)) {
        let path = into.join(format!("{study}.json.gz"));
        let mut all = BTreeMap::new();
        if let Ok(bytes) = fs::read(&path) {
            read(study, &bytes, &mut all)?;
        }
        let own = folder.ids(study)?;
        for id in &own {
            all.extend(folder.load_as::<Value>(id)?.map(|held| (id.clone(), held)));
        }
        if own.is_empty() && path.exists() {
            continue;
        }
        let head = Head {
            format: FORMAT,
            study: study.into(),
            command: format!("flashkit lab run {study}"),
            flashkit: env!("CARGO_PKG_VERSION").into(),
        };
        let mut text = serde_json::to_string(&head)? + "\n";
        let count = all.len();
        for (id, result) in all {
            text += &(serde_json::to_string(&Line { id, result })? + "\n");
        }
        let file = fs::File::create(&path).with_context(|| path.display().to_string())?;
        // Neither a time nor a name: the same results are the same bytes.
        let mut out = GzBuilder::new().mtime(0).write(file, Compression::best());
        out.write_all(text.as_bytes())?;
        out.finish()?;
        done.push((study, own.len(), count));
    }
    Ok(done)
}

/// Ids of results that say where they are from.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Those of the folder: measured on this machine, or on those that share the folder.
    pub own: BTreeSet<String>,
    /// Those of an older format, or of other code.
    pub stale: BTreeSet<String>,
}

impl Marks {
    /// Notes of a result where it is from; `code` is what it would be made by now.
    pub fn note(&mut self, results: &Results, id: &str, made: &Made, code: &str) {
        if results.is_own(id) {
            self.own.insert(id.to_owned());
        }
        if made.is_stale(code) {
            self.stale.insert(id.to_owned());
        }
    }
}

/// A result of an experiment that is measured again as a whole when it is stale.
#[derive(Serialize, Deserialize)]
pub struct Held<T> {
    /// What was measured.
    pub found: T,
    /// Where and with what.
    pub made: Made,
}

/// What a folder has under an id and is not stale, or else what is measured now, which it then
/// has.
///
/// # Errors
/// Of the folder, and of the measurement.
pub fn held_or<T: Serialize + DeserializeOwned>(
    folder: Option<&Folder>,
    id: &str,
    code: &str,
    measure: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let Some(folder) = folder else {
        return measure();
    };
    if let Ok(Some(held)) = folder.load_as::<Held<T>>(id)
        && !held.made.is_stale(code)
    {
        return Ok(held.found);
    }
    let held = Held {
        found: measure()?,
        made: Made::here(None).by(code.to_owned()),
    };
    folder.save_as(id, &held)?;
    Ok(held.found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_kept_comes_back_and_a_folder_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(&dir.path().join("own"));
        folder.save_as("uflip/a/b", &json!({ "n": 1 })).unwrap();
        folder.save_as("uflip/c", &json!({ "n": 2 })).unwrap();
        let done = keep(&folder, dir.path()).unwrap();
        let uflip = done.iter().find(|(study, ..)| *study == "uflip").unwrap();
        assert_eq!(*uflip, ("uflip", 2, 2));
        let path = dir.path().join("uflip.json.gz");
        let bytes = fs::read(&path).unwrap();
        let mut kept = BTreeMap::new();
        read("uflip", &bytes, &mut kept).unwrap();
        let ids: Vec<_> = kept.keys().map(String::as_str).collect();
        assert_eq!(ids, ["uflip/a/b", "uflip/c"]);
        // Kept again, the file is the same; another result is added to it.
        keep(&folder, dir.path()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
        let other = Folder::at(&dir.path().join("other"));
        other.save_as("uflip/c", &json!({ "n": 3 })).unwrap();
        let done = keep(&other, dir.path()).unwrap();
        assert_eq!(done, [("uflip", 1, 2)]);
        let results = Results {
            folder: Some(other),
            kept,
        };
        let n = |id: &str| results.load_as::<Value>(id).unwrap().unwrap()["n"].clone();
        assert_eq!((n("uflip/a/b"), n("uflip/c")), (json!(1), json!(3)));
        assert!(results.is_own("uflip/c") && !results.is_own("uflip/a/b"));
        assert!(results.load_as::<Value>("uflip/d").unwrap().is_none());
        assert!(read("peers", &bytes, &mut BTreeMap::new()).is_err());
    }
}
