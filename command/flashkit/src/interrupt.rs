//! Ctrl-C in work whose figures so far are of use.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// What a shell shows of a program that a signal has ended: 128, and the number of the signal.
const ENDED: usize = 128;

/// The signal that came, if one did. The work looks for it and ends; a second one ends the program.
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// From now on.
    pub fn noted() -> anyhow::Result<Interrupt> {
        let (came, again) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        for signal in [SIGINT, SIGTERM] {
            let status = ENDED + signal as usize;
            // Its effect is that of the time before: the flag is set below.
            flag::register_conditional_default(signal, again.clone()).context("signals")?;
            flag::register(signal, again.clone()).context("signals")?;
            flag::register_usize(signal, came.clone(), status).context("signals")?;
        }
        Ok(Interrupt(came))
    }

    /// Whether one came.
    pub fn is_here(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// The exit status if one came, or else this.
    pub fn or(&self, status: ExitCode) -> ExitCode {
        match self.0.load(Ordering::Relaxed) {
            0 => status,
            came => u8::try_from(came).map_or(status, ExitCode::from),
        }
    }
}
