//! A mount of a volume made to deceive, and of a sound one, under requests in any order.
//!
//! The requests go in as the bytes that a kernel would send, and the answers come out as what a
//! kernel would take, over a socket in place of `/dev/fuse`. Every request has its answer. On a
//! sound volume what is read was written, names are there or not as the requests before have it,
//! and the check finds nothing afterwards.

mod kernel;
mod lent;
mod model;
mod play;

use std::sync::mpsc::Receiver;

use flashkit_flashlight::Config;
use flashkit_fuse::{AccessTimes, MountOptions, Played};
use flashkit_nand::Nand;
use flashkit_vfs::any::{self, AnyFs, AnyNand};
use flashkit_vfs::check::check;
use flashkit_vfs::{FileKind, FileSystem, Ino};

use crate::Guard;
use crate::edit;
use crate::image;
use crate::input::Input;
use kernel::Kernel;
use lent::{Job, Lent};
use model::Model;
use play::Player;

/// Bits of an input's flags.
const READ_ONLY: u8 = 1;
const SYNC: u8 = 2;
const NO_WRITEBACK: u8 = 4;
const ACCESS_TIMES: u8 = 8;
/// Requests that no kernel could make.
const WILD: u8 = 16;
const OTHER_USER: u8 = 32;
const GOES_ON: u8 = 64;
const RESTS: u8 = 128;

/// Flags of `FUSE_INIT`: set-ID bits are the file system's.
const HANDLE_KILLPRIV_V2: u32 = 1 << 28;

/// Runs an input.
///
/// # Panics
/// That is a finding.
pub fn run(bytes: &[u8]) {
    let Some(input) = Input::parse(bytes).map(Input::half_sound) else {
        return;
    };
    let images = image::stored();
    let mut image = images[usize::from(input.image) % images.len()].1.clone();
    for edit in &input.edits {
        edit::apply(&mut image, edit);
    }
    let mut guard = Guard::new(&image);
    let geometry = guard.geometry();
    // Longer calls are another target's business; that there is an end is this one's.
    let most = 16 * (256 * u64::from(geometry.pages()) + 200_000);
    guard.allow("mount", most);
    let config = Config {
        read_only: input.flags & READ_ONLY != 0,
        ..image::config()
    };
    let mut ram = image::ram(&geometry);
    let Ok(mut fs) = any::mount(AnyNand::new(guard), &mut ram, config) else {
        return;
    };
    let model = served(&mut fs, &input, most);
    let is_sound = input.edits.is_empty();
    let nand = match fs.into_volume().unmount() {
        Ok(nand) => nand,
        Err((nand, error)) => {
            assert!(!is_sound, "{error}");
            nand
        }
    };
    let mut guard: Guard = nand.take();
    guard.forget();
    guard.allow("mount", most);
    let Ok(mut fs) = any::mount(AnyNand::new(guard), &mut ram, config) else {
        assert!(!is_sound, "a sound volume does not mount again");
        return;
    };
    if is_sound {
        allow(&mut fs, most);
        let checked = check(fs.volume()).expect("a volume that can be checked");
        assert_eq!(checked.findings, [], "what a check finds");
        let root = fs.root();
        compare(&mut fs, root, &model, 0);
    }
}

/// The file system is asked by a mount, until that is over.
fn served(fs: &mut AnyFs<'_, 'static>, input: &Input<'_>, most: u64) -> Model {
    let (lent, jobs) = Lent::new(fs.root());
    std::thread::scope(|scope| {
        let player = scope.spawn(|| played(lent, input));
        own(fs, &jobs, most);
        match player.join() {
            Ok(model) => model,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn own(fs: &mut AnyFs<'_, 'static>, jobs: &Receiver<Job>, most: u64) {
    while let Ok(job) = jobs.recv() {
        allow(fs, most);
        job(fs);
    }
    allow(fs, most);
}

fn allow(fs: &mut AnyFs<'_, 'static>, most: u64) {
    let guard: &mut Guard = fs.volume().nand_mut().get_mut();
    guard.allow("a call", most);
}

/// Plays the kernel to the end. What is known in the end, if anything is.
fn played(lent: Lent, input: &Input<'_>) -> Model {
    let flag = |bit: u8| input.flags & bit != 0;
    let options = MountOptions {
        read_only: flag(READ_ONLY),
        sync: flag(SYNC),
        writeback: !flag(NO_WRITEBACK),
        atime: if flag(ACCESS_TIMES) {
            AccessTimes::Always
        } else {
            AccessTimes::Never
        },
        allow_other: true,
        fall_back: !flag(GOES_ON),
        ..MountOptions::default()
    };
    let (kernel, theirs) = Kernel::new(HANDLE_KILLPRIV_V2);
    let mount = Played::start(Box::new(lent), theirs, &options).expect("a server");
    let mut player = Player {
        kernel,
        model: Model::new(),
        // No kernel lets a change through to a mount that is read-only.
        is_wild: flag(WILD) || flag(READ_ONLY),
        is_sound: input.edits.is_empty(),
    };
    player.kernel.begin();
    if flag(OTHER_USER) {
        player.kernel.uid = 1_000;
    }
    for step in &input.steps {
        player.take(step);
        if flag(RESTS) {
            assert!(mount.rest(step[5] % 4 == 0, 16), "a panic while it rests");
        }
    }
    player.kernel.end();
    let ended = mount.finish();
    assert!(ended.fs.is_some(), "the server panicked");
    let met_errors = ended.met_errors && player.is_sound && !player.is_wild;
    assert!(!met_errors, "errors of a sound volume");
    if player.is_sound && !player.is_wild {
        player.model
    } else {
        Model::new()
    }
}

/// Compares what is known of a directory with what is there after another mount.
fn compare(fs: &mut AnyFs<'_, '_>, dir: Ino, model: &Model, of: model::Object) {
    for (name, object) in &model.things[of].names {
        let found = fs.lookup(dir, name);
        let Some(object) = *object else {
            assert!(found.is_err(), "{name:?} was removed and is there");
            continue;
        };
        let attr = found.unwrap_or_else(|error| panic!("{name:?} is lost: {error}"));
        let thing = &model.things[object];
        if let Some((size, bytes)) = &thing.contents {
            assert_eq!(attr.size, *size, "{name:?}");
            let mut held = vec![0; bytes.len()];
            assert_eq!(fs.read(attr.ino, 0, &mut held), Ok(bytes.len()));
            assert!(held == *bytes, "{name:?} holds what was not written");
        }
        if attr.kind == FileKind::Dir {
            compare(fs, attr.ino, model, object);
        }
    }
}
