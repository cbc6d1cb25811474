//! What the boot reader finds in an image that a cut has left must be what a mount of it shows.

use std::collections::BTreeSet;

use flashkit_flashlight::Config;
use flashkit_flashlight::boot::{Boot, Error, File, FileKind, PATH_MAX, ram_needed};
use flashkit_nand::Nand;
use flashkit_sim::SimNand;
use flashkit_vfs::FileKind as Kind;

use crate::caught::caught;
use crate::content::Content;
use crate::recorder::Recorder;
use crate::seen::{Seen, SeenDir, SeenFile};
use crate::survive::look;

/// A boot reader, and what it is to be asked.
struct Reader<'r, 'n> {
    boot: Boot<'r, Recorder>,
    page: usize,
    names: &'n BTreeSet<String>,
    /// Paths asked for.
    asked: u64,
}

/// Reads a chip by the boot reader, and compares it with what a mount of the chip has shown. Each
/// of the names is asked for in each directory. Returns how many paths were.
///
/// # Errors
/// Says what differs.
pub(crate) fn same_as(
    chip: &SimNand,
    seen: &SeenDir,
    names: &BTreeSet<String>,
) -> Result<u64, String> {
    caught(|| {
        let mut ram = vec![0xa5; ram_needed(&chip.geometry())];
        let page = chip.geometry().page_size() as usize;
        let mut recorder = Recorder::new(chip.clone());
        recorder.recording = false;
        let boot = Boot::open(recorder, &mut ram).map_err(|e| format!("opening: {e:?}"))?;
        let mut reader = Reader {
            boot,
            page,
            names,
            asked: 0,
        };
        reader.dir("", seen)?;
        match reader.boot.close().changes {
            0 => Ok(reader.asked),
            changes => Err(format!("it has changed the chip {changes} times")),
        }
    })
    .map_err(|e| format!("boot reader: {e}"))
}

/// The same of a chip with pages that read one way for a while and another way then: settled in
/// either way, it must show what a mount of that shows.
pub(crate) fn same_when_settled(
    chip: &SimNand,
    config: Config,
    names: &BTreeSet<String>,
) -> Result<u64, String> {
    let mut asked = 0;
    for well in [true, false] {
        let mut settled = chip.clone();
        if settled.settle(well).map_err(|e| e.to_string())? {
            asked += same_as(&settled, &look(settled.clone(), config)?, names)
                .map_err(|e| format!("settled, {well}: {e}"))?;
        }
    }
    Ok(asked)
}

/// Each name in a tree.
pub(crate) fn note_names(seen: &SeenDir, names: &mut BTreeSet<String>) {
    for (name, seen) in &seen.names {
        if !names.contains(name) {
            names.insert(name.clone());
        }
        if let Seen::Dir(dir) = seen {
            note_names(dir, names);
        }
    }
}

impl Reader<'_, '_> {
    fn dir(&mut self, at: &str, seen: &SeenDir) -> Result<(), String> {
        for name in self.names.iter().filter(|n| !seen.names.contains_key(*n)) {
            let path = format!("{at}/{name}");
            if path.len() > PATH_MAX {
                continue;
            }
            self.asked += 1;
            match self.boot.find_link(path.as_bytes()) {
                Err(Error::NotFound) => {}
                found => return Err(format!("finds {found:?}, a mount nothing: {path}")),
            }
        }
        for (name, seen) in &seen.names {
            let path = format!("{at}/{name}");
            if path.len() > PATH_MAX {
                continue;
            }
            self.asked += 1;
            let found = self.boot.find_link(path.as_bytes());
            let found = found.map_err(|e| format!("{e:?}: {path}"))?;
            match seen {
                Seen::Dir(_) if found.kind() != FileKind::Dir => {
                    return Err(format!("finds {found:?}, a mount a directory: {path}"));
                }
                Seen::Dir(dir) => self.dir(&path, dir)?,
                Seen::File(file) => self.file(&path, &found, file)?,
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &str, found: &File, seen: &SeenFile) -> Result<(), String> {
        let kind = match seen.what.0 {
            Kind::File => FileKind::File,
            Kind::Symlink => FileKind::Link,
            _ => FileKind::Special,
        };
        if (found.kind(), u64::from(found.ino())) != (kind, seen.ino) {
            return Err(format!("finds {found:?}, a mount {}: {path}", seen.text()));
        }
        if kind == FileKind::Special {
            return match self.boot.read(found, 0, &mut [0]) {
                Err(Error::NoData) => Ok(()),
                read => Err(format!("reads {read:?} of what has no data: {path}")),
            };
        }
        let size = found.size();
        let mut content = Content::of_zeros(size);
        let mut bytes = vec![0; self.page];
        for index in 0..size.div_ceil(self.page as u64) {
            let from = index * self.page as u64;
            let want = (size - from).min(self.page as u64) as usize;
            bytes.fill(0);
            let read = self.boot.read(found, from, &mut bytes);
            if read != Ok(want) {
                return Err(format!("reads {read:?} at {from}: {path}"));
            }
            content.set_page(index as u32, &bytes);
        }
        if content != seen.content {
            let (shows, digest) = (seen.text(), content.digest() as u32);
            return Err(format!(
                "reads {size} bytes ({digest:08x}), a mount {shows}: {path}"
            ));
        }
        self.in_pieces(path, found, &content)
    }

    /// The same bytes in pieces that are no pages.
    fn in_pieces(&mut self, path: &str, found: &File, whole: &Content) -> Result<(), String> {
        let piece = self.page * 5 / 2 + 1;
        let mut bytes = vec![0; piece];
        let mut content = Content::of_zeros(found.size());
        let mut all = Vec::new();
        while (all.len() as u64) < found.size().min(20_000) {
            let from = all.len() as u64;
            let read = self.boot.read(found, from, &mut bytes);
            let read = read.map_err(|e| format!("{e:?} at {from} in pieces: {path}"))?;
            all.extend(&bytes[..read]);
        }
        if (all.len() as u64) < found.size() {
            return Ok(());
        }
        for (index, page) in all.chunks(self.page).enumerate() {
            let mut page = page.to_vec();
            page.resize(self.page, 0);
            content.set_page(index as u32, &page);
        }
        match content == *whole {
            true => Ok(()),
            false => Err(format!("reads other bytes in pieces: {path}")),
        }
    }
}
