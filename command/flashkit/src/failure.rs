//! Exit statuses, and errors as one line on stderr.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::holder::holder;
use crate::text;

/// Failed, or found damage.
pub const FAILED: u8 = 1;
/// Called in a wrong way.
pub const USAGE: u8 = 2;
/// Whoever read our output has gone: what a shell shows for SIGPIPE.
const PIPE_CLOSED: u8 = 141;

/// An error of the caller's, beyond what the option parser finds.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

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
    complain(&format!("{error:#}{}", used_by(error)));
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

/// Prints what the option parser says: help as it is, an error as one line.
pub fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match error.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(PIPE_CLOSED),
        };
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(USAGE);
    }
    let text = error.render().to_string();
    let said = text.split("\n\n").next().unwrap_or_default();
    let said = said.strip_prefix("error: ").unwrap_or(said);
    complain(&format!("{said} (see `flashkit help`)"));
    ExitCode::from(USAGE)
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
