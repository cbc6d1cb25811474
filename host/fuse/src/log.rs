//! Where a mount says what went wrong: on stderr, in the system's log when it is a service, and in
//! a file that outlives it.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// The system's log.
const SYSLOG: &str = "/dev/log";
/// Facility `daemon`, severity `err`.
const PRIORITY: u8 = 3 << 3 | 3;

/// Where lines go besides stderr.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The system's log: nobody reads this process's stderr.
    pub syslog: bool,
    /// A file that they are added to.
    pub file: Option<PathBuf>,
}

impl Log {
    /// Says one line. To say it must not fail.
    pub fn tell(&self, line: &str) {
        let _ = writeln!(std::io::stderr(), "flashkit: {line}");
        self.note(line);
    }

    /// The same, where others have said it on stderr.
    pub fn note(&self, line: &str) {
        if self.syslog {
            let _ = send(Path::new(SYSLOG), line);
        }
        if let Some(file) = &self.file {
            let file = OpenOptions::new().append(true).create(true).open(file);
            let _ = file.and_then(|mut file| writeln!(file, "{line}"));
        }
    }
}

fn send(log: &Path, line: &str) -> std::io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    let text = format!("<{PRIORITY}>flashkit[{}]: {line}", std::process::id());
    socket.send_to(text.as_bytes(), log)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_to_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log {
            syslog: false,
            file: Some(dir.path().join("lines")),
        };
        log.tell("one");
        log.note("two");
        let text = std::fs::read_to_string(dir.path().join("lines"));
        assert_eq!(text.unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_line_reaches_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = UnixDatagram::bind(&path).unwrap();
        send(&path, "I/O error: page 7").unwrap();
        let mut text = [0; 100];
        let n = log.recv(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text[..n]).into_owned();
        let pid = std::process::id();
        assert_eq!(text, format!("<27>flashkit[{pid}]: I/O error: page 7"));
        assert!(send(&dir.path().join("none"), "x").is_err());
    }
}
