//! The folder of results: a JSON file for each case.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flashkit_workload::{Phase, Report, Stopped};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Case, System};
use crate::{code, kept};

/// What a case has given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// [`Case::id`].
    pub case: String,
    /// The file system.
    pub system: System,
    /// The chip.
    pub chip: String,
    /// What is varied.
    pub params: Map<String, Value>,
    /// The figures; of a run that was stopped, those of what it has done.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub report: Option<Report>,
    /// Why there are none of the whole run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// Where and with what.
    pub made: Made,
}

/// Where and with what a result was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Version of this program.
    pub flashkit: String,
    /// The kernel that the file system is part of, with its package's version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kernel: Option<String>,
    /// The package that the file system was built from, where it is of another, with its version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub package: Option<String>,
    /// The machine's processor.
    pub machine: String,
    /// Seconds since the epoch.
    pub time: u64,
    /// Format of the result.
    #[serde(default)]
    pub format: u32,
    /// Which code made it.
    #[serde(default)]
    pub code: String,
}

impl Made {
    /// By this program, here and now.
    pub fn here(kernel: Option<String>) -> Made {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
            .map_or(std::env::consts::ARCH, |(_, name)| name.trim())
            .to_owned();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Made {
            flashkit: env!("CARGO_PKG_VERSION").to_owned(),
            kernel,
            package: None,
            machine: cpu,
            time: now.map_or(0, |now| now.as_secs()),
            format: kept::FORMAT,
            code: String::new(),
        }
    }

    /// With the code that it was made by.
    #[must_use]
    pub fn by(self, code: String) -> Made {
        Made { code, ..self }
    }

    /// Whether an older format, or other code than this, made the result.
    pub fn is_stale(&self, code: &str) -> bool {
        self.format != kept::FORMAT || self.code != code
    }

    /// By this program in this process.
    pub fn in_process(system: System) -> Made {
        let package = match system {
            System::Yaffs2 => flashkit_rivals::YAFFS2_PACKAGE,
            _ => None,
        };
        Made {
            package: package.map(str::to_owned),
            ..Made::here(None)
        }
    }
}

impl Outcome {
    /// The result of a case that was run; a state that is not as it should be is an error, and so
    /// is a run that was stopped.
    pub fn new(case: &Case, report: Result<Report, String>, made: Made) -> Outcome {
        let report = report.map(|mut report| {
            report.price(|reads, programs, erases| case.chip.energy_uj(reads, programs, erases));
            report
        });
        let checked = report.and_then(|report| match &report.stopped {
            Some(_) => Ok(report),
            None => match (case.check)(case, &report) {
                Ok(()) => Ok(report),
                Err(what) => Err(format!("initial state: {what}")),
            },
        });
        let (report, error) = match checked {
            Ok(report) => {
                let error = report.stopped.as_ref().map(|stopped| {
                    let Stopped { phase, ops, of } = stopped;
                    let seconds = report.total.flash_us / 1_000_000;
                    let last = report.phases.iter().rfind(|held| held.name == *phase);
                    let each = last.map_or(0, |held| held.flash_us) as f64 / (*ops).max(1) as f64;
                    format!(
                        "stopped after {seconds} s of flash time and {ops} of {of} operations of `{phase}`, {:.3} s each",
                        each / 1e6
                    )
                });
                (Some(report), error)
            }
            Err(error) => (None, Some(error)),
        };
        Outcome {
            case: case.id.clone(),
            system: case.system,
            chip: case.chip.name.to_owned(),
            params: case.params.clone(),
            report,
            error,
            made: made.by(code::of_case(case)),
        }
    }

    /// The figures of a whole run.
    pub fn whole(&self) -> Option<&Report> {
        self.report
            .as_ref()
            .filter(|report| report.stopped.is_none())
    }

    /// A phase of a whole run by name.
    pub fn phase(&self, name: &str) -> Option<&Phase> {
        let report = self.whole()?;
        report.phases.iter().find(|phase| phase.name == name)
    }

    /// A parameter as text.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.get(name)?.as_str()
    }

    /// A parameter as a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.params.get(name)?.as_f64()
    }
}

/// Where results are kept.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
}

impl Folder {
    /// A folder, which is made with the first result if it is absent.
    pub fn at(dir: &Path) -> Folder {
        Folder {
            dir: dir.to_owned(),
        }
    }

    /// The folder itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn path(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    /// Whether there is anything under a name.
    pub fn has(&self, id: &str) -> bool {
        self.path(id).exists()
    }

    /// The names below one, in order.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn ids(&self, below: &str) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        let mut folders = vec![below.to_owned()];
        while let Some(name) = folders.pop() {
            let Ok(entries) = fs::read_dir(self.dir.join(&name)) else {
                continue;
            };
            for entry in entries {
                let entry = entry?;
                let Ok(own) = entry.file_name().into_string() else {
                    continue;
                };
                let id = format!("{name}/{own}");
                if entry.file_type()?.is_dir() {
                    folders.push(id);
                } else if let Some(id) = id.strip_suffix(".json") {
                    found.push(id.to_owned());
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// The result of a case; `None` when there is none.
    ///
    /// # Errors
    /// There is one and it cannot be read.
    pub fn load(&self, id: &str) -> anyhow::Result<Option<Outcome>> {
        self.load_as(id)
    }

    /// What is kept under a name, whatever it is; `None` when there is nothing.
    ///
    /// # Errors
    /// There is something, and it is not that.
    pub fn load_as<T: DeserializeOwned>(&self, id: &str) -> anyhow::Result<Option<T>> {
        let path = self.path(id);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| path.display().to_string())?,
        };
        let held = serde_json::from_slice(&text);
        Ok(Some(held.with_context(|| path.display().to_string())?))
    }

    /// Keeps a result. It is there whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, outcome: &Outcome) -> anyhow::Result<()> {
        self.save_as(&outcome.case, outcome)
    }

    /// Keeps something under a name.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save_as<T: Serialize>(&self, id: &str, held: &T) -> anyhow::Result<()> {
        let path = self.path(id);
        let named = || path.display().to_string();
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(named)?;
        }
        let part = path.with_extension(format!("part-{}", std::process::id()));
        let text = serde_json::to_vec_pretty(held)?;
        let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &path));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written.with_context(named)
    }

    /// The results of these cases, as far as there are any.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn load_all(&self, cases: &[Case]) -> anyhow::Result<Vec<Outcome>> {
        let mut found = Vec::new();
        for case in cases {
            found.extend(self.load(&case.id)?);
        }
        Ok(found)
    }
}
