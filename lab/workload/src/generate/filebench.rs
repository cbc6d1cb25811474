//! What the paper on FlashLight (J. Kim and others, ACM TECS, 2012, 5.4) runs besides `SysBench`
//! and Postmark: three loads of Filebench by its Table VII, threads, updates of files, and a
//! stream of data after all that.
//!
//! Filebench's own choices are not known: four fifths of the files are there at first, sizes
//! follow a gamma distribution with the shape 1.5. A load ends after so many operations, where
//! nobody stops it after a thousand seconds. Each operation on a file ends in an fsync, but for
//! the stream.

use std::collections::VecDeque;
use std::f64::consts::PI;

use super::loads::{KIB, Load};
use crate::rng::Rng;
use crate::trace::Op;

/// Bytes of a file, or in the mean.
const SIZE: u64 = 128 * KIB;
/// Files of the large loads, in directories of 20.
const FILES: u64 = 1_500;
const WIDTH: u64 = 20;
/// Bytes that a thread writes in its turn.
const TURN: u64 = 64 * KIB;

/// The files that are there.
struct Tree {
    load: Load,
    files: Vec<File>,
    next: u64,
    width: u64,
}

#[derive(Clone, Copy)]
struct File {
    number: u64,
    size: u64,
}

impl Tree {
    fn new(width: u64) -> Tree {
        Tree {
            load: Load::new(),
            files: Vec::new(),
            next: 0,
            width,
        }
    }

    fn path(&self, number: u64) -> String {
        format!("d{}/f{number}", number / self.width)
    }

    /// A number and a place for a file.
    fn begin(&mut self, size: u64) -> File {
        let number = self.next;
        self.next += 1;
        if number.is_multiple_of(self.width) {
            self.load.mkdir(format!("d{}", number / self.width));
        }
        File { number, size }
    }

    fn create(&mut self, size: u64) {
        let file = self.begin(size);
        let path = self.path(file.number);
        self.load.create(path.clone(), size);
        self.load.fsync(path);
        self.files.push(file);
    }

    fn prepare(&mut self, count: u64) {
        for _ in 0..count {
            let size = gamma(&mut self.load.rng);
            self.create(size);
        }
        self.load.phase("prepare");
    }

    /// Takes a file that nobody works on.
    fn take(&mut self) -> Option<File> {
        let n = self.files.len() as u64;
        (n > 0).then(|| {
            let any = self.load.rng.below(n) as usize;
            self.files.swap_remove(any)
        })
    }

    fn delete(&mut self) {
        if let Some(file) = self.take() {
            self.load.unlink(self.path(file.number));
        }
    }

    /// What reads nothing finds the file: it costs what `stat` costs.
    fn stat(&mut self) {
        if let Some(file) = self.take() {
            self.load.read(self.path(file.number), 0);
            self.files.push(file);
        }
    }
}

/// A size with the mean [`SIZE`], gamma with the shape 1.5: an exponential and half the square of a
/// normal one. In units of 512 bytes.
fn gamma(rng: &mut Rng) -> u64 {
    let mut unit = || (rng.below(1 << 53) + 1) as f64 / (1u64 << 53) as f64;
    let exponential = -unit().ln();
    let normal = (-2.0 * unit().ln()).sqrt() * (2.0 * PI * unit()).cos();
    let size = (exponential + normal * normal / 2.0) / 1.5 * SIZE as f64;
    ((size / 512.0) as u64).clamp(1, 8 * SIZE / 512) * 512
}

/// 100 files in one directory.
pub fn create_files() -> Vec<Op> {
    let mut tree = Tree::new(100);
    for _ in 0..100 {
        let size = gamma(&mut tree.load.rng);
        tree.create(size);
    }
    tree.load.phase("create");
    tree.load.ops
}

/// 500 files are read, and written to others.
pub fn copy_files() -> Vec<Op> {
    let mut tree = Tree::new(WIDTH);
    tree.prepare(500);
    for file in tree.files.clone() {
        let from = tree.path(file.number);
        tree.load.read(from, file.size);
        tree.create(file.size);
    }
    tree.load.phase("copy");
    tree.load.ops
}

/// 4,000 times a file comes and another goes.
pub fn create_delete() -> Vec<Op> {
    serve(FILES, 4_000)
}

/// So many files, and so many times another goes and one comes: phases `prepare` and `serve`.
pub fn serve(files: u64, times: u64) -> Vec<Op> {
    create_and_delete(files, times).load.ops
}

fn create_and_delete(files: u64, times: u64) -> Tree {
    let mut tree = Tree::new(WIDTH);
    tree.prepare(files);
    for _ in 0..times {
        tree.delete();
        let size = gamma(&mut tree.load.rng);
        tree.create(size);
    }
    tree.load.phase("serve");
    tree
}

/// Threads that in turn write a request each, until together they have 2,000 times created a file,
/// appended to one, deleted one, and asked for the attributes of one.
pub fn threads(count: usize) -> Vec<Op> {
    let mut tree = Tree::new(WIDTH);
    tree.prepare(FILES / 2);
    let mut threads: Vec<Thread> = (0..count).map(|_| Thread::default()).collect();
    let rounds = 2_000 / count;
    while threads.iter().any(|thread| thread.rounds < rounds) {
        for thread in &mut threads {
            if thread.rounds < rounds {
                thread.turn(&mut tree);
            }
        }
    }
    tree.load.phase("serve");
    tree.load.ops
}

/// What a thread is at.
#[derive(Default)]
struct Thread {
    left: VecDeque<Op>,
    /// Whose file it is, until that is written.
    file: Option<File>,
    step: usize,
    rounds: usize,
}

impl Thread {
    fn turn(&mut self, tree: &mut Tree) {
        if self.left.is_empty() {
            match self.step {
                0 => {
                    let file = tree.begin(0);
                    self.write(tree, file, true);
                }
                1 => {
                    if let Some(file) = tree.take() {
                        self.write(tree, file, false);
                    }
                }
                2 => tree.delete(),
                _ => tree.stat(),
            }
            self.rounds += usize::from(self.step == 3);
            self.step = (self.step + 1) % 4;
        }
        tree.load.ops.extend(self.left.pop_front());
        if self.left.is_empty() {
            tree.files.extend(self.file.take());
        }
    }

    fn write(&mut self, tree: &Tree, file: File, create: bool) {
        let path = tree.path(file.number);
        for at in (0..SIZE).step_by(TURN as usize) {
            let (path, size) = (path.clone(), TURN);
            self.left.push_back(if create && at == 0 {
                Op::Create { path, size }
            } else {
                Op::Append { path, size }
            });
        }
        self.left.push_back(Op::Fsync { path });
        self.file = Some(File {
            size: file.size + SIZE,
            ..file
        });
    }
}

/// 2,000 times a file comes, so many extents of so many KiB of one are overwritten, one goes, and
/// the attributes of one are asked for.
pub fn updates(extents: u64, kib: u64) -> Vec<Op> {
    let mut tree = Tree::new(WIDTH);
    for _ in 0..FILES {
        tree.create(SIZE);
    }
    tree.load.phase("prepare");
    for _ in 0..2_000 {
        tree.create(SIZE);
        if let Some(file) = tree.take() {
            let (path, size) = (tree.path(file.number), kib * KIB);
            // Pieces of one size beside each other do not overlap.
            let unit = if extents > 1 { size } else { 4 * KIB };
            let mut places: Vec<u64> = (0..=(SIZE - size) / unit).collect();
            for _ in 0..extents {
                let any = tree.load.rng.below(places.len() as u64) as usize;
                tree.load
                    .update(&path, places.swap_remove(any) * unit, size);
            }
            if extents > 0 {
                tree.load.fsync(path);
            }
            tree.files.push(file);
        }
        tree.delete();
        tree.stat();
    }
    tree.load.phase("serve");
    tree.load.ops
}

/// Files come and go, some are deleted for room, and then 64 MiB are written, 64 KiB at a time;
/// with `pause` ms before each for cleaning.
pub fn stream(pause: u64) -> Vec<Op> {
    let mut tree = create_and_delete(FILES, 4_000);
    for _ in 0..FILES / 2 {
        tree.delete();
    }
    tree.load.create("stream".to_owned(), 0);
    tree.load.phase("room");
    for _ in 0..1_024 {
        if pause > 0 {
            tree.load.ops.push(Op::Idle { ms: pause });
        }
        tree.load.append("stream".to_owned(), TURN);
    }
    tree.load.phase("stream");
    tree.load.ops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_mean_of_the_paper() {
        let mut rng = Rng::new(1);
        let mean = (0..20_000).map(|_| gamma(&mut rng)).sum::<u64>() / 20_000;
        assert!(mean.abs_diff(SIZE) < SIZE / 50, "{mean}");
    }

    #[test]
    fn threads_take_turns_with_files_of_their_own() {
        let count = |ops: &[Op]| {
            let mut n = [0; 4];
            for op in ops {
                match op {
                    Op::Append { .. } => n[0] += 1,
                    Op::Unlink { .. } => n[1] += 1,
                    Op::Read { size, .. } => n[2] += 1 + usize::from(*size > 0),
                    Op::Fsync { .. } => n[3] += 1,
                    _ => {}
                }
            }
            n
        };
        for n in [1, 10] {
            let ops = threads(n);
            assert_eq!(count(&ops), [6_000, 2_000, 2_000, 4_750], "{n}");
        }
        // Ten files are begun before the first is ended.
        let ops = threads(10);
        let from = ops.iter().position(|op| matches!(op, Op::Phase { .. }));
        let first: Vec<_> = ops[from.unwrap() + 1..]
            .iter()
            .filter(|op| !matches!(op, Op::Mkdir { .. }))
            .take(10)
            .collect();
        assert!(
            first.iter().all(|op| matches!(op, Op::Create { .. })),
            "{first:?}"
        );
    }

    #[test]
    fn extents_of_an_update_lie_in_the_file_and_apart() {
        for (extents, kib) in [(0, 0), (1, 32), (1, 128), (16, 2)] {
            let ops = updates(extents, kib);
            let mut last: Vec<(u64, u64)> = Vec::new();
            let mut updates = 0;
            for op in ops {
                let Op::Update { offset, size, .. } = op else {
                    last.clear();
                    continue;
                };
                updates += 1;
                assert!(offset + size <= SIZE && size == kib * KIB);
                assert!(
                    last.iter()
                        .all(|l| offset >= l.0 + l.1 || offset + size <= l.0)
                );
                last.push((offset, size));
            }
            assert_eq!(updates, 2_000 * extents);
        }
    }
}
