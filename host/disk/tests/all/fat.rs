//! FAT on jftl: files come and go, the power fails, and what was flushed is there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::rc::Rc;

use fatfs::{FileSystem, FormatVolumeOptions, FsOptions};
use flashkit_disk::{Disk, OnNand, Sectors};
use flashkit_jftl::{Jftl, MapCache, ram_bytes};
use flashkit_nand::Nand;
use flashkit_sim::{Rng, SimNand, preset};

/// A disk as FAT wants it.
struct Stream {
    disk: Rc<RefCell<Sectors<OnNand>>>,
    at: u64,
}

fn told(why: String) -> io::Error {
    io::Error::other(why)
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = (self.disk.borrow().size() - self.at).min(buf.len() as u64) as usize;
        self.disk
            .borrow_mut()
            .read(self.at, &mut buf[..len])
            .map_err(told)?;
        self.at += len as u64;
        Ok(len)
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.disk.borrow_mut().write(self.at, buf).map_err(told)?;
        self.at += buf.len() as u64;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.disk.borrow_mut().flush().map_err(told)
    }
}

impl Seek for Stream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::Current(by) => self.at.wrapping_add_signed(by),
            SeekFrom::End(by) => self.disk.borrow().size().wrapping_add_signed(by),
        };
        Ok(self.at)
    }
}

fn mount(chip: SimNand) -> Rc<RefCell<Sectors<OnNand>>> {
    let disk = OnNand::mount(chip, true, |_| (), |_| String::new()).unwrap();
    Rc::new(RefCell::new(Sectors::new(disk)))
}

fn stream(disk: &Rc<RefCell<Sectors<OnNand>>>) -> Stream {
    let disk = disk.clone();
    Stream { disk, at: 0 }
}

fn contents(i: u64) -> Vec<u8> {
    let mut rng = Rng::keyed(i, 3);
    let mut bytes = vec![0; 1 + rng.below(60_000) as usize];
    rng.fill(&mut bytes);
    bytes
}

#[test]
fn fat_outlives_power_cuts() {
    let mut chip = SimNand::new(preset("micron-20m").unwrap());
    let len = ram_bytes(&chip.geometry(), MapCache::Whole).unwrap();
    Jftl::format(&mut chip, &mut vec![0; len], 7).unwrap();
    let mut disk = mount(chip);
    // FAT of 512-byte sectors on pages of 2 KiB.
    fatfs::format_volume(stream(&disk), FormatVolumeOptions::new()).unwrap();
    let mut held = BTreeMap::new();
    for round in 0..8 {
        let fs = FileSystem::new(stream(&disk), FsOptions::new()).unwrap();
        let root = fs.root_dir();
        for i in 0..40 {
            let name = format!("file{i}.bin");
            if (i + round) % 3 == 0 && held.remove(&name).is_some() {
                root.remove(&name).unwrap();
                continue;
            }
            let mut file = root.create_file(&name).unwrap();
            file.truncate().unwrap();
            file.write_all(&contents(round * 100 + i)).unwrap();
            file.flush().unwrap();
            held.insert(name, contents(round * 100 + i));
        }
        drop(root);
        // Ends with a flush; then the power is gone, and with it what the disk holds in RAM.
        fs.unmount().unwrap();
        disk.borrow_mut().flush().unwrap();
        let gone = Rc::into_inner(disk).unwrap().into_inner();
        disk = mount(gone.into_device().into_chip());
        let fs = FileSystem::new(stream(&disk), FsOptions::new()).unwrap();
        let entries = fs.root_dir().iter().map(Result::unwrap).count();
        assert_eq!(entries, held.len(), "round {round}");
        for (name, bytes) in &held {
            let mut found = Vec::new();
            let mut file = fs.root_dir().open_file(name).unwrap();
            file.read_to_end(&mut found).unwrap();
            assert!(found == *bytes, "round {round}: {name}");
        }
    }
}
