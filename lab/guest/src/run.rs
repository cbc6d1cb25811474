//! QEMU, with a time limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::archive::Archive;
use crate::{Error, Image};

const QEMU: &str = "qemu-system-x86_64";
const INIT: &str = include_str!("../init.sh");
/// How often to look whether a guest has ended.
const STEP: Duration = Duration::from_millis(50);
/// Lines of a console that tell why a guest died.
const LAST_WORDS: usize = 4;

/// Something to run in a guest.
#[derive(Clone, Debug)]
pub struct Job {
    /// Shell commands. They run as root in the shared folder, whose files they may read and write.
    pub script: String,
    /// The shared folder. Results stay there, however the guest ends; `stdout`, `stderr`,
    /// `console`, `status` and `job` are the guest's own.
    pub folder: PathBuf,
    /// A program of the host to have in the guest, with its libraries: its
    /// name there, and its file.
    pub program: Option<(&'static str, PathBuf)>,
    /// RAM of the guest, in MiB, beside what its root file system takes, whose files live in RAM: a
    /// larger program is not to leave less to the page cache. Simulated chips live in it.
    pub memory: u32,
    /// Seconds until the guest is stopped, from its start.
    pub limit: u64,
    /// Use KVM, where the machine has it and it starts this kernel.
    pub kvm: bool,
    /// Time in the guest goes by instructions, one a nanosecond, and is skipped while
    /// there is nothing to do: the same every time, pauses cost nothing, work is
    /// slower by half. Not with KVM.
    pub skip_idle: bool,
}

/// A job that has ended well.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// From the start of the guest to its end.
    pub seconds: f64,
}

impl Job {
    /// Runs it in a guest of its own; calls `tick` meanwhile.
    ///
    /// # Errors
    /// See [`Error`]. What the job has left in the folder by then is there.
    pub fn run(&self, image: &Image, tick: &mut dyn FnMut()) -> Result<Finished, Error> {
        let _ = version()?;
        let file = |name: &str| self.folder.join(name);
        fs::create_dir_all(&self.folder).map_err(|error| Error::io(&self.folder, error))?;
        for stale in ["stdout", "stderr", "status", "console"] {
            let _ = fs::remove_file(file(stale));
        }
        let job = file("job");
        fs::write(&job, &self.script).map_err(|error| Error::io(&job, error))?;
        let archive = file("initrd");
        self.archive(image, &archive)?;
        let start = Instant::now();
        let ended = self
            .start(image, &archive)
            .map(|mut guest| wait(&mut guest, tick));
        let _ = fs::remove_file(&archive);
        ended?;
        let took = start.elapsed();
        match self.outcome(took) {
            Err(Error::Died(_)) if took.as_secs() >= self.limit => Err(Error::TimedOut {
                seconds: self.limit,
            }),
            outcome => outcome,
        }
    }

    /// What the guest left in the folder.
    fn outcome(&self, took: Duration) -> Result<Finished, Error> {
        let text = |name: &str| {
            let bytes = fs::read(self.folder.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let status = text("status");
        let Ok(status) = status.trim().parse() else {
            // Where QEMU itself did not start, there is no console.
            let console = match last_words(&text("console")) {
                words if words.is_empty() => last_words(&text("qemu")),
                words => words,
            };
            return Err(Error::Died(console));
        };
        let (stdout, stderr) = (text("stdout"), text("stderr"));
        if status != 0 {
            let last = stderr.lines().rfind(|line| !line.trim().is_empty());
            return Err(Error::Failed(status, last.unwrap_or_default().to_owned()));
        }
        Ok(Finished {
            stdout,
            stderr,
            seconds: took.as_secs_f64(),
        })
    }

    fn archive(&self, image: &Image, path: &Path) -> Result<(), Error> {
        let failed = |error| Error::io(path, error);
        let mut archive = Archive::create(path).map_err(failed)?;
        archive.file("init", INIT.as_bytes()).map_err(failed)?;
        for (name, from) in image.files()? {
            let copied = archive.copy(&name, &from);
            copied.map_err(|error| Error::io(&from, error))?;
        }
        for (name, text) in Image::starters() {
            archive.file(&name, text.as_bytes()).map_err(failed)?;
        }
        if let Some((name, program)) = &self.program {
            add_program(&mut archive, name, program)?;
        }
        archive.finish().map_err(failed)
    }

    fn start(&self, image: &Image, archive: &Path) -> Result<Child, Error> {
        // QEMU ends with this process, however that ends.
        let mut command = Command::new("setpriv");
        let memory = u64::from(self.memory) + mib(archive)?;
        let share = self.folder.display().to_string().replace(',', ",,");
        let console = self.folder.join("console").display().to_string();
        command
            .args([
                "--pdeathsig=TERM",
                "timeout",
                "--foreground",
                "--signal=KILL",
            ])
            .arg(self.limit.to_string())
            .arg(QEMU)
            .args([
                "-nodefaults",
                "-no-user-config",
                "-display",
                "none",
                "-no-reboot",
            ])
            .args([
                "-machine",
                if self.kvm {
                    "pc,accel=kvm"
                } else {
                    "pc,accel=tcg"
                },
            ])
            .args(["-smp", "1", "-m", &memory.to_string()])
            .arg("-kernel")
            .arg(image.vmlinuz())
            .arg("-initrd")
            .arg(archive)
            // On a busy machine the kernel's check of its timer fails by chance.
            .args([
                "-append",
                "console=ttyS0 quiet panic=-1 oops=panic no_timer_check",
            ])
            .args(["-serial", &format!("file:{}", console.replace(',', ",,"))])
            .arg("-virtfs")
            .arg(format!(
                "local,path={share},mount_tag=share,security_model=none"
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if self.skip_idle && !self.kvm {
            command.args(["-icount", "shift=0,sleep=off"]);
        }
        let errors = self.folder.join("qemu");
        let file = fs::File::create(&errors).map_err(|error| Error::io(&errors, error))?;
        command.stderr(file);
        command
            .spawn()
            .map_err(|error| Error::io(Path::new("setpriv"), error))
    }
}

/// QEMU's version.
///
/// # Errors
/// There is no QEMU.
pub fn version() -> Result<String, Error> {
    let missing = |_| Error::Missing {
        program: QEMU,
        package: "qemu-system-x86",
    };
    let out = Command::new(QEMU)
        .arg("--version")
        .output()
        .map_err(missing)?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let version = text.split_whitespace().nth(3).unwrap_or("unknown");
    Ok(version.to_owned())
}

/// The size of a file in MiB, rounded up.
fn mib(path: &Path) -> Result<u64, Error> {
    let held = fs::metadata(path).map_err(|error| Error::io(path, error))?;
    Ok(held.len().div_ceil(1 << 20))
}

/// Waits for a guest, calling `tick`.
fn wait(guest: &mut Child, tick: &mut dyn FnMut()) {
    while let Ok(None) = guest.try_wait() {
        std::thread::sleep(STEP);
        tick();
    }
}

/// What a kernel says of its end, or the last lines of a console in one.
fn last_words(console: &str) -> String {
    let lines: Vec<&str> = console
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    if let Some(panic) = lines.iter().find(|line| line.contains("Kernel panic")) {
        return (*panic).to_owned();
    }
    lines[lines.len().saturating_sub(LAST_WORDS)..].join("; ")
}

/// Adds a program of the host, and its libraries where it looks for them.
fn add_program(archive: &mut Archive, name: &str, program: &Path) -> Result<(), Error> {
    let copied = archive.copy(&format!("bin/{name}"), program);
    copied.map_err(|error| Error::io(program, error))?;
    let out = Command::new("ldd").arg(program).output();
    let out = out.map_err(|error| Error::io(Path::new("ldd"), error))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    for library in libraries(&text) {
        let name = library.to_string_lossy();
        archive
            .copy(name.trim_start_matches('/'), &library)
            .map_err(|error| Error::io(&library, error))?;
    }
    Ok(())
}

/// The libraries that `ldd` names.
fn libraries(text: &str) -> Vec<PathBuf> {
    text.lines()
        .filter_map(|line| {
            let (line, _) = line.rsplit_once(" (")?;
            let path = line.rsplit("=>").next()?.trim();
            path.starts_with('/').then(|| PathBuf::from(path))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_a_program() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                    \tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tstatically linked\n";
        let found = libraries(text);
        assert_eq!(
            found,
            [
                Path::new("/lib/x86_64-linux-gnu/libgcc_s.so.1"),
                Path::new("/lib64/ld-linux-x86-64.so.2")
            ]
        );
    }

    #[test]
    fn an_archive_begun_mib_is_a_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("initrd");
        let file = fs::File::create(&path).unwrap();
        for (bytes, expected) in [(1, 1), (1 << 20, 1), ((62 << 20) + 1, 63)] {
            file.set_len(bytes).unwrap();
            assert_eq!(mib(&path).unwrap(), expected, "{bytes} bytes");
        }
    }

    #[test]
    fn the_last_words_of_a_guest() {
        let console = "a\r\nb\r\n\r\nc\r\nd\r\ne\r\n";
        assert_eq!(last_words(console), "b; c; d; e");
        let console = "a\n[1.2] Kernel panic - not syncing\nb\nc\nd\ne\nf\n";
        assert_eq!(last_words(console), "[1.2] Kernel panic - not syncing");
        assert_eq!(last_words(""), "");
    }
}
