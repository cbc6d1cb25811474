//! Mount options.

use std::time::Duration;

use crate::{Log, mountpoint};

/// Some 31 years.
const SECONDS_MAX: f64 = 1e9;
const DAY: Duration = Duration::from_secs(86_400);

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Refuse every change.
    pub read_only: bool,
    /// Let other users in. Who may do what is then decided by mode, owner and group, as on any
    /// file system; the kernel checks that in any case.
    pub allow_other: bool,
    /// What stands in the first column of `/proc/mounts`.
    pub fs_name: String,
    /// Shows as `fuse.NAME` in `/proc/mounts`.
    pub subtype: String,
    /// How long the kernel may keep attributes. Long is safe: every change passes the kernel.
    pub attr_timeout: Duration,
    /// How long the kernel may keep names, and the absence of names.
    pub entry_timeout: Duration,
    /// Gather small writes, as long as there is plenty of room for them, until `fsync`, the next
    /// commit, or whatever makes them matter. With `sync` nothing is gathered.
    pub writeback: bool,
    /// Make every change durable before it is answered.
    pub sync: bool,
    /// What is durable for the file system is so for the disk below its image. The mount itself has
    /// no use for this: it is for whoever opens the image.
    pub barrier: bool,
    /// How long after a change everything is made durable; zero: never.
    pub commit: Duration,
    /// In how long the whole chip is read once, in idle time; zero: never.
    pub scrub: Duration,
    /// Where what goes wrong is said besides stderr.
    pub log: Log,
    /// When the file system's own records are found to be damaged, changes
    /// are refused from then on.
    pub fall_back: bool,
    /// Which reads change access times.
    pub atime: AccessTimes,
    /// Flags that go to `mount(2)` as they are: `noexec`, `nosuid`, ...
    pub flags: Vec<MountFlag>,
}

/// Which reads change access times. The kernel answers from what it keeps without
/// asking: such reads change none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimes {
    /// None: each would cost flash.
    #[default]
    Never,
    /// The first after a change, and one a day.
    Relative,
    /// All.
    Always,
}

/// A flag for `mount(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountFlag {
    /// No programs are started from it.
    NoExec,
    /// Device nodes work.
    Dev,
    /// Set-user-ID programs work.
    Suid,
    /// Access times are not kept.
    NoAtime,
    /// Every write is synchronous.
    Sync,
    /// Every change of a directory is synchronous.
    DirSync,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            read_only: false,
            allow_other: false,
            fs_name: "flashkit".into(),
            subtype: "flashkit".into(),
            attr_timeout: Duration::from_secs(60),
            entry_timeout: Duration::from_secs(60),
            writeback: true,
            sync: false,
            barrier: true,
            commit: Duration::from_secs(5),
            scrub: 14 * DAY,
            log: Log::default(),
            fall_back: true,
            atime: AccessTimes::Never,
            flags: Vec::new(),
        }
    }
}

impl MountOptions {
    /// The default where a disk is shown as a file: every write goes through at once. Who writes to
    /// a disk has a cache of his own, decides what is written when, and wants to know what fails.
    pub fn for_disk() -> Self {
        MountOptions {
            writeback: false,
            ..MountOptions::default()
        }
    }

    /// The names [`MountOptions::set`] knows, for help texts.
    pub const KNOWN: &'static str = "ro, rw, allow_other, default_permissions (always on), fsname=NAME, \
         subtype=NAME, attr_timeout=S and entry_timeout=S (60), exec, noexec, suid, nosuid, dev, nodev, \
         noatime (the default), relatime, strictatime, async, sync, dirsync, commit=S (5; 0: never), \
         barrier (the default), nobarrier, scrub=DAYS (14, up to 3650, or off), \
         errors=remount-ro (the default), errors=continue, writeback_cache (the default), \
         no_writeback_cache; and those of fstab: defaults, auto, noauto, user, nofail, x-...";

    /// Applies a list as `-o` takes it: `ro,allow_other,fsname=x`.
    ///
    /// # Errors
    /// The first option that is unknown or has a bad value.
    pub fn set(&mut self, list: &str) -> Result<(), String> {
        list.split(',')
            .filter(|o| !o.is_empty())
            .try_for_each(|o| self.set_one(o))
    }

    fn set_one(&mut self, option: &str) -> Result<(), String> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        match (name, value) {
            ("ro", None) => self.read_only = true,
            ("rw", None) => self.read_only = false,
            ("allow_other", None) => self.allow_other = true,
            // Always so, or the default anyway.
            ("default_permissions" | "defaults", None) => {}
            ("exec", None) => self.flag(MountFlag::NoExec, false),
            ("nosuid", None) => self.flag(MountFlag::Suid, false),
            ("nodev", None) => self.flag(MountFlag::Dev, false),
            ("async", None) => {
                self.sync = false;
                self.flag(MountFlag::Sync, false);
                self.flag(MountFlag::DirSync, false);
            }
            ("remount", None) => {
                return Err("a mount cannot be changed: unmount it and mount it anew".into());
            }
            // For `mount`, `systemd` and others who read fstab.
            ("auto" | "noauto" | "user" | "nouser" | "users" | "owner" | "group", None)
            | ("nofail" | "_netdev" | "norelatime" | "nostrictatime" | "nodiratime", None) => {}
            (name, _) if name.starts_with("x-") || name.starts_with("X-") || name == "comment" => {}
            ("noexec", None) => self.flag(MountFlag::NoExec, true),
            ("suid", None) => self.flag(MountFlag::Suid, true),
            ("dev", None) => self.flag(MountFlag::Dev, true),
            ("noatime", None) => {
                self.atime = AccessTimes::Never;
                self.flag(MountFlag::NoAtime, true);
            }
            ("relatime" | "atime", None) => {
                self.atime = AccessTimes::Relative;
                self.flag(MountFlag::NoAtime, false);
            }
            ("strictatime", None) => {
                self.atime = AccessTimes::Always;
                self.flag(MountFlag::NoAtime, false);
            }
            ("sync", None) => {
                self.sync = true;
                self.flag(MountFlag::Sync, true);
            }
            ("dirsync", None) => {
                self.sync = true;
                self.flag(MountFlag::DirSync, true);
            }
            ("barrier", None) => self.barrier = true,
            ("nobarrier", None) => self.barrier = false,
            ("errors", Some("remount-ro")) => self.fall_back = true,
            ("errors", Some("continue")) => self.fall_back = false,
            ("writeback_cache", None) => self.writeback = true,
            ("no_writeback_cache", None) => self.writeback = false,
            ("commit", Some(value)) => self.commit = seconds(option, value)?,
            ("scrub", Some("off")) => self.scrub = Duration::ZERO,
            ("scrub", Some(value)) => self.scrub = days(option, value)?,
            ("fsname", Some(value)) if !value.is_empty() => self.fs_name = value.into(),
            ("subtype", Some(value)) if !value.is_empty() => self.subtype = value.into(),
            ("attr_timeout", Some(value)) => self.attr_timeout = seconds(option, value)?,
            ("entry_timeout", Some(value)) => self.entry_timeout = seconds(option, value)?,
            _ => return Err(format!("unknown mount option `{option}`")),
        }
        Ok(())
    }

    /// Sets a flag, or takes it back: of options that contradict each other the last holds.
    fn flag(&mut self, flag: MountFlag, set: bool) {
        self.flags.retain(|held| *held != flag);
        if set {
            self.flags.push(flag);
        }
    }

    /// The options in the form that fuser takes.
    pub(crate) fn to_config(&self) -> fuser::Config {
        // Of root the kernel takes it as it is; of others fusermount3, among other options.
        let name = match mountpoint::is_root() {
            true => self.fs_name.clone(),
            false => escaped(&self.fs_name),
        };
        let mut options = vec![
            fuser::MountOption::FSName(name),
            // Not `MountOption::Subtype`: fuser hands that to fusermount3 only.
            fuser::MountOption::CUSTOM(format!("subtype={}", self.subtype)),
            fuser::MountOption::DefaultPermissions,
        ];
        if self.read_only {
            options.push(fuser::MountOption::RO);
        }
        for flag in &self.flags {
            let option = match flag {
                MountFlag::NoExec => fuser::MountOption::NoExec,
                MountFlag::Dev => fuser::MountOption::Dev,
                MountFlag::Suid => fuser::MountOption::Suid,
                MountFlag::NoAtime => fuser::MountOption::NoAtime,
                MountFlag::Sync => fuser::MountOption::Sync,
                MountFlag::DirSync => fuser::MountOption::DirSync,
            };
            options.push(option);
        }
        let mut config = fuser::Config::default();
        config.mount_options = options;
        if self.allow_other {
            config.acl = fuser::SessionACL::All;
        }
        config
    }
}

/// A value within a list of options, as fusermount3 reads it.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace(',', r"\,")
}

fn seconds(option: &str, value: &str) -> Result<Duration, String> {
    value
        .parse::<f64>()
        .ok()
        .filter(|s| (0.0..=SECONDS_MAX).contains(s))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| {
            format!("mount option `{option}`: not a number of seconds from 0 to {SECONDS_MAX}")
        })
}

fn days(option: &str, value: &str) -> Result<Duration, String> {
    value
        .parse::<f64>()
        .ok()
        .filter(|days| (0.0..=3650.0).contains(days))
        .map(|days| DAY.mul_f64(days))
        .ok_or_else(|| {
            format!("mount option `{option}`: not a number of days from 0 to 3650, nor off")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_applied_in_order() {
        let mut options = MountOptions::default();
        options
            .set("ro,allow_other,,fsname=a b,attr_timeout=0.5,defaults,rw")
            .unwrap();
        assert!(!options.read_only && options.allow_other);
        assert_eq!(options.fs_name, "a b");
        assert_eq!(options.attr_timeout, Duration::from_millis(500));
    }

    #[test]
    fn what_fstab_has_is_understood() {
        let mut options = MountOptions::default();
        assert!(options.writeback && !options.sync);
        assert_eq!(options.atime, AccessTimes::Never);
        let list =
            "defaults,noauto,user,nofail,x-systemd.automount,comment=mine,relatime,sync,commit=30";
        options.set(list).unwrap();
        assert!(options.sync);
        assert_eq!(options.scrub, 14 * DAY);
        for (value, is) in [
            ("1", DAY),
            ("0.5", DAY / 2),
            ("off", Duration::ZERO),
            ("7", 7 * DAY),
        ] {
            options.set(&format!("scrub={value}")).unwrap();
            assert_eq!(options.scrub, is);
        }
        for bad in [
            "scrub",
            "scrub=",
            "scrub=-1",
            "scrub=x",
            "scrub=NaN",
            "scrub=1e9",
        ] {
            assert!(options.set(bad).unwrap_err().contains(bad), "{bad}");
        }
        assert_eq!(options.atime, AccessTimes::Relative);
        assert_eq!(options.commit, Duration::from_secs(30));
        options.set("writeback_cache,strictatime,async").unwrap();
        assert!(options.writeback && !options.sync);
        assert_eq!(options.atime, AccessTimes::Always);
        options.set("noatime").unwrap();
        assert_eq!(options.atime, AccessTimes::Never);
    }

    #[test]
    fn of_contradicting_options_the_last_holds() {
        for (set, unset, flag) in [
            ("noexec", "exec", MountFlag::NoExec),
            ("suid", "nosuid", MountFlag::Suid),
            ("dev", "nodev", MountFlag::Dev),
            ("sync", "async", MountFlag::Sync),
            ("dirsync", "async", MountFlag::DirSync),
            ("noatime", "relatime", MountFlag::NoAtime),
            ("noatime", "strictatime", MountFlag::NoAtime),
        ] {
            let held = |list: String| {
                let mut options = MountOptions::default();
                options.set(&list).unwrap();
                assert_eq!(
                    options.sync,
                    list.ends_with("sync") && !list.ends_with("async")
                );
                options.flags
            };
            assert_eq!(held(format!("{set},{unset}")), [], "{set},{unset}");
            assert_eq!(
                held(format!("{unset},{set},{set}")),
                [flag],
                "{unset},{set}"
            );
        }
    }

    /// An image may have any name: what is behind a comma in it is no option.
    #[test]
    fn a_name_with_a_comma_is_one_option() {
        assert_eq!(escaped(r"a,allow_other\b c"), r"a\,allow_other\\b c");
    }

    #[test]
    fn of_barrier_and_nobarrier_the_last_holds() {
        let mut options = MountOptions::default();
        for (list, barrier) in [("ro", true), ("nobarrier", false), ("barrier", true)] {
            options.set(list).unwrap();
            assert_eq!(options.barrier, barrier, "{list}");
        }
        options.set("barrier,nobarrier").unwrap();
        assert!(!options.barrier);
    }

    #[test]
    fn unknown_options_and_values_are_named() {
        let mut options = MountOptions::default();
        assert_eq!(
            options.set("ro,frob").unwrap_err(),
            "unknown mount option `frob`"
        );
        assert!(
            options
                .set("attr_timeout=-1")
                .unwrap_err()
                .contains("attr_timeout=-1")
        );
        assert!(options.set("attr_timeout=NaN").is_err());
        assert!(
            options
                .set("remount,ro")
                .unwrap_err()
                .contains("unmount it")
        );
        assert!(options.set("fsname=").is_err());
        assert!(options.set("ro=1").is_err());
    }
}
