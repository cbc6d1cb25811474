//! Loads of everyday programs, sized for a chip of 256 MiB. Each is what the program asks of a
//! file system, from a seed; files are synced where the program does, so that they are
//! replayed without `--fsync`.
//!
//! `fileserver`, `varmail` and `webserver` have the operations and the mean sizes of Filebench's
//! personalities of these names (V. Tarasov, E. Zadok, S. Shepler: *Filebench: A Flexible Framework
//! for File System Benchmarking*, ;login: 41(1), 2016), with fewer files. `dbench` has what its
//! clients do to a file server; `compile` the five phases of J. H. Howard et al.: *Scale and
//! Performance in a Distributed File System*, ACM TOCS 6(1), 1988. `sqlite` has SQLite's rollback
//! journal, as <https://www.sqlite.org/atomiccommit.html> tells it.

use crate::rng::Rng;
use crate::trace::Op;

pub(super) const KIB: u64 = 1 << 10;

/// Operations being collected.
pub(super) struct Load {
    pub rng: Rng,
    pub ops: Vec<Op>,
}

impl Load {
    pub fn new() -> Load {
        Load {
            rng: Rng::new(1),
            ops: Vec::new(),
        }
    }

    pub fn create(&mut self, path: String, size: u64) {
        self.ops.push(Op::Create { path, size });
    }

    pub fn append(&mut self, path: String, size: u64) {
        self.ops.push(Op::Append { path, size });
    }

    pub fn update(&mut self, path: &str, offset: u64, size: u64) {
        let path = path.to_owned();
        self.ops.push(Op::Update { path, offset, size });
    }

    pub fn read(&mut self, path: String, size: u64) {
        let offset = 0;
        self.ops.push(Op::Read { path, offset, size });
    }

    pub fn fsync(&mut self, path: String) {
        self.ops.push(Op::Fsync { path });
    }

    pub fn unlink(&mut self, path: String) {
        self.ops.push(Op::Unlink { path });
    }

    pub fn mkdir(&mut self, path: String) {
        self.ops.push(Op::Mkdir { path });
    }

    pub fn phase(&mut self, name: &str) {
        let name = name.to_owned();
        self.ops.push(Op::Phase { name });
    }

    /// A size around a mean, from half of it to half as much again.
    pub fn around(&mut self, mean: u64) -> u64 {
        self.rng.between(mean / 2, mean * 3 / 2)
    }
}

/// Files by number, with their sizes, some to a directory.
struct Files {
    sizes: Vec<(u64, u64)>,
    next: u64,
    width: u64,
}

impl Files {
    /// Makes so many files; phase `prepare`.
    fn prepare(load: &mut Load, count: u64, width: u64, mean: u64) -> Files {
        let mut files = Files {
            sizes: Vec::new(),
            next: 0,
            width,
        };
        for _ in 0..count {
            files.create(load, mean);
        }
        load.phase("prepare");
        files
    }

    fn path(&self, number: u64) -> String {
        format!("d{}/f{number}", number / self.width)
    }

    fn create(&mut self, load: &mut Load, mean: u64) -> usize {
        let number = self.next;
        self.next += 1;
        if number.is_multiple_of(self.width) {
            load.mkdir(format!("d{}", number / self.width));
        }
        let size = load.around(mean);
        load.create(self.path(number), size);
        self.sizes.push((number, size));
        self.sizes.len() - 1
    }

    fn any(&self, load: &mut Load) -> usize {
        load.rng.below(self.sizes.len() as u64) as usize
    }

    fn append(&mut self, load: &mut Load, file: usize, bytes: u64) {
        let (number, size) = self.sizes[file];
        load.append(self.path(number), bytes);
        self.sizes[file] = (number, size + bytes);
    }

    fn read(&self, load: &mut Load, file: usize) {
        let (number, size) = self.sizes[file];
        load.read(self.path(number), size);
    }

    fn fsync(&self, load: &mut Load, file: usize) {
        load.fsync(self.path(self.sizes[file].0));
    }

    fn delete(&mut self, load: &mut Load, file: usize) {
        let (number, _) = self.sizes.swap_remove(file);
        load.unlink(self.path(number));
    }
}

/// Whole files are written, appended to, read and deleted; nothing is synced.
pub fn fileserver() -> Vec<Op> {
    let mut load = Load::new();
    let mut files = Files::prepare(&mut load, 1_000, 20, 64 * KIB);
    for _ in 0..3_000 {
        files.create(&mut load, 64 * KIB);
        let file = files.any(&mut load);
        files.append(&mut load, file, 16 * KIB);
        let file = files.any(&mut load);
        files.read(&mut load, file);
        let file = files.any(&mut load);
        files.delete(&mut load, file);
    }
    load.phase("serve");
    load.ops
}

/// Mails come, are read, grow and go, in one directory, each synced.
pub fn varmail() -> Vec<Op> {
    let mut load = Load::new();
    let mut files = Files::prepare(&mut load, 1_000, 1_000_000, 16 * KIB);
    for _ in 0..4_000 {
        let file = files.any(&mut load);
        files.delete(&mut load, file);
        let file = files.create(&mut load, 16 * KIB);
        files.fsync(&mut load, file);
        let file = files.any(&mut load);
        files.read(&mut load, file);
        files.append(&mut load, file, 16 * KIB);
        files.fsync(&mut load, file);
        let file = files.any(&mut load);
        files.read(&mut load, file);
    }
    load.phase("serve");
    load.ops
}

/// Ten pages are read for each entry of a log.
pub fn webserver() -> Vec<Op> {
    let mut load = Load::new();
    let files = Files::prepare(&mut load, 1_000, 20, 16 * KIB);
    load.create("log".to_owned(), 0);
    for _ in 0..2_000 {
        for _ in 0..10 {
            let file = files.any(&mut load);
            files.read(&mut load, file);
        }
        load.append("log".to_owned(), 16 * KIB);
    }
    load.phase("serve");
    load.ops
}

/// Four clients make trees, fill, read back, rename and remove them.
pub fn dbench() -> Vec<Op> {
    let mut load = Load::new();
    for client in 0..4 {
        load.mkdir(format!("client{client}"));
    }
    for round in 0..1_000 {
        let client = round % 4;
        let dir = format!("client{client}/w{round}");
        load.mkdir(dir.clone());
        let count = load.rng.between(4, 10);
        let mut sizes = Vec::new();
        for i in 0..count {
            let (path, pieces) = (format!("{dir}/{i}"), load.rng.between(1, 4));
            let piece = load.around(16 * KIB);
            load.create(path.clone(), piece);
            for _ in 1..pieces {
                load.append(path.clone(), piece);
            }
            if load.rng.one_in(4) {
                load.fsync(path);
            }
            sizes.push(piece * pieces);
        }
        for (i, &size) in sizes.iter().enumerate() {
            load.read(format!("{dir}/{i}"), size);
        }
        for i in 0..count {
            let (from, to) = (format!("{dir}/{i}"), format!("{dir}/renamed{i}"));
            if load.rng.one_in(3) {
                load.ops.push(Op::Rename {
                    from,
                    to: to.clone(),
                });
                load.unlink(to);
            } else {
                load.unlink(from);
            }
        }
        load.ops.push(Op::Rmdir { path: dir });
    }
    load.phase("clients");
    load.ops
}

/// A source tree is made, copied, read and compiled, twenty times; the last five results stay.
pub fn compile() -> Vec<Op> {
    const DIRS: u64 = 10;
    const FILES: u64 = 14;
    let mut load = Load::new();
    let source = |dir: u64, file: u64| format!("source/d{dir}/{file}.c");
    load.mkdir("source".to_owned());
    let mut sizes = Vec::new();
    for dir in 0..DIRS {
        load.mkdir(format!("source/d{dir}"));
        for file in 0..FILES {
            let size = load.around(6 * KIB);
            load.create(source(dir, file), size);
            sizes.push(size);
        }
    }
    load.phase("prepare");
    for run in 0..20 {
        let top = format!("run{run}");
        load.mkdir(top.clone());
        for dir in 0..DIRS {
            load.mkdir(format!("{top}/d{dir}"));
        }
        let each = || (0..DIRS).flat_map(|dir| (0..FILES).map(move |file| (dir, file)));
        for ((dir, file), &size) in each().zip(&sizes) {
            load.read(source(dir, file), size);
            load.create(format!("{top}/d{dir}/{file}.c"), size);
        }
        for ((dir, file), &size) in each().zip(&sizes) {
            load.read(format!("{top}/d{dir}/{file}.c"), size);
        }
        for ((dir, file), &size) in each().zip(&sizes) {
            load.read(format!("{top}/d{dir}/{file}.c"), size);
            // A compiler's output is twice its input; an assembler's file comes and goes before it.
            let assembler = format!("{top}/d{dir}/{file}.s");
            load.create(assembler.clone(), 3 * size);
            load.read(assembler.clone(), 3 * size);
            load.create(format!("{top}/d{dir}/{file}.o"), 2 * size);
            load.unlink(assembler);
        }
        let all: u64 = sizes.iter().map(|size| 2 * size).sum();
        for ((dir, file), &size) in each().zip(&sizes) {
            load.read(format!("{top}/d{dir}/{file}.o"), 2 * size);
        }
        load.create(format!("{top}/program"), all);
        if run >= 5 {
            remove_tree(&mut load, &format!("run{}", run - 5), DIRS, FILES);
        }
    }
    load.phase("runs");
    load.ops
}

fn remove_tree(load: &mut Load, top: &str, dirs: u64, files: u64) {
    for dir in 0..dirs {
        for file in 0..files {
            load.unlink(format!("{top}/d{dir}/{file}.c"));
            load.unlink(format!("{top}/d{dir}/{file}.o"));
        }
        let path = format!("{top}/d{dir}");
        load.ops.push(Op::Rmdir { path });
    }
    load.unlink(format!("{top}/program"));
    let path = top.to_owned();
    load.ops.push(Op::Rmdir { path });
}

/// 5,000 transactions insert a row each, of 400 bytes with two indices, through a rollback journal.
pub fn sqlite() -> Vec<Op> {
    const PAGE: u64 = 4096;
    /// Header of the journal, and of a page in it.
    const HEADER: u64 = 512;
    const FRAME: u64 = PAGE + 8;
    const ROWS_A_PAGE: u64 = 8;
    let (db, journal) = ("db", "db-journal");
    let mut load = Load::new();
    load.create(db.to_owned(), 4 * PAGE);
    load.fsync(db.to_owned());
    let mut pages = 4;
    for row in 0..5_000 {
        // The first page, the table's last leaf, a leaf of each index.
        let mut old = vec![0, pages - 1];
        old.extend((0..2).map(|_| load.rng.below(pages)));
        old.sort_unstable();
        old.dedup();
        load.create(journal.to_owned(), HEADER);
        load.append(journal.to_owned(), FRAME * old.len() as u64);
        load.fsync(journal.to_owned());
        // How many pages it has.
        load.update(journal, 0, HEADER);
        load.fsync(journal.to_owned());
        for page in old {
            load.update(db, page * PAGE, PAGE);
        }
        if row % ROWS_A_PAGE == 0 {
            load.append(db.to_owned(), PAGE);
            pages += 1;
        }
        load.fsync(db.to_owned());
        load.unlink(journal.to_owned());
    }
    load.phase("insert");
    load.ops
}

/// 20,000 records of 64 bytes, one in 100 ms, synced ten at a time, in files of
/// 64 KiB of which ten stay.
pub fn sensor() -> Vec<Op> {
    const RECORD: u64 = 64;
    const A_FILE: u64 = 1_024;
    const KEPT: u64 = 10;
    let mut load = Load::new();
    load.mkdir("log".to_owned());
    let path = |number: u64| format!("log/{number:05}");
    for record in 0..20_000 {
        let file = record / A_FILE;
        if record % A_FILE == 0 {
            load.create(path(file), 0);
            if file >= KEPT {
                load.unlink(path(file - KEPT));
            }
        }
        load.append(path(file), RECORD);
        if record % 10 == 9 {
            load.fsync(path(file));
        }
        load.ops.push(Op::Idle { ms: 100 });
    }
    load.phase("log");
    load.ops
}
