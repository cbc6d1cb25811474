//! A recorder's trace does again what was done while it was recorded.

use std::time::Duration;

use flashkit_vfs::{FileSystem, Measured, MemoryFs, NewInode, SetAttr, Time, path};
use flashkit_workload::record::{PAUSE, Recorder};
use flashkit_workload::{Op, Options, generate, replay_fs, trace};

fn recorder(fs: MemoryFs, to: &std::path::Path) -> Recorder {
    Recorder::new(Box::new(fs), to, None).unwrap()
}

/// Path, whether it is a directory, and size of all there is.
fn tree(fs: &mut dyn FileSystem) -> Vec<(String, bool, u64)> {
    let root = fs.root();
    let mut found = Vec::new();
    path::walk(fs, root, &mut |_, path, attr| {
        let dir = attr.kind == flashkit_vfs::FileKind::Dir;
        let size = if dir { 0 } else { attr.size };
        found.push((String::from_utf8_lossy(path).into_owned(), dir, size));
        Ok(())
    })
    .unwrap();
    found.sort();
    found
}

fn replay(fs: &mut dyn Measured, lines: Vec<trace::Line>) -> u64 {
    // An operation is one request.
    let options = Options {
        request: 1 << 20,
        ..Options::default()
    };
    let replayed = replay_fs(fs, lines, options);
    replayed
        .unwrap_or_else(|error| panic!("{error}"))
        .report
        .total
        .user_bytes
}

/// A replay that is recorded gives the trace that it replays, and that one the same tree.
#[test]
fn a_trace_of_a_replay_is_the_trace() {
    let text = "K d\nC d/a 10000\nR d/a 0 10000\nU d/a 5000 3000\nU d/a 9000 3000\nT d/a 6000\nC b 0\nS d/a\nS d\n\
                A d/a 100\nN d/a b\nK e\nN d e/f\nI 5\nD b\nC e/f/x 7\nK gone\nZ gone\n";
    let dir = tempfile::tempdir().unwrap();
    for name in ["t.trace", "t.trace.gz"] {
        let to = dir.path().join(name);
        let mut fs = recorder(MemoryFs::new(), &to);
        let recorded = fs.recorded();
        replay(&mut fs, trace::parse(text.as_bytes()).unwrap());
        let mut again = Vec::new();
        let lines = trace::read(&to).unwrap();
        trace::write(lines.iter().map(|line| &line.op), &mut again).unwrap();
        assert_eq!(String::from_utf8(again).unwrap(), text);
        let recorded = recorded.lock().unwrap().clone();
        assert_eq!((recorded.operations, recorded.failed), (18, None));
        assert!(recorded.left_out.is_empty());
    }
}

/// Every load that has a name, recorded and replayed.
#[test]
fn loads_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["dbench", "sqlite", "compile"] {
        let to = dir.path().join(name);
        let mut fs = recorder(MemoryFs::new(), &to);
        let lines = generate::find(name).unwrap().lines();
        let bytes = replay(&mut fs, lines);
        let mut copy = MemoryFs::new();
        assert_eq!(
            replay(&mut copy, trace::read(&to).unwrap()),
            bytes,
            "{name}"
        );
        assert_eq!(tree(&mut copy), tree(&mut fs), "{name}");
    }
}

/// Hard links, files without a name, replaced files, strange names, and what the format cannot say.
#[test]
fn names_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("t");
    let mut fs = recorder(MemoryFs::new(), &to);
    let (root, new, now) = (fs.root(), NewInode::default(), Time::default());
    let mut make = |name: &[u8], size: usize| {
        let ino = fs.create(root, name, &new).unwrap().ino;
        fs.write(ino, 0, &vec![1; size], now).unwrap();
        ino
    };
    let a = make(b"a b", 10);
    let open = make(b"open", 20);
    let replaced = make(b"replaced", 30);
    make(b"by", 40);
    fs.link(a, root, b"a2", now).unwrap();
    fs.unlink(root, b"a b", now).unwrap();
    fs.write(a, 10, &[1; 5], now).unwrap();
    fs.open(open).unwrap();
    fs.unlink(root, b"open", now).unwrap();
    fs.write(open, 0, &[2; 7], now).unwrap();
    fs.open(replaced).unwrap();
    fs.rename(root, b"by", root, b"replaced", false, now)
        .unwrap();
    fs.write(replaced, 30, &[2; 7], now).unwrap();
    fs.release(replaced).unwrap();
    fs.release(open).unwrap();
    fs.symlink(root, b"link", b"a2", &new).unwrap();
    let mode = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    fs.setattr(a, &mode).unwrap();
    fs.unlink(root, b"link", now).unwrap();
    assert!(fs.unlink(root, b"nothing", now).is_err());
    fs.fsync(root).unwrap();
    let expected = [
        ("a2".to_owned(), false, 15),
        ("replaced".to_owned(), false, 40),
    ];
    assert_eq!(tree(&mut fs), expected);
    let recorded = fs.recorded();
    fs.unmount().unwrap();
    let left_out = &recorded.lock().unwrap().left_out;
    let counted: Vec<_> = left_out.iter().map(|(what, n)| (*what, *n)).collect();
    let all = [
        ("attributes", 1),
        ("fsyncs of the root directory", 1),
        ("hard links", 1),
        ("symbolic links and special files", 1),
    ];
    assert_eq!(counted, all);
    let text = std::fs::read_to_string(&to).unwrap();
    let hidden = format!(".unlinked-{open}");
    let wanted = format!(
        "C a%20b 10\nC open 20\nC replaced 30\nC by 40\nN a%20b a2\nA a2 5\nN open {hidden}\nU {hidden} 0 7\n\
         N replaced .unlinked-{replaced}\nN by replaced\nA .unlinked-{replaced} 7\nD .unlinked-{replaced}\nD {hidden}\n"
    );
    assert!(text.starts_with(&wanted), "{text}");
    assert!(
        text.ends_with("# left out: 1 symbolic links and special files\n"),
        "{text}"
    );
    let mut copy = MemoryFs::new();
    replay(&mut copy, trace::read(&to).unwrap());
    assert_eq!(tree(&mut copy), expected);
}

/// Names that change places: files, a directory and a file, and two names of one file, which stay.
#[test]
fn names_change_places() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("t");
    let mut fs = recorder(MemoryFs::new(), &to);
    let (root, new, now) = (fs.root(), NewInode::default(), Time::default());
    let sub = fs.mkdir(root, b"sub", &new).unwrap().ino;
    let mut make = |dir, name: &[u8], size: usize| {
        let ino = fs.create(dir, name, &new).unwrap().ino;
        fs.write(ino, 0, &vec![1; size], now).unwrap();
        ino
    };
    let a = make(root, b"a", 10);
    make(root, b"b", 20);
    make(sub, b"inside", 30);
    fs.link(a, root, b"a2", now).unwrap();
    fs.exchange(root, b"a", root, b"b", now).unwrap();
    fs.exchange(root, b"a", root, b"sub", now).unwrap();
    fs.exchange(root, b"b", root, b"a2", now).unwrap();
    fs.write(a, 10, &[1; 5], now).unwrap();
    assert!(fs.exchange(root, b"a", root, b"nothing", now).is_err());
    fs.unlink(root, b"a2", now).unwrap();
    let expected = [
        ("a".to_owned(), true, 0),
        ("a/inside".to_owned(), false, 30),
        ("b".to_owned(), false, 15),
        ("sub".to_owned(), false, 20),
    ];
    assert_eq!(tree(&mut fs), expected);
    fs.unmount().unwrap();
    let mut copy = MemoryFs::new();
    replay(&mut copy, trace::read(&to).unwrap());
    assert_eq!(tree(&mut copy), expected);
}

/// What is there before is made first, and pauses are lines.
#[test]
fn a_volume_that_is_not_empty_and_a_pause() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("t");
    let mut held = MemoryFs::new();
    let new = NewInode::default();
    let sub = path::mkdir_p(&mut held, b"sub", &new).unwrap().ino;
    let file = held.create(sub, b"file", &new).unwrap().ino;
    held.write(file, 0, &[1; 100], new.now).unwrap();
    let mut fs = Recorder::new(Box::new(held), &to, Some(PAUSE)).unwrap();
    fs.write(file, 100, &[1; 11], new.now).unwrap();
    std::thread::sleep(PAUSE + Duration::from_millis(20));
    fs.fsync(file).unwrap();
    fs.unmount().unwrap();
    let lines = trace::read(&to).unwrap();
    let ops: Vec<String> = lines.iter().map(|line| line.op.to_string()).collect();
    assert_eq!(ops[..3], ["K sub", "C sub/file 100", "M before"]);
    // A busy machine may have made more pauses.
    let pause = |op: &Op| matches!(op, Op::Idle { ms } if *ms >= 30);
    assert!(lines.iter().any(|line| pause(&line.op)), "{ops:?}");
    let without: Vec<&String> = ops[3..].iter().filter(|op| !op.starts_with("I ")).collect();
    assert_eq!(without, ["A sub/file 11", "S sub/file"]);
}

/// The file system goes on where its trace cannot.
#[test]
fn a_trace_that_cannot_be_written() {
    let full = std::path::Path::new("/dev/full");
    let mut fs = recorder(MemoryFs::new(), full);
    let recorded = fs.recorded();
    let (root, new) = (fs.root(), NewInode::default());
    fs.create(root, b"a", &new).unwrap();
    fs.sync().unwrap();
    fs.create(root, b"b", &new).unwrap();
    fs.unmount().unwrap();
    let failed = recorded.lock().unwrap().failed.clone().unwrap();
    assert!(failed.contains("No space left"), "{failed}");
    let nowhere = std::path::Path::new("/nowhere/t");
    assert!(Recorder::new(Box::new(MemoryFs::new()), nowhere, None).is_err());
}

/// What was recorded is in the file soon, while the recorder goes on: it may be killed.
#[test]
fn a_trace_keeps_up_with_its_recorder() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["t.trace", "t.trace.gz"] {
        let to = dir.path().join(name);
        let mut fs = recorder(MemoryFs::new(), &to);
        let root = fs.root();
        let mut written = |file: &str| {
            let made = fs.create(root, file.as_bytes(), &NewInode::default());
            let ino = made.unwrap().ino;
            fs.write(ino, 0, &[7; 100], Time::default()).unwrap();
        };
        for (lines, file) in [(1, "a"), (2, "b")] {
            written(file);
            // It has an end even where it fails.
            for _ in 0..200 {
                if trace::read(&to).is_ok_and(|found| found.len() == lines) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            let found = trace::read(&to).unwrap();
            let last = &found[lines - 1].op;
            let path = file.to_owned();
            assert_eq!(*last, Op::Create { path, size: 100 }, "{name}");
        }
        drop(fs);
    }
}
