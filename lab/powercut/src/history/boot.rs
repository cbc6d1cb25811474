//! What the boot reader finds in what a cut has left: what a mount of the same shows.

use std::collections::BTreeSet;

use flashkit_sim::{Rng, SimNand};
use flashkit_vfs::FileKind;

use super::model::{Entry, Id, Model, ROOT};
use super::plan::name_of;
use crate::boot;
use crate::content::Content;
use crate::seen::{Attrs, Seen, SeenDir, SeenFile};

/// So many files of a directory are asked for, or twice as many, and so many names that no
/// directory has.
const SOME: u64 = 8;

/// Reads a chip by the boot reader, some files of each directory, and compares it with the model
/// of what a mount of the same has shown. `names`: so many there may be. Returns how many paths it
/// was asked for.
///
/// # Errors
/// Says what differs.
pub(super) fn same_as(
    chip: &SimNand,
    model: &Model,
    names: u64,
    rng: &mut Rng,
) -> Result<u64, String> {
    let unknown = |name: &String| !model.dirs.values().any(|d| d.names.contains_key(name));
    let absent: BTreeSet<String> = (0..SOME)
        .map(|_| name_of(rng.below(names + names / 8)))
        .filter(unknown)
        .collect();
    boot::same_as(chip, &dir(model, ROOT, rng), &absent)
}

/// All directories in a directory, and some of the files.
fn dir(model: &Model, d: Id, rng: &mut Rng) -> SeenDir {
    let names = &model.dir(d).names;
    let every = (names.len() as u64 / SOME).max(1);
    let mut seen = SeenDir::default();
    for (name, entry) in names {
        let entry = match *entry {
            Entry::Dir(child) => Seen::Dir(dir(model, child, rng)),
            Entry::File(f) if rng.one_in(every) => Seen::File(file(model, f)),
            Entry::File(_) => continue,
        };
        seen.names.insert(name.clone(), entry);
    }
    seen
}

fn file(model: &Model, f: Id) -> SeenFile {
    let (file, page) = (model.file(f), model.page);
    let bytes = file.bytes();
    let mut content = Content::of_zeros(bytes.size);
    let mut buf = vec![0; page as usize];
    for index in 0..bytes.size.div_ceil(page) {
        bytes.read(index * page, &mut buf);
        content.set_page(index as u32, &buf);
    }
    let kind = if file.symlink {
        FileKind::Symlink
    } else {
        FileKind::File
    };
    SeenFile {
        ino: file.ino.unwrap_or(0),
        what: (kind, 0),
        attrs: Attrs::default(),
        content,
    }
}
