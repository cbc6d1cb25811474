//! Studies: the same operations over several file systems on the same chip.
//!
//! A study is a list of cases. A case is a trace over one file system from a fresh chip, run in
//! this process or in a guest, where the kernel's operations are counted by tracing; either way the
//! figures are those of a replay. Each result is a file of its own, so that a study can be stopped
//! and resumed, spread over machines, and be reported as far as it has come.
//!
//! | module | what it does |
//! | --- | --- |
//! | `result` | the folder of results |
//! | `here` | cases in this process |
//! | `disk` | cases in this process, of a file system of the kernel |
//! | `guest` | cases in a guest, many to a boot |
//! | `run` | all cases that have no result yet, on several threads |

mod disk;
mod guest;
pub(crate) mod here;
mod result;
mod run;

use std::sync::Arc;

use flashkit_sim::Preset;
use flashkit_workload::{Line, Report};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use guest::Guests;
pub use result::{Folder, Made, Outcome};
pub use run::{How, Progress, Summary, run};

/// A file system that is studied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// FlashLight, in this process.
    FlashLight,
    /// FlashLight on the kernel's MTD layer and mounted with FUSE, in a guest.
    #[serde(rename = "flashlight-mtd")]
    FlashLightMtd,
    /// littlefs, in this process, where it is in the build.
    LittleFs,
    /// ext4 of this machine's kernel on JFTL in this process, for root.
    #[serde(rename = "ext4-jftl")]
    Ext4Jftl,
    /// F2FS of a guest's kernel, on JFTL on its MTD layer.
    #[serde(rename = "f2fs-jftl")]
    F2fsJftl,
    /// Linux's UBIFS on UBI, in a guest.
    Ubifs,
    /// Linux's JFFS2, in a guest.
    Jffs2,
    /// YAFFS2 by its direct interface, in this process, where it is in the build.
    Yaffs2,
}

impl System {
    /// Those that are made for raw flash.
    pub const RAW: [System; 6] = [
        System::FlashLight,
        System::FlashLightMtd,
        System::LittleFs,
        System::Ubifs,
        System::Jffs2,
        System::Yaffs2,
    ];

    /// All of them.
    pub const ALL: [System; 8] = [
        System::FlashLight,
        System::FlashLightMtd,
        System::LittleFs,
        System::Ext4Jftl,
        System::F2fsJftl,
        System::Ubifs,
        System::Jffs2,
        System::Yaffs2,
    ];

    /// As options and file names have it.
    pub fn name(self) -> &'static str {
        match self {
            System::FlashLight => "flashlight",
            System::FlashLightMtd => "flashlight-mtd",
            System::LittleFs => "littlefs",
            System::Ext4Jftl => "ext4-jftl",
            System::F2fsJftl => "f2fs-jftl",
            System::Ubifs => "ubifs",
            System::Jffs2 => "jffs2",
            System::Yaffs2 => "yaffs2",
        }
    }

    /// As its authors write it.
    pub fn title(self) -> &'static str {
        match self {
            System::FlashLight => "FlashLight",
            System::FlashLightMtd => "FlashLight, mounted",
            System::LittleFs => "littlefs",
            System::Ext4Jftl => "ext4 on JFTL",
            System::F2fsJftl => "F2FS on JFTL",
            System::Ubifs => "UBIFS",
            System::Jffs2 => "JFFS2",
            System::Yaffs2 => "YAFFS2",
        }
    }

    /// The system of a name.
    pub fn find(name: &str) -> Option<System> {
        System::ALL.into_iter().find(|system| system.name() == name)
    }

    /// Whether it runs in a guest.
    pub fn in_guest(self) -> bool {
        !matches!(
            self,
            System::FlashLight | System::LittleFs | System::Ext4Jftl | System::Yaffs2
        )
    }

    /// Why this program cannot run it here, where that is known before it is tried.
    pub fn missing(self) -> Option<&'static str> {
        match self {
            System::LittleFs if !flashkit_rivals::LITTLEFS => {
                Some("littlefs is not in this build (cargo run --release --features littlefs)")
            }
            System::Yaffs2 if !flashkit_rivals::YAFFS2 => Some(
                "YAFFS2 is not in this build (lab/rivals/yaffs2/fetch.sh && cargo run --release --features yaffs2)",
            ),
            System::Ext4Jftl => crate::rig::missing(),
            _ => None,
        }
    }
}

/// One measurement of a study.
#[derive(Clone)]
pub struct Case {
    /// What names it and its result: words and slashes.
    pub id: String,
    /// The file system.
    pub system: System,
    /// The chip. In a guest it has the geometry that nandsim has.
    pub chip: &'static Preset,
    /// What is varied, for the tables.
    pub params: Map<String, Value>,
    /// The operations.
    pub lines: Arc<dyn Fn() -> Vec<Line> + Send + Sync>,
    /// Bytes in one read or write.
    pub request: usize,
    /// Whether every writing operation ends in an fsync.
    pub fsync: bool,
    /// Whether the page cache is emptied at the end of each phase, so that a test reads from flash.
    pub cold: bool,
    /// What must be true of its phases for the result to count: see [`Check`].
    pub check: Check,
    /// Whether time matters, because there are long pauses or a kernel's timers decide what is
    /// written: in a guest it goes by instructions then and is skipped
    /// while there is nothing to do.
    pub timed: bool,
    /// Seconds that it may take in a guest.
    pub limit: u64,
    /// Seconds of flash time after which a run of littlefs is stopped: what takes no end costs the
    /// processor more time than it tells anything new.
    pub flash_limit: u64,
}

/// Looks at the figures of the phases before the test, and says what the state they have made is
/// not.
pub type Check = Arc<dyn Fn(&Case, &Report) -> Result<(), String> + Send + Sync>;

/// A check for cases that begin on a fresh chip.
pub fn any_state() -> Check {
    Arc::new(|_, _| Ok(()))
}
