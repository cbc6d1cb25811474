//! Extended attributes on the host's side of a copy.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr};
use rustix::io::Errno;

use crate::Error;

/// Linux has no longer value, and no longer list of names.
const MOST: usize = 64 << 10;

/// Those that a user gives, which bear no rights.
const USER: &[u8] = b"user.";
/// What is copied. In other namespaces a file system shows what it keeps in a way of its own, as
/// access lists in `system.`.
const NAMESPACES: [&[u8]; 3] = [USER, b"trusted.", b"security."];

const NAMESPACE: &str = "its namespace is not copied";
const RIGHTS: &str = "it may bear rights";

/// A name and its value.
pub(super) type Xattr = (Vec<u8>, Vec<u8>);

/// Extended attributes that a copy has left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XattrsLeft {
    /// How many.
    pub count: u64,
    /// The first of them: whose, its name, and why.
    pub first: Option<(PathBuf, Vec<u8>, String)>,
}

impl XattrsLeft {
    pub(super) fn add(&mut self, at: &Path, name: &[u8], why: impl fmt::Display) {
        self.count += 1;
        let first = || (at.to_owned(), name.to_owned(), why.to_string());
        self.first.get_or_insert_with(first);
    }
}

fn is_copied(name: &[u8]) -> bool {
    NAMESPACES.iter().any(|space| name.starts_with(space))
}

/// Those of a file of the host, sorted by name; a symbolic link has its own.
pub(super) fn read(host: &Path, left: &mut XattrsLeft) -> io::Result<Vec<Xattr>> {
    let mut bytes = vec![0; MOST];
    let len = match llistxattr(host, &mut bytes[..]) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        listed => listed?,
    };
    let names = bytes[..len].split(|byte| *byte == 0);
    let mut names: Vec<Vec<u8>> = names.filter(|n| !n.is_empty()).map(Vec::from).collect();
    names.sort();
    let mut found = Vec::new();
    for name in names {
        if !is_copied(&name) {
            left.add(host, &name, NAMESPACE);
            continue;
        }
        match lgetxattr(host, &name[..], &mut bytes[..]) {
            Ok(len) => found.push((name, bytes[..len].to_vec())),
            // It has gone meanwhile.
            Err(Errno::NODATA) => {}
            Err(Errno::ACCESS | Errno::PERM) => {
                left.add(host, &name, io::Error::from(Errno::ACCESS));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Gives a file of the host those of a list; with `rights`, those too that a user may not give.
/// What the host does not take is left out.
pub(super) fn write(host: &Path, xattrs: &[Xattr], rights: bool, left: &mut XattrsLeft) {
    for (name, value) in xattrs {
        if !is_copied(name) {
            left.add(host, name, NAMESPACE);
        } else if !rights && !name.starts_with(USER) {
            left.add(host, name, RIGHTS);
        } else if let Err(error) = lsetxattr(host, &name[..], value, XattrFlags::empty()) {
            left.add(host, name, io::Error::from(error));
        }
    }
}

/// Whether an error of a file system that is given one is of this attribute alone.
pub(super) fn is_left(error: &Error) -> bool {
    matches!(
        error,
        Error::Unsupported | Error::NotPermitted | Error::NoSpace | Error::NameTooLong
    )
}
