//! The trace being written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

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

/// So long after an operation it is in the file at the latest, whatever becomes of this process.
const LATE: Duration = Duration::from_millis(500);

/// Lines go to the file together, and whole: a longer buffer than they and one more take.
const TOGETHER: usize = 64 << 10;
const BUFFER: usize = 4 * TOGETHER;

/// Writes operations; neighbours that are one are written as one, if they come soon after each
/// other. What cannot be written is told at the end: the file system goes on without its trace.
pub struct Script {
    writer: Arc<Mutex<Writer>>,
    pub recorded: Arc<Mutex<Recorded>>,
}

struct Writer {
    to: Option<Output>,
    pending: Option<Op>,
    /// Whether the pending operation was there at the last look.
    waits: bool,
    /// Bytes that are written and not in the file yet, about.
    unflushed: usize,
    recorded: Arc<Mutex<Recorded>>,
}

impl Script {
    pub fn create(path: &Path) -> io::Result<Script> {
        let file = BufWriter::with_capacity(BUFFER, File::create(path)?);
        let to = if path.extension().is_some_and(|end| end == "gz") {
            Output::Compressed(GzEncoder::new(file, Compression::default()))
        } else {
            Output::Plain(file)
        };
        let recorded = Arc::<Mutex<Recorded>>::default();
        let writer = Arc::new(Mutex::new(Writer {
            to: Some(to),
            pending: None,
            waits: false,
            unflushed: 0,
            recorded: recorded.clone(),
        }));
        let looked = Arc::downgrade(&writer);
        std::thread::Builder::new()
            .name("trace".into())
            .spawn(move || keep_up(&looked))?;
        Ok(Script { writer, recorded })
    }

    pub fn leave_out(&mut self, what: &'static str) {
        locked(&self.writer).note(|recorded| *recorded.left_out.entry(what).or_default() += 1);
    }

    pub fn write(&mut self, op: Op) {
        locked(&self.writer).write(op);
    }

    /// What was written so far is in the file.
    pub fn flush(&mut self) {
        locked(&self.writer).flush();
    }

    /// The end of the trace, with what it leaves out as a comment.
    pub fn finish(&mut self) {
        locked(&self.writer).finish();
    }
}

/// Lets the file keep up with what is recorded, as long as somebody records.
fn keep_up(writer: &Weak<Mutex<Writer>>) {
    loop {
        std::thread::sleep(LATE);
        let Some(writer) = writer.upgrade() else {
            return;
        };
        locked(&writer).look();
    }
}

fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Writer {
    fn write(&mut self, op: Op) {
        self.waits = false;
        if let Some(last) = &mut self.pending
            && join(last, &op)
        {
            return;
        }
        if let Some(last) = self.pending.replace(op) {
            self.put(&last);
        }
    }

    /// An operation that nothing has joined since the last look is written.
    fn look(&mut self) {
        if self.waits
            && let Some(last) = self.pending.take()
        {
            self.put(&last);
        }
        self.waits = self.pending.is_some();
        self.flush();
    }

    /// A compressed trace can be read up to here: that is zlib's sync flush.
    fn flush(&mut self) {
        if std::mem::take(&mut self.unflushed) == 0 {
            return;
        }
        if let Some(to) = &mut self.to {
            let flushed = to.as_write().flush();
            self.check(flushed);
        }
    }

    fn finish(&mut self) {
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
        let mut line = Vec::new();
        let written = trace::write([op], &mut line).and_then(|()| to.as_write().write_all(&line));
        let done = written.is_ok();
        self.check(written);
        self.unflushed += line.len();
        if self.unflushed >= TOGETHER {
            self.flush();
        }
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
        work(&mut locked(&self.recorded))
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
