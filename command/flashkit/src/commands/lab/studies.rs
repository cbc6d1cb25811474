//! `flashkit lab run` of a study: results in a folder, resumed where it was left.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

use flashkit_experiments::study::{self, Case, Folder, Guests, How};
use flashkit_experiments::{Scale, Study};

use super::guest::{MEMORY, Place, this_program};
use crate::Outcome;
use crate::failure::{FAILED, Usage, complain};
use crate::progress::Progress;
use crate::volume::{RAM_DEFAULT, ram_least};
use crate::{text, values};

/// What of a study is run, and where. Other experiments have `--only` of it.
#[derive(clap::Args)]
pub struct Choice {
    /// Folder of the results; what is there is not run again
    #[arg(long, value_name = "FOLDER", default_value = "lab-results")]
    pub results: PathBuf,
    /// Only tables and figures whose titles contain this, of a study cases whose names do; may be
    /// repeated
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Of a study: cases, or guests, at a time [default: one for each processor]
    #[arg(long, value_name = "N",
          value_parser = values::number::<usize>("a number of cases", 1, 1 << 16))]
    jobs: Option<usize>,
    /// Of a study: run cases again that have failed
    #[arg(long)]
    retry: bool,
    /// Of a study: run cases again whose results were made by older code
    #[arg(long)]
    stale: bool,
    /// Of a study: RAM of FlashLight mounted in a guest, in bytes, up to 4GiB;
    /// results of another go to a folder of their own [default: 16384]
    #[arg(long, value_name = "BYTES", value_parser = values::memory)]
    mount_ram: Option<usize>,
    /// Of a study: print a command for each case that has no result yet, and run none
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    place: Place,
}

/// Runs what has no result yet and prints what there is.
pub fn run(
    study: &Study,
    scale: Scale,
    choice: &Choice,
    json: bool,
    out: &mut dyn Write,
) -> Outcome {
    let all = (study.cases)(scale);
    let cases: Vec<Case> = all.into_iter().filter(|case| choice.wants(case)).collect();
    if cases.is_empty() {
        return Err(Usage(format!("no case of {} is called so", study.name)).into());
    }
    choice.check_ram(&cases)?;
    let folder = Folder::at(&choice.results);
    if choice.plan {
        return plan(study, &cases, &folder, choice.mount_ram(), out);
    }
    let progress = Mutex::new(Progress::of_pieces(study.name, cases.len() as u64));
    let summary = study::run(
        &cases,
        &How {
            folder: &folder,
            guests: &|| choice.guests(),
            jobs: choice.jobs(),
            retry: choice.retry,
            stale: choice.stale,
            progress: &|step| {
                if let Ok(mut progress) = progress.lock() {
                    progress.at(step.done as u64);
                }
            },
        },
    );
    drop(progress);
    let outcomes = folder.load_all(&cases)?;
    let report = (study.report)(&outcomes);
    if json {
        let object = report.json(study.name, study.source);
        writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
    } else {
        super::print(study.name, study.source, &report, out)?;
    }
    out.flush()?;
    let summary = summary?;
    for (why, cases) in summary.left_out {
        let cases = text::plural(cases as u64, "case");
        complain(&format!("{cases} left out: {why}"));
    }
    if summary.failed > 0 {
        let failed = text::plural(summary.failed as u64, "case");
        complain(&format!("{failed} failed; --retry runs them again"));
        return Ok(ExitCode::from(FAILED));
    }
    Ok(ExitCode::SUCCESS)
}

/// A command for each case that has no result, for whatever spreads commands over machines.
fn plan(
    study: &Study,
    cases: &[Case],
    folder: &Folder,
    mount_ram: usize,
    out: &mut dyn Write,
) -> Outcome {
    for case in cases {
        if case.system.missing().is_none() && folder.load(&case.id)?.is_none() {
            let results = text::path(folder.dir());
            let (name, id) = (study.name, &case.id);
            writeln!(
                out,
                "flashkit lab run {name} --results '{results}' --mount-ram {mount_ram} --jobs 1 --only '={id}' >/dev/null"
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Choice {
    fn wants(&self, case: &Case) -> bool {
        let named = |text: &String| match text.strip_prefix('=') {
            Some(whole) => case.id == whole,
            None => case.id.contains(text.as_str()),
        };
        self.only.is_empty() || self.only.iter().any(named)
    }

    /// Refuses what is given and is for studies alone.
    pub fn check_no_study(&self, name: &str) -> anyhow::Result<()> {
        let given = [
            ("--jobs", self.jobs.is_some()),
            ("--retry", self.retry),
            ("--stale", self.stale),
            ("--mount-ram", self.mount_ram.is_some()),
            ("--plan", self.plan),
            ("--image", self.place.folder.is_given()),
            ("--kvm", self.place.kvm),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => {
                Err(Usage(format!("{option}: {name} is an experiment, not a study")).into())
            }
            None => Ok(()),
        }
    }

    /// Refuses RAM that is too small for a chip.
    fn check_ram(&self, cases: &[Case]) -> anyhow::Result<()> {
        for chip in cases.iter().map(|case| case.chip) {
            let (ram, least) = (self.mount_ram(), ram_least(chip));
            if self.mount_ram.is_some() && ram < least {
                let name = chip.name;
                let why =
                    format!("--mount-ram {ram}: too small: {name} needs at least {least} bytes");
                return Err(Usage(why).into());
            }
        }
        Ok(())
    }

    fn mount_ram(&self) -> usize {
        self.mount_ram.unwrap_or(RAM_DEFAULT)
    }

    fn jobs(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(processors)
    }

    fn guests(&self) -> anyhow::Result<Guests> {
        Ok(Guests {
            image: self.place.folder.image()?,
            program: this_program()?,
            memory: MEMORY,
            mount_ram: self.mount_ram(),
            kvm: self.place.kvm,
        })
    }
}
