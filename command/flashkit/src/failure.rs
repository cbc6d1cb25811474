//! Exit statuses, and errors as one line on stderr.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::holder::holder;
use crate::text;

/// Failed, or found damage.
pub const FAILED: u8 = 1;
/// Called in a wrong way.
pub const USAGE: u8 = 2;
/// Whoever read our output has gone: what a shell shows for SIGPIPE.
const PIPE_CLOSED: u8 = 141;

/// The end of what the parser says of a value that is not there.
const EMPTY: &str = " but none was supplied";

/// An error of the caller's, beyond what the option parser finds.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The standard output. Its errors are of nothing that a command was about.
pub struct Stdout(pub io::StdoutLock<'static>);

/// Why the standard output did not take something.
#[derive(Debug)]
struct StdoutError(io::Error);

impl Stdout {
    fn own<T>(done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| io::Error::new(error.kind(), StdoutError(error)))
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Stdout::own(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Stdout::own(self.0.flush())
    }
}

impl std::fmt::Display for StdoutError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "standard output: {}", self.0)
    }
}

impl std::error::Error for StdoutError {}

/// What the standard output said, if this comes of it.
fn of_stdout(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    let cause = cause.downcast_ref::<io::Error>()?.get_ref()?;
    cause.downcast_ref::<StdoutError>().map(ToString::to_string)
}

/// Whether the standard output took no more: a command need not go on.
pub fn is_of_stdout(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| of_stdout(cause).is_some())
}

/// Prints an error and gives the exit status.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let is_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(is_pipe) {
        return ExitCode::from(PIPE_CLOSED);
    }
    match error.chain().find_map(of_stdout) {
        Some(why) => complain(&why),
        None => complain(&format!("{error:#}{}", used_by(error))),
    }
    ExitCode::from(if error.is::<Usage>() { USAGE } else { FAILED })
}

/// Who uses what is in use, if that can be seen.
pub fn used_by(error: &anyhow::Error) -> String {
    if !error.root_cause().to_string().contains("in use") {
        return String::new();
    }
    let held = |cause: &(dyn std::error::Error + 'static)| {
        holder(std::path::Path::new(&cause.to_string()))
    };
    let by = error.chain().find_map(held);
    by.map_or(String::new(), |by| format!(" {by}"))
}

/// Prints what the option parser says of a call of `command`: help as it is, an error as one line.
pub fn usage(mut error: clap::Error, command: &str) -> ExitCode {
    if !error.use_stderr() {
        let printed = Stdout::own(error.print().and_then(|()| io::stdout().flush()));
        return match printed {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report(&error.into()),
        };
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(USAGE);
    }
    show_what_was_given(&mut error);
    let text = error.render().to_string();
    // What is wrong, and hints. How the command is used its help says.
    let parts = text.split("\n\n").map(str::trim).filter(|part| {
        // A tip to pass `-x` as a value is of no use: no image or number is called so.
        let is_tip = part.starts_with("tip: to pass ");
        let is_usage = part.starts_with("Usage:") || part.starts_with("For more");
        !(part.is_empty() || is_usage || is_tip)
    });
    let said = parts
        .collect::<Vec<_>>()
        .join("; ")
        .replace("\n  tip:", "; tip:");
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    // The parser takes an empty value for none.
    let said = match said.split_once(EMPTY) {
        Some((what, none)) if is_any_empty() => {
            what.replace("a value is required", "an empty name was given") + none
        }
        _ => said.to_owned(),
    };
    complain(&format!("{said} (see `{command} --help`)"));
    ExitCode::from(USAGE)
}

fn is_any_empty() -> bool {
    std::env::args_os().any(|word| word.is_empty() || word.as_bytes().ends_with(b"="))
}

/// Makes what the user has given one line that does nothing to a terminal. The parser would show it
/// as it is, and drop what it takes for colors.
fn show_what_was_given(error: &mut clap::Error) {
    for kind in [
        ContextKind::InvalidSubcommand,
        ContextKind::InvalidArg,
        ContextKind::InvalidValue,
    ] {
        if let Some(ContextValue::String(given)) = error.get(kind) {
            let shown = text::name(given.as_bytes());
            error.insert(kind, ContextValue::String(shown));
        }
    }
}

/// One line on stderr, whatever the text and the names in it.
pub fn complain(what: &str) {
    let words: Vec<&str> = what.split_whitespace().collect();
    let line = text::line(&without_os_code(&words.join(" ")));
    let _ = writeln!(io::stderr(), "flashkit: {line}");
}

/// Drops the `(os error 2)` that the standard library appends.
fn without_os_code(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(" (os error ") {
        let Some(len) = rest[start..].find(')') else {
            break;
        };
        out.push_str(&rest[..start]);
        rest = &rest[start + len + 1..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_system_error_is_dropped() {
        assert_eq!(
            without_os_code("a: No such file (os error 2): b"),
            "a: No such file: b"
        );
        assert_eq!(without_os_code("a (os error"), "a (os error");
    }
}
