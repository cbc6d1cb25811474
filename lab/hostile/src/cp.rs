//! A volume made to deceive, copied out to the host: as root, into a fresh directory.
//!
//! Nothing outside of that directory is created, changed or taken away, and within it there is no
//! device and nothing with set-ID bits. Nor does the copy go round in circles. What has come out
//! goes into another file system, and is the same there.

mod forged;
mod host;

use std::path::Path;

use flashkit_flashlight::Config;
use flashkit_nand::Nand;
use flashkit_vfs::any::{self, AnyNand};
use flashkit_vfs::tree::{CopyOptions, Modes, compare, copy_in, copy_out};
use flashkit_vfs::{FileSystem, MemoryFs};

use crate::Guard;
use crate::edit;
use crate::image;
use crate::input::Input;
use forged::Forged;
use host::Host;

/// Bits of an input's flags.
const FORGED: u8 = 1;
const OWNER: u8 = 2;
const NO_SET_ID: u8 = 4;
/// Over what was copied before.
const TWICE: u8 = 8;
/// Something of the host's is in the way.
const IN_THE_WAY: u8 = 16;
const SMALL_PIECES: u8 = 32;

/// Flash operations of a copy: each page of each file once, with what leads to it, and files are no
/// longer than the chip together.
const COPY_MAX: u64 = 4_000_000;
/// Bytes of what goes into another file system again.
const BACK_MAX: u64 = 1 << 20;

/// Runs an input. A forged tree has inodes for edits and names for steps.
///
/// # Panics
/// That is a finding.
pub fn run(bytes: &[u8]) {
    let Some(input) = Input::parse(bytes) else {
        return;
    };
    let host = Host::new(input.flags & IN_THE_WAY != 0);
    let modes = if input.flags & NO_SET_ID != 0 {
        Modes::NoSetId
    } else {
        Modes::Umask
    };
    let options = CopyOptions {
        owner: input.flags & OWNER != 0,
        modes,
        request: if input.flags & SMALL_PIECES != 0 {
            100
        } else {
            8 << 10
        },
        ..CopyOptions::default()
    };
    let times = 1 + u32::from(input.flags & TWICE != 0);
    if input.flags & FORGED != 0 {
        let mut fs = Forged::new(&input);
        (0..times).for_each(|_| out(&mut fs, &host, options));
    } else {
        stored(&input, &host, options, times);
    }
    host.check();
    if host.size() <= BACK_MAX {
        back(host.target());
    }
}

/// Copies an edited volume.
fn stored(input: &Input<'_>, host: &Host, options: CopyOptions, times: u32) {
    let images = image::stored();
    let mut image = images[usize::from(input.image) % images.len()].1.clone();
    for edit in &input.edits {
        edit::apply(&mut image, edit);
    }
    let mut guard = Guard::new(&image);
    let mut ram = image::ram(&guard.geometry());
    guard.allow("mount", COPY_MAX);
    let config = Config {
        read_only: true,
        ..image::config()
    };
    let Ok(mut fs) = any::mount(AnyNand::new(guard), &mut ram, config) else {
        return;
    };
    for _ in 0..times {
        let guard: &mut Guard = fs.volume().nand_mut().get_mut();
        guard.allow("copy", COPY_MAX);
        out(&mut fs, host, options);
    }
}

fn out(fs: &mut dyn FileSystem, host: &Host, options: CopyOptions) {
    let mut before = 0;
    let copied = copy_out(fs, b"/", host.target(), options, &mut |bytes| {
        assert!(bytes >= before, "progress goes back");
        before = bytes;
    });
    match copied {
        Ok(copied) => {
            let said = copied
                .skipped
                .iter()
                .all(|(at, _)| at.starts_with(host.target()));
            assert!(said, "{:?}", copied.skipped);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Copies what has come out into a file system in RAM, and compares.
fn back(from: &Path) {
    let mut fs = MemoryFs::with_capacity(16 * BACK_MAX);
    let options = CopyOptions {
        request: 700,
        ..CopyOptions::default()
    };
    if copy_in(&mut fs, from, b"/", options, &mut |_| ()).is_ok() {
        let found = compare(&mut fs, b"/", from);
        assert!(
            found.as_ref().is_ok_and(Vec::is_empty),
            "what went in is not what was there: {found:?}"
        );
    }
}
