//! The fetched packages, and what of them a guest needs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;

/// What fetches the packages.
const FETCH: &str = include_str!("../fetch.sh");
/// What was added to the packages last: a folder without it is of an earlier version.
const NEWEST: &str = "f2fs-tools ";
/// Modules that every guest has, with what they depend on. The first three are the way to the host,
/// `zstd` is asked for by UBIFS whatever the compression, `crc32_generic` by F2FS.
pub const MODULES: [&str; 13] = [
    "virtio_pci",
    "9pnet_virtio",
    "9p",
    "nandsim",
    "mtdblock",
    "ubi",
    "ubifs",
    "jffs2",
    "fuse",
    "zstd",
    "loop",
    "f2fs",
    "crc32_generic",
];
/// Programs beside those of busybox.
pub const TOOLS: [&str; 7] = [
    "ubiattach",
    "ubimkvol",
    "ubidetach",
    "flash_erase",
    "nandwrite",
    "nanddump",
    "mkfs.f2fs",
];
/// Where Debian's programs have their C library to themselves: that of the host is where programs
/// look for it.
const DEBIAN: &str = "debian";
const LOADER: &str = "ld-linux-x86-64.so.2";
/// What they are linked with.
pub const LIBRARIES: [&str; 6] = [
    LOADER,
    "libc.so.6",
    "libblkid.so.1",
    "libuuid.so.1",
    "libselinux.so.1",
    "libpcre2-8.so.0",
];

/// A kernel with modules and tools, fetched and unpacked.
#[derive(Clone, Debug)]
pub struct Image {
    folder: PathBuf,
    /// The kernel's version: `6.1.0-56-amd64`.
    pub kernel: String,
    /// Name and version of each package.
    pub packages: Vec<(String, String)>,
}

impl Image {
    /// Where images are kept: `flashkit/guest` in the user's cache folder.
    pub fn default_folder() -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let cache = match set("XDG_CACHE_HOME") {
            Some(cache) => PathBuf::from(cache),
            None => PathBuf::from(set("HOME")?).join(".cache"),
        };
        Some(cache.join("flashkit/guest"))
    }

    /// The image in a folder; fetched first if there is none, or one of an earlier version. `say`
    /// gets a line for each package.
    ///
    /// # Errors
    /// No Debian tools, no package, no space: the script's own words.
    pub fn get(folder: &Path, say: &mut dyn FnMut(&str)) -> Result<Image, Error> {
        let is_there = || {
            let listed = fs::read_to_string(folder.join("packages")).unwrap_or_default();
            listed.lines().any(|line| line.starts_with(NEWEST))
        };
        if !is_there() {
            fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
            // Two that come at the same time need not fetch twice.
            let path = folder.join("lock");
            let lock = fs::File::create(&path).and_then(|file| file.lock().map(|()| file));
            let lock = lock.map_err(|error| Error::io(&path, error))?;
            let fetched = match is_there() {
                true => Ok(()),
                false => fetch(folder, say),
            };
            let _ = fs::remove_file(&path);
            drop(lock);
            fetched?;
        }
        Image::open(folder)
    }

    /// The image in a folder.
    fn open(folder: &Path) -> Result<Image, Error> {
        let incomplete = |what: &str| Error::Incomplete(folder.to_owned(), what.to_owned());
        let listed = folder.join("packages");
        let listed = fs::read_to_string(&listed).map_err(|error| Error::io(&listed, error))?;
        let package = |line: &str| {
            let (name, rest) = line.split_once(' ')?;
            Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
        };
        let kernel = fs::read_dir(folder.join("root/lib/modules"))
            .ok()
            .and_then(|mut entries| entries.next()?.ok()?.file_name().into_string().ok())
            .ok_or_else(|| incomplete("has no kernel modules"))?;
        let image = Image {
            folder: folder.to_owned(),
            kernel,
            packages: listed.lines().filter_map(package).collect(),
        };
        if !image.vmlinuz().exists() {
            return Err(incomplete("has no kernel"));
        }
        Ok(image)
    }

    /// The kernel itself.
    pub fn vmlinuz(&self) -> PathBuf {
        self.root().join(format!("boot/vmlinuz-{}", self.kernel))
    }

    fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Programs of a guest that start others: name in the guest, and text.
    pub(crate) fn starters() -> impl Iterator<Item = (String, String)> {
        TOOLS.into_iter().map(|tool| {
            let starter = format!(
                "#!/bin/busybox sh\nexec /{DEBIAN}/{LOADER} --library-path /{DEBIAN} /{DEBIAN}/{tool} \"$@\"\n"
            );
            (format!("sbin/{tool}"), starter)
        })
    }

    /// The files of a guest, as (name in the guest, path on the host).
    pub(crate) fn files(&self) -> Result<Vec<(String, PathBuf)>, Error> {
        let root = self.root();
        let mut files = vec![("bin/busybox".to_owned(), root.join("bin/busybox"))];
        // Debian has moved everything below `usr`, package by package.
        let either = |path: String| {
            let moved = root.join("usr").join(&path);
            if moved.exists() {
                moved
            } else {
                root.join(path)
            }
        };
        for tool in TOOLS {
            files.push((format!("{DEBIAN}/{tool}"), either(format!("sbin/{tool}"))));
        }
        // Where the kernel asks for more modules by itself.
        files.push(("sbin/modprobe".to_owned(), root.join("bin/busybox")));
        for library in LIBRARIES {
            let path = either(format!("lib/x86_64-linux-gnu/{library}"));
            files.push((format!("{DEBIAN}/{library}"), path));
        }
        let modules = format!("lib/modules/{}", self.kernel);
        let list = root.join(&modules).join("modules.dep");
        let dep = fs::read_to_string(&list).map_err(|error| Error::io(&list, error))?;
        for file in closure(&dep).map_err(|what| Error::Incomplete(self.folder.clone(), what))? {
            let name = format!("{modules}/{file}");
            let path = root.join(&name);
            files.push((name, path));
        }
        for list in ["modules.dep", "modules.alias", "modules.symbols"] {
            let name = format!("{modules}/{list}");
            let path = root.join(&name);
            files.push((name, path));
        }
        Ok(files)
    }
}

/// The files of [`MODULES`] and of all that they depend on, by a `modules.dep`.
fn closure(dep: &str) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    for module in MODULES {
        let file = format!("/{module}.ko");
        let line = dep.lines().filter_map(|line| line.split_once(':'));
        let (own, needed) = line
            .clone()
            .find(|(own, _)| own.ends_with(&file))
            .ok_or_else(|| format!("has no module {module}"))?;
        // The list is transitive.
        found.insert(own.to_owned());
        found.extend(needed.split_whitespace().map(str::to_owned));
    }
    Ok(found)
}

fn fetch(folder: &Path, say: &mut dyn FnMut(&str)) -> Result<(), Error> {
    use std::io::{BufRead, BufReader};

    let shell = |error| Error::io(Path::new("/bin/sh"), error);
    let errors = folder.join("errors");
    let file = fs::File::create(&errors).map_err(|error| Error::io(&errors, error))?;
    let mut child = Command::new("/bin/sh")
        .args(["-c", FETCH, "fetch.sh"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(file)
        .spawn()
        .map_err(shell)?;
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            say(&line);
        }
    }
    let status = child.wait().map_err(shell)?;
    let said = fs::read_to_string(&errors).unwrap_or_default();
    let _ = fs::remove_file(&errors);
    if status.success() {
        return Ok(());
    }
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Err(Error::Fetch(last.unwrap_or("fetching failed").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_with_what_they_need() {
        let mut dep = String::new();
        for module in MODULES {
            dep += &format!("kernel/x/{module}.ko: kernel/lib/crc16.ko kernel/x/mtd.ko\n");
        }
        let found = closure(&dep).unwrap();
        assert_eq!(found.len(), MODULES.len() + 2);
        assert!(found.contains("kernel/lib/crc16.ko"));
        let without = dep.replace("/jffs2.ko:", "/jffs3.ko:");
        assert_eq!(closure(&without).unwrap_err(), "has no module jffs2");
    }

    #[test]
    fn a_folder_that_lacks_something_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("packages"), "libc6 2.36 100\n").unwrap();
        let error = Image::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("has no kernel modules"), "{error}");
        fs::create_dir_all(dir.path().join("root/lib/modules/6.1")).unwrap();
        let error = Image::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("has no kernel;"), "{error}");
        fs::create_dir_all(dir.path().join("root/boot")).unwrap();
        fs::write(dir.path().join("root/boot/vmlinuz-6.1"), "").unwrap();
        let image = Image::open(dir.path()).unwrap();
        assert_eq!(image.packages, [("libc6".to_owned(), "2.36".to_owned())]);
    }
}
