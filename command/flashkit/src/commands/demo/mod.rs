//! `flashkit demo`

mod compare;
mod figures;
mod plan;
mod seal;
mod store;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use flashkit_sim::{DEFAULT_PRESET, Preset};
use flashkit_vfs::{Counters, Error};

use crate::Outcome;
use crate::held::{Held, held};
use crate::output::{self, Output};
use crate::text;
use crate::values;
use crate::volume::{self, Access, Birth, Cut, Tuning, Volume};
use figures::Figures;
use plan::{Item, Plan};
use store::{Stored, Verified};

/// The image that is left behind.
const IMAGE: &str = "flashkit-demo.img";
/// How much of the chip to fill, in hundredths.
const FILL_PERCENT: u64 = 60;
/// Storing takes no longer than this on the machine, so that the whole demo ends in 30 s.
const STORE_TIME: Duration = Duration::from_secs(9);
/// Seed of the tear that the power cut leaves.
const SEED: u64 = 1;

/// Store a tree, cut the power in the middle, recover, verify every byte, show the cost.
#[derive(clap::Args)]
#[command(after_help = "\
No root, no FUSE, less than 30 seconds. Leaves flashkit-demo.img here, whole or not at all. One of
an earlier demo is replaced; with --force one in which something was changed since, too.")]
pub struct Args {
    /// Chip, as `flashkit chips` lists them
    #[arg(long, value_name = "NAME", value_parser = values::chip, default_value = DEFAULT_PRESET)]
    chip: &'static Preset,
    #[command(flatten)]
    bus: values::BusOption,
    /// RAM of the file system, in bytes, up to 4GiB [default: 16384, or what the chip needs if that
    /// is more]
    #[arg(long, value_name = "BYTES", value_parser = values::memory)]
    ram: Option<usize>,
    /// Overwrite a flashkit-demo.img that is not as an earlier demo left it
    #[arg(long)]
    force: bool,
    /// Directory to store [default: /usr/include, or what the machine has]
    dir: Option<PathBuf>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if !args.force {
        check_untouched(Path::new(IMAGE))?;
    }
    let page = u64::from(args.chip.page_size);
    let bytes_max = args.chip.geometry().capacity() / 100 * FILL_PERCENT;
    let mut plan = Plan::new(args.dir.as_deref(), bytes_max, page)?;

    output::clear_when_interrupted()?;
    let demo = Demo {
        image: Output::image(Path::new(IMAGE))?,
        chip: args.bus.of(args.chip),
        ram: args.ram,
    };
    let format = demo.format(out)?;
    let cut = demo.store_and_cut(&mut plan, out)?;
    let (recovered, mut wrong) = demo.recover(&plan, &cut, out)?;
    let recovery = recovered.mount_cost;
    let rest = store_rest(recovered, &mut plan, &cut, out)?;
    let (mount, verify, checked) = demo.verify(&plan, out)?;
    wrong.extend(checked.wrong);
    demo.check(out)?;

    let figures = Figures {
        format,
        store: cut.cost + rest,
        recovery,
        mount,
        verify,
        data_pages: plan.data_pages(page),
        bytes: plan.bytes,
        ram: cut.ram,
    };
    figures.print(&demo.chip, out)?;
    let chip = demo.chip;
    demo.image.finish()?;
    if !wrong.is_empty() {
        out.flush()?;
        bail!(
            "{}: {}, the first: {}",
            IMAGE,
            text::plural(wrong.len() as u64, "file"),
            wrong[0]
        );
    }
    compare::run(&chip, args.ram, out)?;
    writeln!(
        out,
        "\nThe chip is in {IMAGE}.\n  \
         mount it      flashkit mount {IMAGE} DIR\n  \
         look inside   flashkit ls -l {IMAGE}:/\n  \
         check it      flashkit fsck -n {IMAGE}\n  \
         its records   flashkit info {IMAGE}; flashkit dump {IMAGE}"
    )?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses an image that anything was done to since a demo has made it.
fn check_untouched(image: &Path) -> anyhow::Result<()> {
    let Some(what) = held(image)? else {
        return Ok(());
    };
    let untouched = what == Held::FlashLight
        && volume::open(image, Access::ReadOnly, Tuning::default())
            .is_ok_and(|mut volume| seal::is_untouched(volume.fs()));
    if !untouched {
        bail!("{IMAGE}: holds {what} that no demo has left so; --force overwrites it");
    }
    Ok(())
}

struct Demo {
    image: Output,
    chip: Preset,
    ram: Option<usize>,
}

/// How far storing came before the power went.
struct AtCut {
    /// Items stored and synced.
    items: usize,
    cost: Counters,
    /// RAM of the file system.
    ram: usize,
}

impl Demo {
    fn show_chip(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (chip, timing) = (&self.chip, self.chip.timing);
        let us = |ns: u64| ns as f64 / 1_000.0;
        writeln!(
            out,
            "chip     {}: {} blocks of {} pages of {} + {} bytes, {}; read {}, program {}, erase \
             {} us",
            chip.name,
            text::count(chip.blocks.into()),
            chip.pages_per_block,
            chip.page_size,
            chip.raw_spare,
            text::bytes(chip.geometry().capacity()),
            us(timing.read_ns),
            us(timing.program_ns),
            us(timing.erase_ns)
        )?;
        Ok(out.flush()?)
    }

    fn format(&self, out: &mut dyn Write) -> anyhow::Result<Counters> {
        let birth = Birth::reproducible();
        let cost = volume::mkfs(&self.image, &self.chip, self.ram, birth, None)?;
        // What can be wrong with chip and RAM has been said.
        self.show_chip(out)?;
        writeln!(out, "format   flashlight: {}", text::cost(cost))?;
        out.flush()?;
        Ok(cost)
    }

    fn store_and_cut(&self, plan: &mut Plan, out: &mut dyn Write) -> anyhow::Result<AtCut> {
        let more = if plan.truncated {
            " (what fits of it)"
        } else {
            ""
        };
        writeln!(
            out,
            "store    {}{more}: {}, {}, each synced before the next",
            text::path(&plan.source),
            text::plural(plan.files, "file"),
            text::bytes(plan.bytes)
        )?;
        out.flush()?;
        // About a program for each page of data and one for each entry; the cut is half way.
        let page = u64::from(self.chip.page_size);
        let after = (plan.data_pages(page) + plan.items.len() as u64) / 2;
        let mut volume = volume::open_with_cut(&self.image, self.ram, Cut { after, seed: SEED })?;
        let stored = store::store(volume.fs(), &plan.items, Instant::now() + STORE_TIME / 2)?;
        self.note_cut(plan, &mut volume, &stored, after, out)?;
        Ok(AtCut {
            items: stored.items,
            cost: volume.cost() - volume.mount_cost,
            ram: volume.ram_bytes(),
        })
    }

    fn note_cut(
        &self,
        plan: &mut Plan,
        volume: &mut Volume,
        stored: &Stored,
        after: u64,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let synced = text::plural(stored.items as u64, "entry").replace("entrys", "entries");
        if !volume.power_is_off() {
            if let Some(error) = &stored.error {
                return Err(not_stored(&plan.items[stored.items], error));
            }
            let mut short = "";
            if stored.late {
                plan.truncate(stored.items * 2);
                short = "; on this machine there is time for as many again";
            }
            writeln!(
                out,
                "cut      the power is gone without an unmount; {synced} synced{short}"
            )?;
        } else {
            let item = &plan.items[stored.items];
            writeln!(
                out,
                "cut      the power goes in flash operation {}, which is torn; {synced} synced\n         \
                 {} was being written",
                text::count(after + 1),
                text::name(&item.path)
            )?;
        }
        Ok(out.flush()?)
    }

    fn recover(
        &self,
        plan: &Plan,
        cut: &AtCut,
        out: &mut dyn Write,
    ) -> anyhow::Result<(Volume, Vec<String>)> {
        let mut volume = volume::open_new(&self.image, self.ram)?;
        writeln!(out, "recover  {}", text::cost(volume.mount_cost))?;
        out.flush()?;
        let items = cut.items.min(plan.items.len());
        let checked = store::verify(volume.fs(), &plan.items[..items]);
        let mut wrong = checked.wrong;
        let left = match plan.items.get(items) {
            Some(item) => store::in_flight(volume.fs(), item).unwrap_or_else(|what| {
                wrong.push(what.clone());
                what
            }),
            None => "nothing was being written".into(),
        };
        let state = match wrong.len() as u64 {
            0 => format!(
                "every synced byte is there: {}, {}",
                text::plural(checked.files, "file"),
                text::bytes(checked.bytes)
            ),
            n => format!("{} damaged", text::plural(n, "file")),
        };
        writeln!(out, "         {state}\n         {left}")?;
        out.flush()?;
        Ok((volume, wrong))
    }

    /// The checker's word on the image that is left behind.
    fn check(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let found = volume::fsck_new(&self.image, self.ram)?;
        if let Some(finding) = found.findings.first() {
            bail!("{IMAGE}: {}: {}", finding.place, finding.what);
        }
        writeln!(out, "check    no finding in {}", found.looked_at())?;
        Ok(out.flush()?)
    }

    fn verify(
        &self,
        plan: &Plan,
        out: &mut dyn Write,
    ) -> anyhow::Result<(Counters, Counters, Verified)> {
        let mut volume = volume::open_new(&self.image, self.ram)?;
        let mounted = volume.mount_cost;
        let checked = store::verify(volume.fs(), &plan.items);
        let cost = volume.cost() - mounted;
        seal::seal(volume.fs()).context(IMAGE)?;
        volume.unmount().context(IMAGE)?;
        let changed = match checked.changed {
            0 => String::new(),
            n => format!(
                "; {} changed on the host meanwhile",
                text::plural(n, "file")
            ),
        };
        let state = match checked.wrong.len() as u64 {
            0 => "every byte as in the source".into(),
            n => format!("{} not as in the source", text::plural(n, "entry")),
        };
        writeln!(
            out,
            "verify   {}, {}: {state}{changed}",
            text::plural(checked.files, "file"),
            text::bytes(checked.bytes)
        )?;
        out.flush()?;
        Ok((mounted, cost, checked))
    }
}

fn not_stored(item: &Item, error: &Error) -> anyhow::Error {
    anyhow!("{IMAGE}: storing {}: {error}", text::name(&item.path))
}

fn store_rest(
    mut volume: Volume,
    plan: &mut Plan,
    cut: &AtCut,
    out: &mut dyn Write,
) -> anyhow::Result<Counters> {
    let before = volume.cost();
    let from = cut.items.min(plan.items.len());
    let stored = store::store(
        volume.fs(),
        &plan.items[from..],
        Instant::now() + STORE_TIME,
    )?;
    if let Some(error) = stored.error {
        return Err(not_stored(&plan.items[from + stored.items], &error));
    }
    let mut short = "";
    if stored.late {
        plan.truncate(from + stored.items);
        short = " (as much as there is time for)";
    }
    let cost = volume.unmount().context(IMAGE)? - before;
    writeln!(
        out,
        "store    the rest{short}, and unmount: {}",
        text::cost(cost)
    )?;
    out.flush()?;
    Ok(cost)
}
