//! Compiles YAFFS2, where it is asked for, from the sources that `yaffs2/fetch.sh` has fetched.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "yaffs2")]
    if let Err(error) = yaffs2::build() {
        println!("cargo::error={error}");
    }
}

#[cfg(feature = "yaffs2")]
mod yaffs2 {
    use std::env;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Those of U-Boot's makefile but for what is between YAFFS2 and U-Boot; `driver.c` is in place
    /// of that, and includes `yaffsfs.c`.
    const FILES: [&str; 17] = [
        "allocator",
        "attribs",
        "bitmap",
        "checkptrw",
        "ecc",
        "error",
        "guts",
        "nameval",
        "nand",
        "packedtags1",
        "packedtags2",
        "qsort",
        "summary",
        "tagscompat",
        "verify",
        "yaffs1",
        "yaffs2",
    ];
    /// U-Boot's headers that they name: `uboot.h` has what is needed of them.
    const HEADERS: [&str; 9] = [
        "common.h",
        "div64.h",
        "malloc.h",
        "sort.h",
        "dm/devres.h",
        "linux/bug.h",
        "linux/compat.h",
        "linux/list.h",
        "linux/types.h",
    ];
    /// What U-Boot's configuration sets when YAFFS2 is chosen.
    const OPTIONS: [&str; 3] = [
        "CONFIG_YAFFS_DIRECT",
        "CONFIG_YAFFS_PROVIDE_DEFS",
        "CONFIG_YAFFSFS_PROVIDE_VALUES",
    ];

    /// What `fetch.sh` takes if it is given nothing.
    fn folder() -> Option<PathBuf> {
        let set = |name: &str| {
            println!("cargo::rerun-if-env-changed={name}");
            env::var_os(name).filter(|value| !value.is_empty())
        };
        if let Some(folder) = set("FLASHKIT_YAFFS2") {
            return Some(PathBuf::from(folder));
        }
        let cache = match set("XDG_CACHE_HOME") {
            Some(cache) => PathBuf::from(cache),
            None => PathBuf::from(set("HOME")?).join(".cache"),
        };
        Some(cache.join("flashkit/yaffs2"))
    }

    pub fn build() -> Result<(), String> {
        println!("cargo::rerun-if-changed=yaffs2");
        let folder = folder().ok_or("neither FLASHKIT_YAFFS2 nor HOME is set")?;
        let version = folder.join("version");
        println!("cargo::rerun-if-changed={}", version.display());
        let version = fs::read_to_string(&version).map_err(|error| {
            format!(
                "the sources of YAFFS2 are not in {} ({error}): run lab/rivals/yaffs2/fetch.sh, \
                 which gets them from Debian",
                folder.display()
            )
        })?;
        println!(
            "cargo::rustc-env=FLASHKIT_YAFFS2_VERSION={}",
            version.trim()
        );

        let out = env::var_os("OUT_DIR").ok_or("no OUT_DIR")?;
        let include = Path::new(&out).join("include");
        empty_headers(&include).map_err(|error| format!("{}: {error}", include.display()))?;
        let (source, own) = (folder.join("source"), Path::new("yaffs2"));
        let mut cc = cc::Build::new();
        cc.include(include).include(&source);
        cc.flag("-include").flag(own.join("uboot.h"));
        for option in OPTIONS {
            cc.define(option, None);
        }
        for name in FILES {
            cc.file(source.join(format!("yaffs_{name}.c")));
        }
        // It is written for U-Boot's compiler flags. Warnings of others' code help nobody here.
        cc.file(own.join("driver.c"))
            .flag("-fno-strict-aliasing")
            .opt_level(2)
            .warnings(false)
            .extra_warnings(false)
            .flag("-w")
            .flag("-Werror=implicit-function-declaration");
        cc.try_compile("yaffs2").map_err(|error| error.to_string())
    }

    fn empty_headers(folder: &Path) -> std::io::Result<()> {
        for header in HEADERS {
            let path = folder.join(header);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, "")?;
        }
        Ok(())
    }
}
