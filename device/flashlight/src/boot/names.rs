//! From a path to what it leads to.

use crate::boot::replay::Query;
use crate::boot::{Boot, Error, File, FileKind, Held, LINKS_MAX};
use crate::format::dirrec::Target;
use crate::format::fields::get_u8;
use crate::format::hash::{ino_hash, name_hash};
use crate::format::header::Kind;
use crate::format::inode::{DirView, FileView, NAME_MAX};
use crate::format::names::{Which, name_at, page_names, paged_name};
use crate::format::node::{INDEX_DIR, ROOT_DIR};
use flashkit_nand::{Nand, PageAddr};

/// How often a path is looked for while what a cut has left reads differently.
const TRIES: usize = 4;

/// What a name leads to.
enum Found {
    Dir(u32),
    /// A file, whose page is in the first buffer.
    File,
}

/// A part of the bytes that hold a path.
#[derive(Clone, Copy)]
struct Part {
    from: usize,
    end: usize,
}

impl Part {
    fn of<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        path.get(self.from..self.end).unwrap_or_default()
    }

    /// The first name, and what is behind it.
    fn split(self, path: &[u8]) -> (Part, Part) {
        let bytes = self.of(path);
        let begin = bytes.iter().take_while(|&&b| b == b'/').count();
        let name = bytes.iter().skip(begin).take_while(|&&b| b != b'/').count();
        let (from, mid) = (self.from + begin, self.from + begin + name);
        (Part { from, end: mid }, Part { from: mid, ..self })
    }

    /// Whether there is no further name.
    fn is_over(&self, path: &[u8]) -> bool {
        self.of(path).iter().all(|&b| b == b'/')
    }
}

impl<N: Nand> Boot<'_, N> {
    /// Finds a file, or a directory, by its path from the root. Symbolic links are followed. Empty
    /// names and `.` are passed over.
    ///
    /// Reads, for each name: the snapshot twice, a page of the map, of the directory, a hash map
    /// and its index page, the inode. After a cut also the inode pages since the checkpoint, three
    /// times at most and once more for each file with several names; and for the file once those of
    /// updates.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDir`], [`Error::Invalid`], [`Error::TooLong`],
    /// [`Error::Links`], [`Error::Crowded`], [`Error::Damaged`], [`Error::Driver`],
    /// [`Error::Changing`].
    pub fn find(&mut self, path: &[u8]) -> Result<File, Error> {
        self.look_for(path, true)
    }

    /// The same; a symbolic link that the path ends with is found itself. What can be read of it is
    /// its target.
    ///
    /// # Errors
    /// As [`Boot::find`].
    pub fn find_link(&mut self, path: &[u8]) -> Result<File, Error> {
        self.look_for(path, false)
    }

    fn look_for(&mut self, path: &[u8], follow: bool) -> Result<File, Error> {
        self.window = (PageAddr::NONE, 0, 0);
        self.kept = 0;
        let room = core::mem::take(&mut self.spare);
        let mut found = Err(Error::TooLong);
        for _ in 0..TRIES {
            if path.len() > room.len() {
                break;
            }
            room.iter_mut().zip(path).for_each(|(to, from)| *to = *from);
            found = self.follow(room, path.len(), follow);
            if found != Err(Error::Changing) {
                break;
            }
            self.look_through()?;
        }
        self.spare = room;
        found
    }

    #[inline(never)]
    fn follow(&mut self, path: &mut [u8], len: usize, follow: bool) -> Result<File, Error> {
        let mut rest = Part { from: 0, end: len };
        let (mut dir, mut links) = (ROOT_DIR, 0);
        while !rest.is_over(path) {
            let (name, behind) = rest.split(path);
            rest = behind;
            match name.of(path) {
                b"." => continue,
                b".." => return Err(Error::Invalid),
                long if long.len() > NAME_MAX => return Err(Error::TooLong),
                _ => {}
            }
            if let Found::Dir(found) = self.find_name(dir, name.of(path))? {
                dir = found;
                continue;
            }
            let is_last = rest.is_over(path);
            let file = self.file_here()?;
            if file.kind() != FileKind::Link || is_last && !follow {
                return if is_last {
                    Ok(file)
                } else {
                    Err(Error::NotDir)
                };
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(Error::Links);
            }
            rest = self.put_target(&file, path, rest)?;
            if path.get(rest.from) == Some(&b'/') {
                dir = ROOT_DIR;
            }
        }
        match self.load_dir(dir)? {
            Some(_) => Ok(File::dir(dir)),
            None => Err(Error::NotFound),
        }
    }

    /// Puts the target of a link before the rest of the path, at the end of the bytes.
    fn put_target(&mut self, link: &File, path: &mut [u8], rest: Part) -> Result<Part, Error> {
        let target = usize::try_from(link.size()).map_err(|_| Error::TooLong)?;
        let (more, end) = (rest.end.saturating_sub(rest.from), path.len());
        let begin = end.checked_sub(more).ok_or(Error::TooLong)?;
        let from = begin.checked_sub(target).ok_or(Error::TooLong)?;
        if target == 0 || rest.end > end {
            return Err(Error::Damaged);
        }
        for i in (0..more).rev() {
            let byte = get_u8(path, rest.from + i);
            path.get_mut(begin + i)
                .into_iter()
                .for_each(|to| *to = byte);
        }
        let place = path.get_mut(from..begin).unwrap_or_default();
        self.read(link, 0, place)?;
        Ok(Part { from, end })
    }

    /// Finds a name in a directory. A file's page is then in the first buffer.
    fn find_name(&mut self, dir: u32, name: &[u8]) -> Result<Found, Error> {
        let hash = name_hash(self.chip.volume, name);
        let query = Query {
            dir,
            hash,
            name,
            ino: 0,
        };
        let (entries, mut damaged) = self.entries(&query)?;
        for entry in entries.as_slice().iter().rev() {
            let found = match entry.target {
                Target::Dir => self.is_dir_named(entry.ptr, &query),
                Target::Indirect => self.is_file_named(entry.ptr, &query),
                _ => self.load_file(PageAddr(entry.ptr)).map(|()| {
                    let view = FileView::on(&*self.a);
                    (view.parent(), view.name()) == (dir, name)
                }),
            };
            match found {
                Ok(true) if entry.target == Target::Dir => return Ok(Found::Dir(entry.ptr)),
                Ok(true) => return Ok(Found::File),
                Ok(false) => {}
                Err(Error::Damaged) => damaged = true,
                Err(e) => return Err(e),
            }
        }
        Err(if damaged {
            Error::Damaged
        } else {
            Error::NotFound
        })
    }

    /// Whether a directory has the name that is looked for.
    fn is_dir_named(&mut self, dir: u32, query: &Query<'_>) -> Result<bool, Error> {
        if let Some(is_it) = self.is_left(dir, query)? {
            return Ok(is_it);
        }
        self.load_dir(dir)?.ok_or(Error::Damaged)?;
        let view = DirView::on(&*self.a);
        Ok((view.parent(), view.name()) == (query.dir, query.name))
    }

    /// Whether a file that is found by its number has the name that is looked for. Its page is then
    /// in the first buffer.
    fn is_file_named(&mut self, ino: u32, query: &Query<'_>) -> Result<bool, Error> {
        let is_it = self.is_left(ino, query)?;
        let volume = self.chip.volume;
        let number = Query {
            dir: INDEX_DIR,
            hash: ino_hash(volume, ino),
            name: &[],
            ino,
        };
        let (entries, mut damaged) = self.entries(&number)?;
        let mut found = false;
        for entry in entries.as_slice().iter().rev().filter(|e| e.is_file()) {
            match self.load_file(PageAddr(entry.ptr)) {
                Ok(()) => found = FileView::on(&*self.a).ino() == ino,
                Err(Error::Damaged) => damaged = true,
                Err(e) => return Err(e),
            }
            if found {
                break;
            }
        }
        if !found {
            return if damaged {
                Err(Error::Damaged)
            } else {
                Ok(false)
            };
        }
        if let Some(is_it) = is_it {
            return Ok(is_it);
        }
        let which = Which::Name(query.name);
        if FileView::on(&*self.a)
            .spot(volume, query.dir, which)
            .is_some()
        {
            return Ok(true);
        }
        for n in 0.. {
            let Some(at) = FileView::on(&*self.a).names_page(n) else {
                break;
            };
            self.load_map((0, at), ino, Kind::Names)?;
            if page_names(self.b).find(volume, query.dir, which).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Of the second inode of an exchange whose own page has not its new name yet: whether the name
    /// that the first has left is the one looked for. None: it is not that. Up to a read for each
    /// names page.
    fn is_left(&mut self, number: u32, query: &Query<'_>) -> Result<Option<bool>, Error> {
        let Some(pending) = self
            .pending
            .filter(|p| p.second == number && p.left == (query.dir, query.hash))
        else {
            return Ok(None);
        };
        let (volume, (dir, hash)) = (self.chip.volume, pending.left);
        let (kind, ino, at) = pending.first;
        self.held = Held::Nothing;
        let found = self.chip.read_meta(at, self.a)?;
        let view = DirView::on(&*self.a);
        if found != Some(kind) || view.ino() != ino {
            return Ok(None);
        }
        if kind == Kind::Dir {
            let is_it = ino > INDEX_DIR && view.own_place(volume) == (dir, hash);
            return Ok(is_it.then(|| view.name() == query.name));
        }
        let view = FileView::on(&*self.a);
        if let Some(spot) = view.spot(volume, dir, Which::Hash(hash)) {
            return Ok(Some(name_at(self.a, spot, &[]) == query.name));
        }
        for n in 0.. {
            let Some(at) = FileView::on(&*self.a).names_page(n) else {
                break;
            };
            match self.load_map((0, at), ino, Kind::Names) {
                Ok(()) => {}
                Err(Error::Damaged) => continue,
                Err(e) => return Err(e),
            }
            if let Some(at) = page_names(self.b).find(volume, dir, Which::Hash(hash)) {
                return Ok(Some(paged_name(self.b, at) == query.name));
            }
        }
        Ok(None)
    }
}
