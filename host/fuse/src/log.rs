//! Where a mount says what went wrong: on stderr, and in the system's log when it is a service.

use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// The system's log.
const SYSLOG: &str = "/dev/log";
/// Facility `daemon`, severity `err`.
const PRIORITY: u8 = 3 << 3 | 3;

/// Says one line. To say it must not fail.
pub(crate) fn tell(line: &str, syslog: bool) {
    let _ = writeln!(std::io::stderr(), "flashkit: {line}");
    if syslog {
        let _ = send(Path::new(SYSLOG), line);
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
