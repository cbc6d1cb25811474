//! `flashkit attach`

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use flashkit_disk::DiskFs;
use flashkit_fuse::MountOptions;

use super::mount::{conclude, make_directory};
use crate::Outcome;
use crate::disk;
use crate::failure::Usage;
use crate::text;
use crate::volume::Access;

/// Show a block device in an image as DIR/disk, for losetup, until it is unmounted.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  flashkit attach --ftl logdisk nor.img nor &\n  \
    losetup --find --show nor/disk\n  mkfs.ext4 /dev/loop0\n  mount /dev/loop0 /mnt\n\n\
    `--ftl jftl` follows a journal whose blocks are not smaller than a page of the chip. On a\n\
    disk below 512 MiB that takes `mkfs.ext4 -b 4096`."
)]
pub struct Args {
    /// Image file, made if absent, or MTD device, made a disk if it is erased
    image: PathBuf,
    /// Directory that will hold `disk`, made if absent
    dir: PathBuf,
    #[command(flatten)]
    disk: disk::Choice,
    /// Mount options: ro, rw, allow_other, fsname=NAME, subtype=NAME, scrub=DAYS (on NAND: 14, up
    /// to 3650, or off), barrier (the default), nobarrier (nothing waits for the host's disk before
    /// the end; if the host crashes, the image may be lost); noexec, nosuid, nodev and defaults
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut options = MountOptions {
        fs_name: args.image.display().to_string(),
        subtype: args.disk.ftl().into(),
        ..MountOptions::for_disk()
    };
    for option in args.options.iter().flat_map(|list| list.split(',')) {
        args.disk.check_option(option)?;
        options.set(option).map_err(Usage)?;
    }
    let made = make_directory(&args.dir)?;
    let served = serve(args, &options, out);
    if made && served.is_err() {
        let _ = std::fs::remove_dir(&args.dir);
    }
    served
}

fn serve(args: &Args, options: &MountOptions, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    // Before the image is opened: a bad mount point leaves it alone.
    flashkit_fuse::check(&args.dir)?;
    let access = if options.read_only {
        Access::ReadOnly
    } else {
        Access::ReadWrite
    };
    let opened = args.disk.open(&args.image, access, options.barrier)?;
    if let Some(made) = opened.made {
        writeln!(out, "{made}")?;
    }
    let size = opened.disk.size();
    let last = Arc::new(Mutex::new(String::new()));
    let disk = Noted {
        inner: opened.disk,
        last: last.clone(),
    };
    let fs = DiskFs::new(disk, options.read_only);
    let mut said = Ok(());
    let ready = || said = tell(&args.image, &args.dir, size, out);
    let mut ended = flashkit_fuse::mount(Box::new(fs), &args.dir, options, ready)?;
    drop(ended.fs.take());
    // The end is in good order whether anybody reads this or not.
    let summary = last.lock().map(|text| text.clone()).unwrap_or_default();
    let _ = said.and_then(|()| writeln!(out, "session: {summary}"));
    let _ = out.flush();
    conclude(ended, &args.dir)
}

fn tell(image: &Path, dir: &Path, size: u64, out: &mut dyn Write) -> io::Result<()> {
    let shown = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    writeln!(
        out,
        "{} is {}, {}; Ctrl-C or `flashkit umount {}` ends it",
        text::path(image),
        text::path(&dir.join("disk")),
        text::bytes(size),
        text::shell(&shown)
    )?;
    out.flush()
}

/// A disk that leaves its summary behind when it goes.
struct Noted {
    inner: Box<dyn flashkit_disk::Disk + Send>,
    last: Arc<Mutex<String>>,
}

impl flashkit_disk::Disk for Noted {
    fn size(&self) -> u64 {
        self.inner.size()
    }
    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> flashkit_disk::Result<()> {
        self.inner.read(offset, buf)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> flashkit_disk::Result<()> {
        self.inner.write(offset, data)
    }
    fn zero(&mut self, offset: u64, len: u64) -> flashkit_disk::Result<()> {
        self.inner.zero(offset, len)
    }
    fn flush(&mut self) -> flashkit_disk::Result<()> {
        self.inner.flush()
    }
    fn remap(&mut self, entries: &[u8]) -> flashkit_disk::Result<flashkit_disk::Remapped> {
        self.inner.remap(entries)
    }
    fn background(&mut self) -> flashkit_disk::Result<bool> {
        self.inner.background()
    }
    fn patrol(&mut self, n: u32) -> flashkit_disk::Result<bool> {
        self.inner.patrol(n)
    }
    fn close(&mut self) -> flashkit_disk::Result<()> {
        self.inner.close()
    }
    fn summary(&self) -> String {
        self.inner.summary()
    }
    fn flash_ns(&self) -> u64 {
        self.inner.flash_ns()
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if let Ok(mut last) = self.last.lock() {
            *last = flashkit_disk::Disk::summary(&self.inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashkit_disk::{Disk, Result};
    use flashkit_vfs::{FileSystem, Patrol};

    /// A disk of two blocks, and of three pages that only its device knows.
    #[derive(Default)]
    struct Pages(Vec<u32>);

    impl Disk for Pages {
        fn size(&self) -> u64 {
            1024
        }
        fn block_size(&self) -> u32 {
            512
        }
        fn read(&mut self, _: u64, _: &mut [u8]) -> Result<()> {
            Ok(())
        }
        fn write(&mut self, _: u64, _: &[u8]) -> Result<()> {
            Ok(())
        }
        fn zero(&mut self, _: u64, _: u64) -> Result<()> {
            Ok(())
        }
        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
        fn patrol(&mut self, n: u32) -> Result<bool> {
            self.0.push(n);
            Ok(n < 3)
        }
        fn summary(&self) -> String {
            format!("{:?}", self.0)
        }
    }

    /// Else map, log and anchors rot away on a disk that is attached and not written.
    #[test]
    fn an_attached_disk_is_patrolled_with_what_its_device_keeps_for_itself() {
        let last = Arc::default();
        let disk = Noted {
            inner: Box::new(Pages::default()),
            last: Arc::clone(&last),
        };
        let mut fs = DiskFs::new(disk, false);
        let mut rounds = 0;
        while rounds < 2 {
            rounds += u32::from(fs.patrol().unwrap() == Patrol::Done(None));
        }
        drop(fs);
        let read = last.lock().unwrap();
        assert!(read.ends_with("0, 1, 2, 3]"), "{read}");
    }
}
