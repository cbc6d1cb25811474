//! A board in QEMU whose SPI NAND and power are this program's: firmware is tested from the bus up.
//!
//! The image runs on a Cortex-M3 in QEMU. What its SPI bus moves comes here, to a chip of the
//! simulator at command level. The power is cut between two bytes: the chip tears what it is at,
//! and QEMU is killed. Then the image starts again on the same chip. What it has said to be durable
//! must be there, by its own words after the start, and by a mount of the chip here.
//!
//! Nothing depends on the time of the host. A seed gives the same bytes over the bus, the same cuts
//! and the same instructions each time.
//!
//! | module | what it is |
//! | --- | --- |
//! | `emulator` | QEMU: started, watched, killed |
//! | `link` | the messages that are the image's SPI bus |
//! | `told` | what the image prints |
//! | `ledger` | what must be on the chip by that, and whether it is |
//! | `look` | the chip as FlashLight on the host finds it, and a volume filled by it |
//! | `figures` | what calls of the image cost |
//! | `run` | session after session, each ended by a cut |

#![forbid(unsafe_code)]

mod emulator;
mod figures;
mod ledger;
mod link;
mod look;
mod run;
mod told;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::run::Plan;

/// Runs a firmware image in QEMU with a simulated SPI NAND, and cuts its power at random bytes.
#[derive(Parser)]
#[command(after_help = "Example:\n  flashkit-board logger.elf --cuts 200 --seed 1")]
struct Args {
    /// The image, an ELF file for the lm3s6965evb
    image: PathBuf,
    /// Sessions, each ended by a cut
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..))]
    cuts: u32,
    /// Seed of the cuts, their tears and the chip's faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tell the image to forget syncs that it says it has made; the run fails if this goes unseen
    #[arg(long)]
    forget: bool,
    /// Tell the image from Rust to read its log by the boot reader before each mount as well
    #[arg(long, conflicts_with = "forget")]
    boot: bool,
    /// Bytes of stack that the image may use
    #[arg(long, value_name = "BYTES")]
    stack: Option<u32>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let plan = Plan {
        image: args.image,
        cuts: args.cuts,
        seed: args.seed,
        word: match (args.forget, args.boot) {
            (true, _) => Some("forget"),
            (_, true) => Some("boot"),
            _ => None,
        },
    };
    let again = format!(
        "flashkit-board {} --cuts {} --seed {}{}{}",
        plan.image.display(),
        plan.cuts,
        plan.seed,
        if plan.word.is_some() { " --" } else { "" },
        plan.word.unwrap_or_default()
    );
    let done = match run::run(&plan) {
        Ok(done) => done,
        Err(error) => {
            eprintln!("{error:#}\nto repeat it: {again}");
            return ExitCode::FAILURE;
        }
    };
    if args.forget {
        return match done.lost {
            Some(what) => {
                println!("syncs that were forgotten were found out: {what}");
                ExitCode::SUCCESS
            }
            None => {
                eprintln!("syncs were forgotten, and nothing was found\nto repeat it: {again}");
                ExitCode::FAILURE
            }
        };
    }
    if let Some(what) = done.lost {
        eprintln!("{what}\nto repeat it: {again}");
        return ExitCode::FAILURE;
    }
    print!("{}", done.text);
    match args.stack {
        Some(most) if done.stack > most => {
            eprintln!("more than {most} bytes of stack\nto repeat it: {again}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
