//! Listing a directory.

use crate::FlashLight;
use crate::error::Error;
use crate::index::readdir::Entry;
use flashkit_nand::Nand;

impl<N: Nand> FlashLight<'_, N> {
    /// Lists a directory in the order of its hashes, and of inode numbers in one hash, from after
    /// `cookie` (0: from the first), until `each` returns false. What stays is listed
    /// once, whatever comes and goes between two calls. Two reads an entry at most, and
    /// those of the DirInode map.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at the end, when there are entries that cannot be read: all others have
    /// been listed then. A cookie remembers such entries before it.
    pub fn readdir(
        &mut self,
        dir: u32,
        cookie: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), Error<N::Error>> {
        self.told(|fs| {
            let mut from = cookie;
            fs.volume.reading(|volume| {
                volume.durable.index.load_dir(dir)?;
                let cookie = from;
                volume.durable.index.list(dir, cookie, &mut |entry| {
                    from = entry.cookie;
                    each(entry)
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::vec::Vec;

    use super::*;
    use crate::{Config, New, Node, ROOT_DIR, ram_needed};
    use flashkit_sim::{SimNand, preset};

    /// Those of so many names that share a hash, in pairs.
    fn colliding(volume: u32, among: u32) -> Vec<Vec<u8>> {
        let mut seen: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut found = Vec::new();
        for n in 0..among {
            let name = n.to_le_bytes().map(|b| b'!' | b & 0x40).to_vec();
            let name = [name, std::format!("{n}").into_bytes()].concat();
            let hash = crate::format::hash::name_hash(volume, &name);
            if let Some(other) = seen.remove(&hash) {
                found.extend([other, name]);
            } else {
                seen.insert(hash, name);
            }
        }
        found
    }

    struct NoProblem;

    impl crate::Visitor for NoProblem {
        fn page(&mut self, _: crate::Page) {}
        fn problem(&mut self, page: flashkit_nand::PageAddr, ino: u32, what: &'static str) {
            panic!("page {page:?}, number {ino}: {what}");
        }
    }

    /// A directory in which every name shares its hash with another.
    #[test]
    fn hash_maps_hold_names_of_one_hash() {
        let chip = SimNand::new(preset("slc-256m").unwrap());
        let ram = || std::vec![0; ram_needed(&chip.geometry())];
        let (mut first, mut second) = (ram(), ram());
        let chip = FlashLight::format(chip, &mut first, 7, &New::default()).unwrap();
        let mut fs = FlashLight::mount(chip, &mut first, Config::default()).unwrap();
        let names = colliding(fs.volume(), 1_000_000);
        assert!(names.len() > 3_000, "{} names share a hash", names.len());
        let (now, nobody) = (crate::Time::default(), |_| false);
        for (n, name) in names.iter().enumerate() {
            let node = fs.create(ROOT_DIR, name, &New::default()).unwrap();
            if n % 7 == 0 {
                fs.fsync(node).unwrap();
            }
        }
        // Their inodes move, and get other names in other directories.
        let Node::Dir(other) = fs.mkdir(ROOT_DIR, b"other", &New::default()).unwrap() else {
            unreachable!();
        };
        for (n, name) in names.iter().enumerate() {
            let Node::File(file) = fs.lookup(ROOT_DIR, name).unwrap().node else {
                panic!("{name:?}");
            };
            match n % 5 {
                0 => fs.write(file, 0, name, now).unwrap(),
                1 => fs.link(file, other, name, now).map(|_| ()).unwrap(),
                2 => {
                    fs.rename(ROOT_DIR, name, other, name, false, &nobody, now)
                        .unwrap();
                    fs.rename(other, name, ROOT_DIR, name, false, &nobody, now)
                        .unwrap();
                }
                _ => {}
            }
        }
        fs.fsync(Node::Dir(ROOT_DIR)).unwrap();
        // The power goes.
        let chip = fs.nand().clone();
        let mut fs = FlashLight::mount(chip, &mut second, Config::default()).unwrap();
        for (n, name) in names.iter().enumerate() {
            assert!(fs.lookup(ROOT_DIR, name).is_ok(), "{n}");
            assert_eq!(fs.lookup(other, name).is_ok(), n % 5 == 1, "{n}");
        }
        assert_eq!(list(&mut fs, 0, usize::MAX).len(), names.len() + 1);
        for (n, name) in names.iter().enumerate() {
            fs.unlink(ROOT_DIR, name, &nobody, now).unwrap();
            assert!(fs.lookup(ROOT_DIR, name).is_err());
            let partner = fs.lookup(ROOT_DIR, &names[n ^ 1]);
            assert_eq!(partner.is_ok(), n % 2 == 0, "{n}");
        }
        assert_eq!(list(&mut fs, 0, usize::MAX).len(), 1);
        fs.walk(&mut NoProblem).unwrap();
    }

    fn list<N: Nand>(fs: &mut FlashLight<'_, N>, from: u64, most: usize) -> Vec<(Vec<u8>, u64)> {
        let mut out = Vec::new();
        fs.readdir(ROOT_DIR, from, &mut |e| {
            out.push((e.name.to_vec(), e.cookie));
            out.len() < most
        })
        .unwrap();
        out
    }

    #[test]
    fn names_of_one_hash_are_listed_once_while_others_of_them_come_and_go() {
        let chip = SimNand::new(preset("slc-256m").unwrap());
        let mut ram = std::vec![0; ram_needed(&chip.geometry())];
        let chip = FlashLight::format(chip, &mut ram, 7, &New::default()).unwrap();
        let mut fs = FlashLight::mount(chip, &mut ram, Config::default()).unwrap();
        let names = colliding(fs.volume(), 100_000);
        assert!(names.len() >= 6, "{} names share a hash", names.len());
        for name in &names {
            fs.create(ROOT_DIR, name, &New::default()).unwrap();
        }
        fs.sync().unwrap();
        let all = list(&mut fs, 0, usize::MAX);
        let expected: BTreeSet<_> = names.iter().cloned().collect();
        assert_eq!(all.len(), names.len());
        assert_eq!(
            all.iter().map(|e| e.0.clone()).collect::<BTreeSet<_>>(),
            expected
        );
        // Each name is removed as soon as it has been listed, as `rm -r` does.
        let (mut cookie, mut seen) = (0, Vec::new());
        while let Some((name, next)) = list(&mut fs, cookie, 1).pop() {
            fs.unlink(ROOT_DIR, &name, &|_| false, crate::Time::default())
                .unwrap();
            seen.push(name);
            cookie = next;
        }
        assert_eq!(seen.len(), names.len());
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
        assert_eq!(list(&mut fs, 0, usize::MAX), []);
    }

    #[test]
    fn a_name_that_is_removed_does_not_hide_another_of_its_hash() {
        let chip = SimNand::new(preset("slc-256m").unwrap());
        let mut ram = std::vec![0; ram_needed(&chip.geometry())];
        let chip = FlashLight::format(chip, &mut ram, 7, &New::default()).unwrap();
        let mut fs = FlashLight::mount(chip, &mut ram, Config::default()).unwrap();
        let names = colliding(fs.volume(), 100_000);
        for pair in names.chunks(2) {
            for name in pair {
                fs.create(ROOT_DIR, name, &New::default()).unwrap();
            }
            let first = list(&mut fs, 0, 1).remove(0);
            let second = list(&mut fs, first.1, 9);
            assert_eq!(second.len(), 1);
            // Whether the other is older or newer, and whatever was removed.
            fs.unlink(ROOT_DIR, &first.0, &|_| false, crate::Time::default())
                .unwrap();
            assert_eq!(list(&mut fs, first.1, 9), second);
            fs.create(ROOT_DIR, &first.0, &New::default()).unwrap();
            assert_eq!(list(&mut fs, first.1, 1), second);
            for name in pair {
                fs.unlink(ROOT_DIR, name, &|_| false, crate::Time::default())
                    .unwrap();
            }
        }
    }
}
