//! What must hold of a chip after a cut, whatever was cut.

use flashkit_flashlight::{Config, ram_needed_for};
use flashkit_nand::Nand;
use flashkit_sim::SimNand;
use flashkit_vfs::any::{self, AnyFs, AnyNand};
use flashkit_vfs::check::check;
use flashkit_vfs::{Error, FileSystem, NewInode, Time};

use crate::caught::caught;
use crate::content::fill;
use crate::recorder::{Point, Recorder};
use crate::seen::{Inodes, Seen, SeenDir, check_links, observe};

/// The file that proves that a volume can be written: the first of these names that is not
/// there. A cut in the removal of one may leave it.
pub(crate) const PROBES: [&str; 12] = [
    "~a", "~b", "~c", "~d", "~e", "~f", "~g", "~h", "~i", "~j", "~k", "~l",
];
const PROBE_SIZE: usize = 1500;

/// What a chip has gone through, and still is.
pub(crate) struct Survived {
    /// The modifying operations of the first mount.
    pub points: Vec<Point>,
    /// The tree that it showed.
    pub seen: SeenDir,
    /// The chip at the end, and what it shows: the same, and the probe.
    pub chip: SimNand,
    pub left: SeenDir,
}

type Fs<'r> = AnyFs<'r, 'static>;

fn mount<'r>(chip: SimNand, ram: &'r mut [u8], config: Config) -> Result<Fs<'r>, String> {
    let recorder = AnyNand::new(Recorder::new(chip));
    any::mount(recorder, ram, config).map_err(|e| format!("mount fails: {e}"))
}

fn recorder<'f>(fs: &'f mut Fs<'_>) -> &'f mut Recorder {
    fs.volume().nand_mut().get_mut()
}

/// The check that `fsck` makes, and that it has found what the tree shows.
fn check_clean(fs: &mut Fs<'_>, inodes: &Inodes) -> Result<(), String> {
    check_links(fs, inodes)?;
    let checked = check(fs.volume())?;
    if let Some(first) = checked.findings.first() {
        return Err(format!("check: {} ({:?})", first.what, checked.findings));
    }
    // The index directory has no name.
    let (dirs, files) = (inodes.dirs.len() as u64 + 1, inodes.files.len() as u64);
    // Where this mount has worn the chip out, files without a name stay: nothing can be removed
    // any more. One that has lost a name that it should have is a finding.
    let stay = fs.volume().is_worn() && checked.files > files;
    if checked.dirs != dirs || checked.files != files && !stay {
        return Err(format!(
            "check counts {} directories and {} files, the tree has {dirs} and {files}",
            checked.dirs, checked.files
        ));
    }
    Ok(())
}

/// Creates a file, unless the chip is full. Returns whether.
fn probe(fs: &mut Fs<'_>, name: &str, inodes: &mut Inodes) -> Result<bool, String> {
    let (root, name) = (fs.root(), name.as_bytes());
    let data = fill(99, 0, PROBE_SIZE);
    let made = fs.create(root, name, &NewInode::default());
    match made.and_then(|attr| fs.write(attr.ino, 0, &data, Time::default()).map(|()| attr)) {
        Ok(attr) => {
            if inodes.contains(attr.ino) {
                return Err("a new file gets a number in use".into());
            }
            inodes.files.insert(attr.ino, 1);
            fs.fsync(attr.ino)
                .map_err(|e| format!("fsync fails: {e}"))?;
            Ok(true)
        }
        Err(Error::NoSpace) => match fs.unlink(root, name, Time::default()) {
            // Until then a part of it may be found.
            Ok(()) | Err(Error::NotFound) => match fs.sync() {
                Ok(()) => Ok(false),
                Err(e) => Err(format!("sync fails: {e}")),
            },
            Err(e) => Err(format!("unlink of the probe fails: {e}")),
        },
        Err(e) => Err(format!("the volume is not writable: {e}")),
    }
}

/// Whether a chip is cut a second time after its recovery, or unmounted.
pub(crate) fn cuts_again(chip: &SimNand) -> bool {
    chip.digest().is_ok_and(|digest| digest % 2 == 0)
}

/// Whether a chip is looked at as a volume that is not written, before all else: a sixteenth is.
fn is_read_first(chip: &SimNand) -> bool {
    chip.digest().is_ok_and(|digest| digest % 16 == 4)
}

/// Mounts a chip read-only: its recovery alone, without the ends of lives that follow it, must lead
/// to what is allowed and to what the check finds sound.
fn look_only(
    chip: SimNand,
    ram: &mut [u8],
    config: Config,
    allows: &dyn Fn(&SeenDir) -> Result<(), String>,
) -> Result<(), String> {
    let config = Config {
        read_only: true,
        discarded: chip.digest().is_ok_and(|digest| digest % 32 == 4),
        ..config
    };
    let mut fs = mount(chip, ram, config)?;
    allows(&observe(&mut fs)?.0)?;
    match check(fs.volume())?.findings.first() {
        Some(first) => Err(format!("check: {}", first.what)),
        None => Ok(()),
    }
}

/// Mounts a chip. Returns the modifying operations of that, which are there even if it fails.
pub(crate) fn recover(chip: SimNand, config: Config) -> (Vec<Point>, Result<(), String>) {
    let mut ram = vec![0; ram_needed_for(&chip.geometry(), config.table_page)];
    let mut recorder = Recorder::new(chip);
    let result = caught(|| {
        let mounted = any::mount(AnyNand::lent(&mut recorder), &mut ram, config);
        mounted.map(drop).map_err(|e| format!("mount fails: {e}"))
    });
    (recorder.points, result)
}

/// Mounts a chip and reads its tree.
pub(crate) fn look(chip: SimNand, config: Config) -> Result<SeenDir, String> {
    let mut ram = vec![0; ram_needed_for(&chip.geometry(), config.table_page)];
    caught(|| Ok(observe(&mut mount(chip, &mut ram, config)?)?.0))
}

/// Mounts a chip; what it shows must be allowed, the check clean, and a new file can be written.
/// Mounts it a second time, after an unmount or, when `cut_again`, after another cut between two
/// operations; it must show the same.
///
/// # Errors
/// Says what is not so.
pub(crate) fn survive(
    chip: SimNand,
    config: Config,
    cut_again: bool,
    allows: &dyn Fn(&SeenDir) -> Result<(), String>,
) -> Result<Survived, String> {
    match survive_or_wear_out(chip, config, cut_again, allows)? {
        Looked::Survived(survived) => Ok(*survived),
        Looked::WornOut(..) => Err("the volume says that the chip is worn out".into()),
    }
}

/// What a look with a write in it comes to.
pub(crate) enum Looked {
    Survived(Box<Survived>),
    /// The write was too much for the chip, which is given as it is then, with what was seen
    /// before, if that is durable.
    WornOut(Box<(Option<SeenDir>, SimNand)>),
}

/// Whether a tree is what was seen before, or that with the probe.
///
/// # Errors
/// It is not.
pub(crate) fn same_but_for_probe(before: &SeenDir, now: &SeenDir) -> Result<(), String> {
    let mut now = now.clone();
    for name in PROBES {
        if !before.names.contains_key(name) {
            now.names.remove(name);
        }
    }
    now.attrs = before.attrs.clone();
    if now == *before {
        Ok(())
    } else {
        Err("the last write of a worn-out chip changed another file".into())
    }
}

/// As [`survive`], of a chip that may be worn out by the look itself.
pub(crate) fn survive_or_wear_out(
    chip: SimNand,
    config: Config,
    cut_again: bool,
    allows: &dyn Fn(&SeenDir) -> Result<(), String>,
) -> Result<Looked, String> {
    caught(|| {
        let mut ram = vec![0; ram_needed_for(&chip.geometry(), config.table_page)];
        if is_read_first(&chip) {
            look_only(chip.clone(), &mut ram, config, allows)
                .map_err(|e| format!("mounted read-only: {e}"))?;
        }
        let mut fs = mount(chip, &mut ram, config)?;
        let points = std::mem::take(&mut recorder(&mut fs).points);
        recorder(&mut fs).recording = false;
        let (seen, mut inodes) = observe(&mut fs)?;
        allows(&seen)?;
        check_clean(&mut fs, &inodes)?;
        let free = |name: &&str| !seen.names.contains_key(*name);
        let name = PROBES
            .into_iter()
            .find(free)
            .ok_or("no name is left for a probe")?;
        let probed = match probe(&mut fs, name, &mut inodes) {
            Err(_) if fs.volume().is_worn() => {
                let lasts = fs.volume().recovery_lasts();
                let chip = recorder(&mut fs).chip().clone();
                return Ok(Looked::WornOut(Box::new((lasts.then_some(seen), chip))));
            }
            probed => probed?.then_some(name),
        };
        check_clean(&mut fs, &inodes).map_err(|e| format!("after a write: {e}"))?;
        let chip = if cut_again {
            recorder(&mut fs).chip().clone()
        } else {
            let unmounted = fs.into_volume().unmount();
            unmounted
                .map_err(|(_, e)| format!("unmount fails: {e}"))?
                .take::<Recorder>()
                .into_inner()
        };
        if cut_again {
            // The next power-up may find every page that a cut has left unsettled either way.
            for (well, how) in [(true, "reads well"), (false, "is lost")] {
                let mut settled = chip.clone();
                if settled.settle(well).map_err(|e| e.to_string())? {
                    let told = |e| format!("what was not settled {how}: {e}");
                    let fs = mount(settled, &mut ram, config).map_err(told)?;
                    second_look(fs, false, probed, &seen, &inodes).map_err(told)?;
                }
            }
        }
        let fs = mount(chip, &mut ram, config).map_err(|e| format!("the second {e}"))?;
        let (chip, left) = second_look(fs, !cut_again, probed, &seen, &inodes)
            .map_err(|e| format!("second mount: {e}"))?;
        Ok(Looked::Survived(Box::new(Survived {
            points,
            seen,
            chip,
            left,
        })))
    })
}

fn second_look(
    mut fs: Fs<'_>,
    clean: bool,
    probed: Option<&str>,
    before: &SeenDir,
    inodes_before: &Inodes,
) -> Result<(SimNand, SeenDir), String> {
    if let Some(first) = recorder(&mut fs).points.first().filter(|_| clean) {
        let what = first.text();
        return Err(format!("the mount after a clean unmount writes: {what}"));
    }
    let (left, inodes) = observe(&mut fs)?;
    let mut seen = left.clone();
    match probed.map(|name| seen.names.remove(name)) {
        None => {}
        Some(Some(Seen::File(file))) if file.content.size == PROBE_SIZE as u64 => {}
        Some(_) => return Err("the file just written is not there".into()),
    }
    // Its creation has changed the root's times.
    seen.attrs = before.attrs.clone();
    if seen != *before {
        let (first, second) = (before.lines(), seen.lines());
        let more = second.iter().find(|line| !first.contains(line));
        let less = first.iter().find(|line| !second.contains(line));
        return Err(format!("shows {more:?} instead of {less:?}"));
    }
    if inodes != *inodes_before {
        return Err("shows other inode numbers".into());
    }
    check_clean(&mut fs, &inodes)?;
    Ok((recorder(&mut fs).chip().clone(), left))
}

/// Mounts a chip that is worn out, and again: it shows a tree that is allowed, and is not
/// written once a mount has finished what was cut. The page that calls the volume finished
/// may have been cut itself, and read well for a while: then that is a later mount than
/// the first. Returns the chip.
///
/// # Errors
/// Says what is not so; also when the chip is not worn out.
pub(crate) fn last_look(
    chip: SimNand,
    config: Config,
    allows: &dyn Fn(&SeenDir) -> Result<(), String>,
) -> Result<SimNand, String> {
    caught(|| {
        let mut ram = vec![0; ram_needed_for(&chip.geometry(), config.table_page)];
        let mut fs = mount(chip, &mut ram, config)?;
        if !fs.volume().is_worn() {
            return Err("not worn out".into());
        }
        let (seen, _) = observe(&mut fs)?;
        allows(&seen)?;
        // Files without a name stay: nothing can be removed any more.
        if let Some(first) = check(fs.volume())?.findings.first() {
            return Err(format!("check: {}", first.what));
        }
        if fs.create(fs.root(), b"new", &NewInode::default()) != Err(Error::ReadOnly) {
            return Err("worn out, and not read-only".into());
        }
        // Where there is no room for another root page, each mount repeats the recovery. What was
        // not synced, and is in a page that is not settled, may come and go.
        let finishes = fs.volume().recovery_lasts();
        let mut finished = finishes && recorder(&mut fs).changes > 0;
        for which in ["second", "third"] {
            let chip = recorder(&mut fs).chip().clone();
            fs = mount(chip, &mut ram, config).map_err(|e| format!("the {which} {e}"))?;
            let writes = recorder(&mut fs).changes > 0;
            if finished && writes {
                return Err(format!("the {which} mount of a worn-out chip writes"));
            }
            finished |= writes && finishes;
            let again = observe(&mut fs)?.0;
            if again != seen {
                let what = format!("the {which} mount of a worn-out chip shows another tree");
                match finishes {
                    true => return Err(what),
                    false => allows(&again).map_err(|e| format!("{what}: {e}"))?,
                }
            }
        }
        Ok(recorder(&mut fs).chip().clone())
    })
}
