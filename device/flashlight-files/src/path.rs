//! The names of a path, and the directory that they lead to.

use flashkit_flashlight::{Attr, Error, FlashLight, Node, ROOT_DIR};
use flashkit_nand::Nand;

/// The names of a path that mean something.
fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
}

/// Whether a path is the root's by its form.
pub(crate) fn is_root(path: &[u8]) -> bool {
    names(path).next().is_none()
}

/// Whether a path asks for a directory by its form.
pub(crate) fn asks_for_dir(path: &[u8]) -> bool {
    path.ends_with(b"/") || path == b"." || path.ends_with(b"/.")
}

/// The directory that these names lead to.
fn descend<'p, N: Nand>(
    fs: &mut FlashLight<'_, N>,
    mut names: impl Iterator<Item = &'p [u8]>,
) -> Result<u32, Error<N::Error>> {
    names.try_fold(ROOT_DIR, |dir, name| match name {
        b".." => fs.parent(dir),
        _ => fs.lookup_dir(dir, name),
    })
}

/// The directory of a path's last name, and that name, which need not exist.
///
/// # Errors
/// [`Error::Invalid`]: the path has no last name to make or remove, as the root, or ends in `..`.
pub(crate) fn parent<'p, N: Nand>(
    fs: &mut FlashLight<'_, N>,
    path: &'p [u8],
) -> Result<(u32, &'p [u8]), Error<N::Error>> {
    let mut names = names(path);
    match names.next_back() {
        None | Some(b"..") => Err(Error::Invalid),
        Some(last) => Ok((descend(fs, names)?, last)),
    }
}

/// What a path names.
pub(crate) fn resolve<N: Nand>(
    fs: &mut FlashLight<'_, N>,
    path: &[u8],
) -> Result<Attr, Error<N::Error>> {
    let mut before = names(path);
    let found = match before.next_back() {
        None => fs.getattr(Node::Dir(ROOT_DIR))?,
        Some(b"..") => {
            let dir = descend(fs, names(path))?;
            fs.getattr(Node::Dir(dir))?
        }
        Some(last) => {
            let dir = descend(fs, before)?;
            fs.lookup(dir, last)?
        }
    };
    if asks_for_dir(path) && !found.is_dir() {
        return Err(Error::NotDir);
    }
    Ok(found)
}

/// The directory that a path names.
pub(crate) fn directory<N: Nand>(
    fs: &mut FlashLight<'_, N>,
    path: &[u8],
) -> Result<u32, Error<N::Error>> {
    descend(fs, names(path))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn slashes_and_dots_that_mean_nothing_are_passed_over() {
        for path in ["a/b", "/a/b", "//a///b/", "./a/./b/."] {
            let found: Vec<_> = names(path.as_bytes()).collect();
            assert_eq!(found, [b"a", b"b"], "{path}");
        }
        assert_eq!(names(b"").count() + names(b"/").count(), 0);
        assert_eq!(names(b"a/../b").count(), 3);
    }

    /// `...` is a name.
    #[test]
    fn the_root_has_no_name() {
        for (path, is) in [("", true), ("/./", true), (".../", false), ("..", false)] {
            assert_eq!(is_root(path.as_bytes()), is, "{path}");
        }
    }

    #[test]
    fn a_slash_at_the_end_asks_for_a_directory() {
        for (path, asks) in [("a", false), ("a/", true), ("a/.", true), (".", true)] {
            assert_eq!(asks_for_dir(path.as_bytes()), asks, "{path}");
        }
        assert!(!asks_for_dir(b"a."));
    }
}
