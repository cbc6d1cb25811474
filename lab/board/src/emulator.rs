//! QEMU: started, watched, killed.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

const QEMU: &str = "qemu-system-arm";
/// How long nothing may come over the bus before the image is taken to hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often to look.
const STEP: Duration = Duration::from_millis(100);

/// An image that runs.
pub struct Emulator {
    child: Arc<Mutex<Child>>,
    /// What comes from its bus, and what goes there.
    pub from: BufReader<ChildStdout>,
    pub to: BufWriter<ChildStdin>,
    /// Grows while it lives.
    pub beats: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    hung: Arc<AtomicBool>,
    serial: PathBuf,
}

/// One that has ended.
pub struct Ended {
    /// What it has printed.
    pub printed: String,
    /// How it ended, if it was not told to.
    pub how: String,
}

impl Emulator {
    /// Starts an image, with these words for it. What it prints goes to a file in `folder`.
    pub fn start(image: &Path, words: &[&str], folder: &Path) -> anyhow::Result<Emulator> {
        let serial = folder.join("serial");
        fs::write(&serial, "").with_context(|| serial.display().to_string())?;
        let errors = File::create(folder.join("errors")).context("a file for QEMU's errors")?;
        let words: String = words.iter().map(|word| format!(",arg={word}")).collect();
        // It ends with this program, however that ends.
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", QEMU])
            .args(["-M", "lm3s6965evb", "-display", "none", "-monitor", "none"])
            .args(["-no-user-config", "-net", "none"])
            .args(["-icount", "shift=0,sleep=off"])
            .arg("-semihosting-config")
            .arg(format!("enable=on,target=native{words}"))
            .args(["-serial", &format!("file:{}", serial.display())])
            .arg("-kernel")
            .arg(image)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .context("setpriv, of util-linux, did not start")?;
        let from = child.stdout.take().context("no output of QEMU")?;
        let to = child.stdin.take().context("no input of QEMU")?;
        let emulator = Emulator {
            child: Arc::new(Mutex::new(child)),
            from: BufReader::new(from),
            to: BufWriter::new(to),
            beats: Arc::default(),
            ended: Arc::default(),
            hung: Arc::default(),
            serial,
        };
        emulator.watch();
        Ok(emulator)
    }

    /// Kills an image that hangs.
    fn watch(&self) {
        let (child, beats) = (self.child.clone(), self.beats.clone());
        let (ended, hung) = (self.ended.clone(), self.hung.clone());
        thread::spawn(move || {
            let (mut seen, mut since) = (0, Instant::now());
            while !ended.load(Ordering::Relaxed) {
                thread::sleep(STEP);
                let now = beats.load(Ordering::Relaxed);
                if now != seen {
                    (seen, since) = (now, Instant::now());
                } else if since.elapsed() > PATIENCE {
                    hung.store(true, Ordering::Relaxed);
                    kill(&child);
                    return;
                }
            }
        });
    }

    /// Ends it at once, if it has not ended.
    pub fn end(self) -> anyhow::Result<Ended> {
        kill(&self.child);
        let how = if self.hung.load(Ordering::Relaxed) {
            format!(
                "it hangs: nothing over the bus for {} s",
                PATIENCE.as_secs()
            )
        } else {
            let errors = self.serial.with_file_name("errors");
            let errors = fs::read_to_string(errors).unwrap_or_default();
            match errors.lines().rfind(|line| line.contains("qemu")) {
                Some(line) => format!("it ended by itself: {line}"),
                None => "it ended by itself".into(),
            }
        };
        let printed = fs::read(&self.serial).context("what the image has printed")?;
        Ok(Ended {
            printed: String::from_utf8_lossy(&printed).into_owned(),
            how,
        })
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        kill(&self.child);
    }
}

/// Kills a process and waits for its end; one that has ended stays so.
fn kill(child: &Mutex<Child>) {
    if let Ok(mut child) = child.lock() {
        let _ = child.kill();
        let _ = child.wait();
    }
}
