//! The demo's word on what it left behind, so that a later one overwrites that and nothing else.

use std::hash::{Hash, Hasher};

use flashkit_vfs::{FileSystem, Result, SetXattr, Time, path};
use siphasher::sip::SipHasher13;

/// The extended attribute of the root directory that holds the digest of all below it.
const SEAL: &[u8] = b"user.flashkit-demo";

/// A number for all names and what they name, the same whatever built the program. What changes an
/// inode changes its ctime, so the contents need not be read.
fn digest(fs: &mut dyn FileSystem) -> Result<[u8; 8]> {
    let mut hasher = SipHasher13::new();
    let root = fs.root();
    path::walk(fs, root, &mut |_, path, attr| {
        path.hash(&mut hasher);
        (
            attr.ino, attr.size, attr.mode, attr.nlink, attr.uid, attr.gid,
        )
            .hash(&mut hasher);
        for time in [attr.mtime, attr.ctime] {
            (time.secs, time.nanos).hash(&mut hasher);
        }
        Ok(())
    })?;
    Ok(hasher.finish().to_le_bytes())
}

/// Notes what is there.
pub fn seal(fs: &mut dyn FileSystem) -> Result<()> {
    let (digest, root) = (digest(fs)?, fs.root());
    fs.set_xattr(root, SEAL, &digest, SetXattr::Any, Time::now())
}

/// Whether all is as a demo has left it.
pub fn is_untouched(fs: &mut dyn FileSystem) -> bool {
    let root = fs.root();
    let sealed = fs.xattr(root, SEAL);
    sealed.is_ok_and(|sealed| digest(fs).is_ok_and(|now| sealed == now))
}
