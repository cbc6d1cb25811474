//! A progress bar on stderr: only on a terminal, and only once the work has taken two seconds.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work shows no bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// A bar over bytes or pieces. It removes itself when dropped.
pub struct Progress {
    bar: ProgressBar,
    since: Instant,
    shown: bool,
}

impl Progress {
    /// A bar for `what`, over so many bytes.
    pub fn new(what: &'static str, bytes: u64) -> Progress {
        let style = "{msg:10} {wide_bar} {binary_bytes}/{binary_total_bytes} {eta:>4}";
        Progress::styled(what, bytes, style)
    }

    /// A bar for `what`, over so many pieces.
    pub fn of_pieces(what: &'static str, pieces: u64) -> Progress {
        Progress::styled(what, pieces, "{msg:10} {wide_bar} {pos}/{len} {eta:>4}")
    }

    fn styled(what: &'static str, length: u64, style: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::hidden());
        bar.set_style(ProgressStyle::with_template(style).unwrap_or(ProgressStyle::default_bar()));
        bar.set_message(what);
        Progress {
            bar,
            since: Instant::now(),
            shown: false,
        }
    }

    /// So much is done.
    pub fn at(&mut self, done: u64) {
        if !self.shown && self.since.elapsed() > PATIENCE {
            // Draws nothing where stderr is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown = true;
        }
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
