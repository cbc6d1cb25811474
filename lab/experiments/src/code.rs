//! Which code a result was made with.

use crate::study::{Case, System};

/// The sources that decide results, by groups (`build.rs`).
const GROUPS: &[(&str, u64)] = &include!(concat!(env!("OUT_DIR"), "/code.rs"));

/// What identifies the code of these groups together.
pub fn of(groups: &[&str]) -> String {
    let mut hash = 0u64;
    for (name, code) in GROUPS {
        if groups.contains(name) {
            hash = hash.rotate_left(7) ^ code;
        }
    }
    format!("{hash:016x}")
}

/// The groups that a file system's results depend on.
fn groups(system: System) -> &'static [&'static str] {
    match system {
        System::FlashLight => &["workload", "flashlight"],
        System::FlashLightMtd => &["workload", "flashlight", "mounted", "guest"],
        System::LittleFs | System::Yaffs2 => &["workload", "rivals"],
        System::Ext4Jftl => &["workload", "jftl"],
        System::F2fsJftl => &["workload", "jftl", "guest"],
        System::Ubifs | System::Jffs2 => &["workload", "guest"],
    }
}

/// What identifies the code that a case runs by, and how it is run.
pub fn of_case(case: &Case) -> String {
    let mut all = groups(case.system).to_vec();
    if case.id.starts_with("micro/") || case.id.starts_with("uflip/") {
        all.push("micro");
    }
    let flags = [case.fsync, case.cold, case.timed].map(u8::from);
    let [fsync, cold, timed] = flags;
    format!("{}-{}-{fsync}{cold}{timed}", of(&all), case.request)
}
