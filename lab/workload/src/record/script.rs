//! The trace being written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::trace::{self, Op};

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Lines of the trace.
    pub operations: u64,
    /// What the format cannot say, and how often it happened.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Why the trace is not complete, if it is not.
    pub failed: Option<String>,
}

enum Output {
    Plain(BufWriter<File>),
    Compressed(GzEncoder<BufWriter<File>>),
}

impl Output {
    fn as_write(&mut self) -> &mut dyn Write {
        match self {
            Output::Plain(to) => to,
            Output::Compressed(to) => to,
        }
    }
}

/// Writes operations; neighbours that are one are written as one. What cannot be written is told at
/// the end: the file system goes on without its trace.
pub struct Script {
    to: Option<Output>,
    pending: Option<Op>,
    pub recorded: Arc<Mutex<Recorded>>,
}

impl Script {
    pub fn create(path: &Path) -> io::Result<Script> {
        let file = BufWriter::new(File::create(path)?);
        let to = if path.extension().is_some_and(|end| end == "gz") {
            Output::Compressed(GzEncoder::new(file, Compression::default()))
        } else {
            Output::Plain(file)
        };
        Ok(Script {
            to: Some(to),
            pending: None,
            recorded: Arc::default(),
        })
    }

    pub fn leave_out(&mut self, what: &'static str) {
        self.note(|recorded| *recorded.left_out.entry(what).or_default() += 1);
    }

    pub fn write(&mut self, op: Op) {
        if let Some(last) = &mut self.pending
            && join(last, &op)
        {
            return;
        }
        if let Some(last) = self.pending.replace(op) {
            self.put(&last);
        }
    }

    /// What was written so far is in the file. Of a compressed trace it is so at its end only.
    pub fn flush(&mut self) {
        let flushed = match &mut self.to {
            Some(Output::Plain(to)) => to.flush(),
            _ => Ok(()),
        };
        self.check(flushed);
    }

    /// The end of the trace, with what it leaves out as a comment.
    pub fn finish(&mut self) {
        if let Some(last) = self.pending.take() {
            self.put(&last);
        }
        let left_out = self.note(|recorded| recorded.left_out.clone());
        let Some(mut to) = self.to.take() else {
            return;
        };
        let mut ended = Ok(());
        for (what, times) in left_out {
            ended = ended.and_then(|()| writeln!(to.as_write(), "# left out: {times} {what}"));
        }
        let ended = ended.and_then(|()| match to {
            Output::Plain(mut to) => to.flush(),
            Output::Compressed(to) => to.finish()?.flush(),
        });
        self.check(ended);
    }

    fn put(&mut self, op: &Op) {
        let Some(to) = &mut self.to else {
            return;
        };
        let written = trace::write([op], to.as_write());
        let done = written.is_ok();
        self.check(written);
        if done {
            self.note(|recorded| recorded.operations += 1);
        }
    }

    /// After a failure nothing more is written.
    fn check(&mut self, done: io::Result<()>) {
        if let Err(error) = done {
            self.to = None;
            self.note(|recorded| {
                recorded.failed.get_or_insert(error.to_string());
            });
        }
    }

    fn note<T>(&self, work: impl FnOnce(&mut Recorded) -> T) -> T {
        let recorded = self.recorded.lock();
        work(&mut recorded.unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Makes an operation part of the one before it, where one does the same as both; whether it did.
fn join(last: &mut Op, op: &Op) -> bool {
    match (&mut *last, op) {
        (
            Op::Create { path, size } | Op::Append { path, size },
            Op::Append {
                path: to,
                size: more,
            },
        ) if path == to => *size += more,
        (
            Op::Update { path, offset, size },
            Op::Update {
                path: to,
                offset: next,
                size: more,
            },
        )
        | (
            Op::Read { path, offset, size },
            Op::Read {
                path: to,
                offset: next,
                size: more,
            },
        ) if path == to && *offset + *size == *next => *size += more,
        // A file that was open when it lost its name, and is closed.
        (Op::Rename { from, to }, Op::Unlink { path })
            if to == path && path.starts_with(".unlinked-") =>
        {
            let path = std::mem::take(from);
            *last = Op::Unlink { path };
        }
        _ => return false,
    }
    true
}
