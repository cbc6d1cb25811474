//! Long histories: a chip in use that is cut hundreds of times and never made anew.
//!
//! A chip of the shape of a real part is filled to half or more. Then session follows session: a
//! mount, a look at what is there, operations of all kinds on thousands of names, and a cut
//! somewhere, in the recovery as well. Each mount has other RAM and other choices. Blocks fail in
//! some histories, and stay failing. In the end the volume is filled until there is no space, and
//! emptied: all space must be free again.

mod boot;
mod bytes;
mod look;
mod model;
mod plan;
mod unread;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use flashkit_flashlight::{BlockState, Config, Error as VolumeError, Page, Visitor};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Cut, CutError, Faults, Metered, PowerCut, Rate, Rng, Rot, SimError, SimNand};
use flashkit_vfs::any::{self, AnyError, AnyNand};
use flashkit_vfs::{Error, FileSystem, NewInode};

use crate::caught::caught;
use crate::chip::Chip;
use crate::guard::Guard;
use look::{Fs, Medium, check_all, check_shaken, is_off, look};
use model::{Entry, Id, Model, ROOT};
use plan::{Large, Plan};
use unread::Unread;
use work::{Stop, Work};

/// What histories are made of. Equal ones do the same.
#[derive(Clone, Debug)]
pub struct History {
    /// What all chance follows from. The next history's is one more.
    pub seed: u64,
    /// The chip; without one the seed says.
    pub chip: Option<Chip>,
    /// How full it is, in hundredths; without that the seed says.
    pub fill: Option<u64>,
    /// Chips that the seed says have no more bytes than this.
    pub bytes_max: u64,
    /// In half of the histories a page cannot be read for a while, now and then.
    pub unread: bool,
}

/// What histories did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histories {
    /// Histories that came to their ends.
    pub ended: u64,
    /// Of them, as the volume was worn out.
    pub worn: u64,
    /// Blocks that went bad in use.
    pub bad_blocks: u64,
    /// Sessions.
    pub sessions: u64,
    /// Of them, cut while they mounted.
    pub mounts_cut: u64,
    /// Of them, cut later.
    pub cuts: u64,
    /// Of them, ended by a call that failed as pages could not be read for a while.
    pub unread: u64,
    /// Operations.
    pub ops: u64,
    /// Of them, refused for want of space.
    pub full: u64,
    /// Lookups and reads that were refused for want of space, as a
    /// directory had to be written first.
    pub reads_full: u64,
    /// Names compared.
    pub names: u64,
    /// Files compared in full.
    pub files: u64,
    /// Bytes compared.
    pub bytes: u64,
    /// Paths that a boot reader was asked for.
    pub boot_paths: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// What was not as guaranteed: seed, session and what.
    pub violation: Option<(u64, u64, String)>,
    /// The chip of the violation.
    pub chip: Option<Chip>,
}

/// How a session ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Cut,
    Unmount,
    Worn,
}

/// A chip and all that is known of it.
struct InUse<'a> {
    plan: Plan,
    rng: Rng,
    model: Model,
    done: &'a mut Histories,
    /// The session's.
    number: u64,
    /// What was begun last.
    text: String,
    /// The last cut, for people.
    cut: String,
    /// How the volume was mounted last, for people.
    how: String,
    /// Blocks that were bad after the format.
    bad: usize,
    /// The last session has ended with an unmount.
    unmounted: bool,
    /// A page could not be read in a session, and since then no check has found all sound.
    shaken: bool,
    /// Pages of which a bit of the spare bytes has flipped.
    flipped: BTreeSet<u32>,
}

/// Whether an error says that the power is off.
fn is_cut(error: &VolumeError<AnyError>) -> bool {
    let off = AnyError::of(&CutError::<SimError>::PowerOff);
    matches!(error, VolumeError::Driver(e) if *e == off)
}

/// Free pages by the running count, and free blocks.
fn free(fs: &mut Fs<'_, '_>) -> (u32, u32) {
    let volume = fs.volume();
    let blocks = volume.nand().geometry().blocks();
    let free = |s: BlockState| matches!(s, BlockState::Free | BlockState::Clean | BlockState::Dead);
    let blocks = (0..blocks).filter(|&b| free(volume.block_state(b))).count();
    (volume.statfs().pages_free, blocks as u32)
}

fn medium(chip: SimNand) -> Medium {
    Guard::new(Unread::new(PowerCut::never(chip)), None)
}

fn bad_blocks(chip: &Medium) -> usize {
    chip.inner().chip().inner().bad_blocks().len()
}

/// The pages in use, by area and inode, and the blocks that are not free, by state.
fn held(fs: &mut Fs<'_, '_>) -> BTreeMap<String, u32> {
    struct Held(BTreeMap<String, u32>);
    impl Visitor for Held {
        fn page(&mut self, page: Page) {
            *self
                .0
                .entry(format!("{:?} of {}", page.area, page.ino))
                .or_default() += 1;
        }
        fn problem(&mut self, _: PageAddr, _: u32, _: &'static str) {}
    }
    let mut held = Held(BTreeMap::new());
    let volume = fs.volume();
    if let Err(e) = volume.walk(&mut held) {
        held.0.insert(e.to_string(), 0);
    }
    for block in 0..volume.nand().geometry().blocks() {
        match volume.block_state(block) {
            BlockState::Free | BlockState::Clean | BlockState::Dead => {}
            state => *held.0.entry(format!("block {state:?}")).or_default() += 1,
        }
    }
    held.0
}

impl History {
    /// Goes on, history after history, for as long as `more`, asked before each session, says so.
    pub fn run(&self, more: &mut dyn FnMut(&Histories) -> bool) -> Histories {
        let mut done = Histories::default();
        let mut history = self.clone();
        while more(&done) && done.violation.is_none() {
            let plan = Plan::new(&history);
            let (mut session, chip) = (0, plan.chip.clone());
            if let Err(what) = history.one(plan, &mut done, &mut session, more) {
                done.violation = Some((history.seed, session, what));
                done.chip = Some(chip);
            }
            history.seed = history.seed.wrapping_add(1);
        }
        done
    }

    fn one(
        &self,
        plan: Plan,
        done: &mut Histories,
        session: &mut u64,
        more: &mut dyn FnMut(&Histories) -> bool,
    ) -> Result<(), String> {
        let mut chip = plan.chip.formatted()?;
        chip.set_faults(plan.faults.clone())
            .map_err(|e| e.to_string())?;
        let bad = chip.bad_blocks().len();
        let mut chip = medium(chip);
        let geometry = chip.geometry();
        let mut in_use = InUse {
            rng: Rng::keyed(self.seed, 22),
            model: Model::new(geometry.page_size(), flashkit_flashlight::ROOT_DIR.into()),
            plan,
            done,
            number: 0,
            text: String::new(),
            cut: String::new(),
            how: String::new(),
            bad,
            unmounted: false,
            shaken: false,
            flipped: BTreeSet::new(),
        };
        let mut empty = (0, 0);
        let result = in_use.sessions(&mut chip, &mut empty, session, more);
        let (now, bad) = (chip.counters(), bad_blocks(&chip) - in_use.bad);
        done.bad_blocks += bad as u64;
        done.programs += now.page_programs;
        done.erases += now.block_erases;
        result
    }
}

impl InUse<'_> {
    fn sessions(
        &mut self,
        chip: &mut Medium,
        empty: &mut (u32, u32),
        session: &mut u64,
        more: &mut dyn FnMut(&Histories) -> bool,
    ) -> Result<(), String> {
        while *session < self.plan.sessions {
            if *session > 0 && !more(self.done) {
                return Ok(());
            }
            *session += 1;
            self.number = *session;
            self.done.sessions += 1;
            self.text.clear();
            let first = *session == 1;
            let ran = caught(|| self.session(chip, first, empty));
            if ran.map_err(|e| self.told(&e))? == End::Worn {
                return self.worn_out(chip);
            }
        }
        // What has failed stays so.
        let faults = Faults {
            program_fail: Rate::NEVER,
            erase_fail: Rate::NEVER,
            ..self.plan.faults.clone()
        };
        let medium = chip.inner_mut().chip_mut().inner_mut();
        medium.set_faults(faults).map_err(|e| e.to_string())?;
        let Err(e) = caught(|| self.fill_and_empty(chip, *empty)) else {
            self.done.ended += 1;
            return Ok(());
        };
        // What fails as the chip is worn out fails rightly.
        let told = self.told(&format!("in the end: {e}"));
        self.worn_out(chip).map_err(|_| told)
    }

    /// Looks at a volume that is worn out, twice: nothing that was durable is lost, and
    /// nothing changes any more.
    fn worn_out(&mut self, chip: &mut Medium) -> Result<(), String> {
        for _ in 0..2 {
            let looked = caught(|| self.last_look(chip));
            looked.map_err(|e| self.told(&format!("worn out: {e}")))?;
        }
        (self.done.ended, self.done.worn) = (self.done.ended + 1, self.done.worn + 1);
        Ok(())
    }

    fn last_look(&mut self, chip: &mut Medium) -> Result<(), String> {
        let bad = bad_blocks(chip) - self.bad;
        if bad < ROOTS - 1 {
            return Err(format!("with {bad} blocks that have gone bad"));
        }
        let (config, mut ram) = self.draw(chip);
        let mut fs =
            Self::mount(chip, config, None, &mut ram, false)?.ok_or("cut without a cut")?;
        if !fs.volume().is_worn() {
            return Err("and no more after a mount".into());
        }
        self.check(&mut fs, true)?;
        look(&mut fs, &mut self.model, self.done, 1, 0)?;
        match fs.create(ROOT_INO, b"new", &NewInode::default()) {
            Err(Error::ReadOnly) => Ok(()),
            other => Err(format!("and not read-only: {other:?}")),
        }
    }

    fn told(&self, what: &str) -> String {
        let (plan, op) = (&self.plan, self.model.op);
        format!(
            "{what} (operation {op}; last: {}; last cut: {}; {}; {:?}, {} % full)",
            self.text, self.cut, self.how, plan.kind, plan.fill
        )
    }

    /// How the volume is mounted next, and in what RAM.
    fn draw(&mut self, chip: &Medium) -> (Config, Vec<u8>) {
        let (config, ram) = self.plan.mount(&mut self.rng, &chip.geometry());
        self.how = format!("mounted with {ram} bytes and {config:?}");
        // What was in it before says nothing.
        (config, vec![self.rng.next_u64() as u8; ram])
    }

    fn mount<'r, 'c>(
        chip: &'c mut Medium,
        config: Config,
        cut: Option<Cut>,
        ram: &'r mut [u8],
        guarded: bool,
    ) -> Result<Option<Fs<'r, 'c>>, String> {
        chip.inner_mut().end();
        chip.inner_mut().chip_mut().power_on(cut);
        chip.watch(guarded.then_some(config));
        match any::mount(AnyNand::lent(chip), ram, config) {
            Ok(fs) => Ok(Some(fs)),
            Err(e) if is_cut(&e) => Ok(None),
            Err(e) => Err(format!("mount fails: {e}")),
        }
    }

    /// Mounts a copy of the chip only to read it: it must show what a mount that writes may, and
    /// the boot reader the same.
    fn read_copy(&mut self, chip: &Medium) -> Result<(), String> {
        let mut image = chip.inner().chip().inner().clone();
        let boots = self.rng.one_in(2);
        if boots {
            // Else pages that change what they are have changed for one of the two.
            let well = self.rng.one_in(2);
            image.settle(well).map_err(|e| e.to_string())?;
        }
        let mut copy = medium(image.clone());
        let (config, mut ram) = self.draw(chip);
        let config = Config {
            read_only: true,
            discarded: true,
            ..config
        };
        let mounted = Self::mount(&mut copy, config, None, &mut ram, false)?;
        let mut fs = mounted.ok_or("cut without a cut")?;
        check_all(&mut fs)?;
        let mut model = self.model.clone();
        look(&mut fs, &mut model, self.done, 40, self.number)?;
        if boots {
            let (names, rng) = (self.plan.names, &mut self.rng);
            self.done.boot_paths += boot::same_as(&image, &model, names, rng)?;
        }
        Ok(())
    }

    /// Flips a bit of the tag of some pages, as the spare bytes may be outside of any ECC: not of
    /// one a second time.
    fn flip_bits(&mut self, chip: &mut Medium) -> Result<(), String> {
        let geometry = chip.geometry();
        if self.plan.chip.spare < TAG || !self.rng.one_in(8) {
            return Ok(());
        }
        for _ in 0..plan::any_size(&mut self.rng, u64::from(geometry.pages()) / 8) {
            let page = self.rng.below(geometry.pages().into()) as u32;
            let (offset, bit) = (self.rng.below(TAG.into()) as u32, self.rng.below(8));
            if !self.flipped.insert(page) {
                continue;
            }
            let rot = Rot::Silent {
                offset: geometry.page_size() + offset,
                mask: 1 << bit,
            };
            let medium = chip.inner_mut().chip_mut().inner_mut();
            let rotten = medium.rot(PageAddr(page), rot);
            rotten.map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// After an unmount: mounts while a page cannot be read. It may fail, but says that there is a
    /// volume, and leaves what there is.
    fn mount_unread(&mut self, chip: &mut Medium) -> Result<(), String> {
        let (config, mut ram) = self.draw(chip);
        chip.inner_mut().chip_mut().power_on(None);
        chip.watch(None);
        chip.inner_mut().begin(&mut self.rng);
        let mounted = any::mount(AnyNand::lent(chip), &mut ram, config);
        let none = matches!(mounted, Err(VolumeError::NotFormatted));
        drop(mounted);
        chip.inner_mut().end();
        match none {
            true => Err("where a page cannot be read, a mount says that there is no volume".into()),
            false => Ok(()),
        }
    }

    /// A mount, a look, operations, and the end. The first fills the chip and is not cut.
    fn session(
        &mut self,
        chip: &mut Medium,
        first: bool,
        empty: &mut (u32, u32),
    ) -> Result<End, String> {
        let cut = self.plan.cut(&mut self.rng);
        if std::mem::take(&mut self.unmounted) && self.plan.unread && self.rng.one_in(2) {
            self.mount_unread(chip)?;
        }
        self.flip_bits(chip)?;
        if self.number % 8 == 5 && !self.shaken {
            let read = self.read_copy(chip);
            read.map_err(|e| format!("a copy mounted to be read: {e}"))?;
        }
        // A guard walks a copy of all at each checkpoint: with that many names that
        // is all a history would do.
        let many = matches!(self.plan.large, Large::Directory | Large::Directories);
        let guarded = self.number % 8 == 3 && !many && !self.shaken;
        let (mut config, mut ram) = self.draw(chip);
        config.read_only = !first && self.rng.one_in(16);
        let at = (!first).then_some(cut);
        let Some(mut fs) = Self::mount(chip, config, at, &mut ram, guarded)? else {
            self.done.mounts_cut += 1;
            self.cut = format!("in a mount, {cut:?}");
            return Ok(End::Cut);
        };
        if first {
            *empty = free(&mut fs);
        }
        let end = self.mounted(&mut fs, first, config.read_only, guarded)?;
        self.cut = format!("{cut:?}");
        self.end(fs, end)
    }

    fn end(&mut self, mut fs: Fs<'_, '_>, end: End) -> Result<End, String> {
        if end == End::Cut {
            self.done.cuts += 1;
        }
        if end != End::Unmount {
            return Ok(end);
        }
        let worn = fs.volume().is_worn();
        match fs.into_volume().unmount() {
            Ok(_) => {
                self.model.settle_all();
                self.unmounted = true;
                Ok(end)
            }
            Err((_, e)) if is_cut(&e) => {
                self.done.cuts += 1;
                Ok(End::Cut)
            }
            Err((_, VolumeError::NoSpace)) => Ok(end),
            Err((_, VolumeError::ReadOnly)) if worn => Ok(End::Worn),
            Err((_, e)) => Err(format!("unmount fails: {e}")),
        }
    }

    fn mounted(
        &mut self,
        fs: &mut Fs<'_, '_>,
        first: bool,
        only_reads: bool,
        guarded: bool,
    ) -> Result<End, String> {
        let checked = self.check(fs, only_reads);
        if is_off(fs) {
            return Ok(End::Cut);
        }
        checked?;
        let (every, salt) = (if self.rng.one_in(8) { 1 } else { 40 }, self.rng.next_u64());
        let looked = look(fs, &mut self.model, self.done, every, salt);
        if is_off(fs) {
            return Ok(End::Cut);
        }
        looked?;
        if fs.volume().is_worn() {
            return Ok(End::Worn);
        }
        if only_reads {
            return Ok(End::Cut);
        }
        let unmounts = self.rng.one_in(12);
        let most = if unmounts {
            self.rng.below(3000)
        } else {
            200_000
        };
        let text = &mut self.text;
        let (model, rng) = (&mut self.model, &mut self.rng);
        let mut work = Work::new(fs, model, rng, &self.plan, self.done, text);
        work.calm = guarded;
        let end = Self::operate(&mut work, first, most);
        self.shaken |= work.is_shaken();
        Ok(match end? {
            None if unmounts => End::Unmount,
            end => end.unwrap_or(End::Cut),
        })
    }

    /// Does so many operations. Returns how the session ended before, if it did.
    fn operate(work: &mut Work<'_, '_, '_>, first: bool, most: u64) -> Result<Option<End>, String> {
        for _ in 0..most {
            if first && work.is_tight() {
                break;
            }
            let stepped = if first { work.fill() } else { work.step() };
            match stepped {
                Ok(()) => {}
                Err(Stop::Cut) => return Ok(Some(End::Cut)),
                Err(Stop::Worn) => return Ok(Some(End::Worn)),
                Err(Stop::Shaken) => {
                    work.end_shaken();
                    work.done.unread += 1;
                    return Ok(Some(End::Cut));
                }
                Err(Stop::Bad(what)) => return Err(what),
            }
        }
        work.read_all_again();
        Ok(None)
    }

    fn check(&mut self, fs: &mut Fs<'_, '_>, only_reads: bool) -> Result<(), String> {
        match self.shaken {
            true => self.shaken = !check_shaken(fs, only_reads)?,
            false => check_all(fs)?,
        }
        Ok(())
    }

    /// Fills the volume until there is no space, compares all, and empties it: all
    /// space must be free again.
    fn fill_and_empty(&mut self, chip: &mut Medium, empty: (u32, u32)) -> Result<(), String> {
        self.text.clear();
        let (config, mut ram) = self.draw(chip);
        let mut fs =
            Self::mount(chip, config, None, &mut ram, false)?.ok_or("cut without a cut")?;
        self.check(&mut fs, false)?;
        look(&mut fs, &mut self.model, self.done, 1, 0)?;
        self.fill_up(&mut fs)?;
        self.end(fs, End::Unmount)?;
        let (config, mut ram) = self.draw(chip);
        let mut fs =
            Self::mount(chip, config, None, &mut ram, false)?.ok_or("cut without a cut")?;
        check_all(&mut fs)?;
        look(&mut fs, &mut self.model, self.done, 1, 0)?;
        self.remove_all(&mut fs)?;
        // What is left of the maps of directories, each page in another block, comes together.
        while fs
            .volume()
            .gc(64)
            .map_err(|e| format!("cleaning fails: {e}"))?
        {}
        self.end(fs, End::Unmount)?;
        let (config, mut ram) = self.draw(chip);
        let mut fs =
            Self::mount(chip, config, None, &mut ram, false)?.ok_or("cut without a cut")?;
        check_all(&mut fs)?;
        let now = free(&mut fs);
        let held = held(&mut fs);
        drop(fs);
        let bad = bad_blocks(chip) as u32;
        let allowed = ALLOWED + bad;
        let pages = chip.geometry().pages_per_block();
        // A directory keeps its maps, and idle cleaning leaves blocks alone of which they
        // fill more than a quarter.
        let maps = held.iter().filter(|e| e.0.starts_with("Hash"));
        let maps: u32 = maps.map(|e| e.1).sum();
        if now.1 + allowed + 4 * maps / pages < empty.1 || now.0 + allowed * pages + maps < empty.0
        {
            return Err(format!(
                "of {empty:?} free pages and blocks after the format {now:?} are left, {bad} blocks are bad; in use: {held:?}"
            ));
        }
        Ok(())
    }

    fn fill_up(&mut self, fs: &mut Fs<'_, '_>) -> Result<(), String> {
        let text = &mut self.text;
        let (model, rng) = (&mut self.model, &mut self.rng);
        let mut work = Work::new(fs, model, rng, &self.plan, self.done, text);
        let mut size = self.plan.size_max;
        let mut n = 0;
        while size > 64 {
            let at = (ROOT, format!("fill{n}"));
            n += 1;
            let made = work.create_at(&at, size).map_err(said)?;
            if !made {
                size /= 4;
            }
        }
        work.sync().map_err(said)
    }

    fn remove_all(&mut self, fs: &mut Fs<'_, '_>) -> Result<(), String> {
        let text = &mut self.text;
        let (model, rng) = (&mut self.model, &mut self.rng);
        let mut work = Work::new(fs, model, rng, &self.plan, self.done, text);
        // Directories below others come later.
        let mut dirs: Vec<Id> = vec![ROOT];
        let mut n = 0;
        while n < dirs.len() {
            let d = dirs[n];
            for (name, entry) in work.model.dir(d).names.clone() {
                match entry {
                    Entry::Dir(child) => dirs.push(child),
                    Entry::File(f) => {
                        if !work.unlink_at(&(d, name), f).map_err(said)? {
                            return Err("there is no space to remove a file".into());
                        }
                    }
                }
            }
            n += 1;
        }
        for &d in dirs[1..].iter().rev() {
            if !work.rmdir_of(d).map_err(said)? {
                return Err("there is no space to remove a directory".into());
            }
        }
        work.sync().map_err(said)?;
        match fs.readdir(ROOT_INO, 0, &mut |_| true) {
            Ok(()) => Ok(()),
            Err(e) => Err(format!("listing fails: {e}")),
        }
    }
}

const ROOT_INO: u64 = flashkit_flashlight::ROOT_DIR as u64;

/// Blocks that an emptied volume, cleaned, may have fewer than a new one: open blocks, and
/// what the checkpoint holds.
const ALLOWED: u32 = 8;

/// Bytes of a tag that all forms have (docs/format.md).
const TAG: u32 = 24;

/// Blocks that are kept for roots (docs/format.md).
const ROOTS: usize = 4;

fn said(stop: Stop) -> String {
    match stop {
        Stop::Cut => "cut without a cut".into(),
        Stop::Worn => "worn out".into(),
        Stop::Shaken => "pages cannot be read".into(),
        Stop::Bad(what) => what,
    }
}
