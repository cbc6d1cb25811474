//! What operations cost, in blocks of the card and in its time: exact, so that a change for
//! the worse fails like a bug.

use crate::common::{KEY, content, formatted, mounted};
use flashkit_nanofs::{Handle, List, NanoFs};
use flashkit_sim::{CardCounters, CardTiming, Rng, SimCard};

/// Bytes of a node.
const NODE: usize = 500;

/// What the card was asked to do in a step.
fn cost<const N: usize, T>(
    fs: &mut NanoFs<SimCard, N>,
    step: impl FnOnce(&mut NanoFs<SimCard, N>) -> T,
) -> CardCounters {
    fs.device().clear_counters();
    step(fs);
    fs.device().counters()
}

/// Appends `n` nodes, one in a call; gives the blocks written.
fn append_nodes(fs: &mut NanoFs<SimCard>, file: Handle, n: usize) -> u64 {
    let data = content(1, 0, NODE);
    let append = |fs: &mut NanoFs<SimCard>| {
        for _ in 0..n {
            fs.append(file, &data).unwrap();
        }
        fs.sync().unwrap();
    };
    cost(fs, append).blocks_written
}

/// At most 1.1 writes for an appended block; 2 by the paper's Algorithm 1 and 3 by its
/// Algorithm 2, not counting the bitmap.
#[test]
fn an_append_by_each_kind_of_list() {
    let appended = |list: List| {
        let mut fs: NanoFs<SimCard> = mounted(formatted(12_000, 4));
        let file = fs.create(b"f").unwrap();
        append_nodes(&mut fs, file, 1);
        fs.set_list(list);
        append_nodes(&mut fs, file, 10_000)
    };
    let ours = appended(List::RollForward);
    assert_eq!(ours, OURS);
    assert!(ours * 10 <= 11 * 10_000);
    assert_eq!(appended(List::Reverse), REVERSE);
    assert_eq!(appended(List::Conventional), CONVENTIONAL);
}

/// Files that grow in turn, a block each: each has its header written once in four turns, and the
/// bitmap with it.
#[test]
fn appends_to_eight_files_in_turn() {
    let mut fs: NanoFs<SimCard> = mounted(formatted(12_000, 8));
    let data = content(1, 0, NODE);
    let files: Vec<_> = (0..8).map(|i| fs.create(&[b'a' + i]).unwrap()).collect();
    let spent = cost(&mut fs, |fs| {
        for i in 0..8_000 {
            fs.append(files[i % 8], &data).unwrap();
        }
        fs.sync().unwrap();
    });
    assert_eq!((spent.blocks_written, spent.blocks_read), IN_TURN);
}

/// A file of 256 MB: written and read in order within 3 % of its blocks; any place in it within 45
/// reads. A list without jumps needs 268,435 on average.
#[test]
fn a_file_of_256_mb() {
    const SIZE: usize = 256 << 20;
    let blocks = (SIZE / NODE) as u64;
    let card = formatted(540_000, 4);
    let mut fs: NanoFs<SimCard> = mounted(card);
    let file = fs.create(b"f").unwrap();
    let piece = content(1, 0, 64 << 10);
    let spent = cost(&mut fs, |fs| {
        for _ in 0..SIZE / piece.len() {
            fs.append(file, &piece).unwrap();
        }
        fs.sync().unwrap();
    });
    assert_eq!((spent.blocks_written, spent.blocks_read), WRITTEN);
    assert!(spent.blocks_written * 100 <= 103 * blocks);

    let mut rng = Rng::new(1);
    let (mut most, mut all) = (0, 0);
    for _ in 0..2_000 {
        let at = rng.below(SIZE as u64) as usize;
        let mut byte = [0];
        let spent = cost(&mut fs, |fs| {
            fs.seek(file, at as u32).unwrap();
            fs.read(file, &mut byte).unwrap();
        });
        assert_eq!(byte[0], piece[at % piece.len()], "at {at}");
        most = most.max(spent.blocks_read);
        all += spent.blocks_read;
    }
    assert_eq!((most, all / 2_000), RANDOM);
    assert!(most <= 45);

    let mut buf = vec![0; piece.len()];
    let spent = cost(&mut fs, |fs| {
        fs.seek(file, 0).unwrap();
        while fs.read(file, &mut buf).unwrap() > 0 {
            assert!(buf == piece);
        }
    });
    assert_eq!(spent.blocks_read, READ);
    assert!(spent.blocks_read * 100 <= 103 * blocks);
}

/// The time of a card of class 4: what the file system adds to the time of its blocks is less than
/// 3 %, whatever the buffer.
#[test]
fn the_time_of_sequential_writes_and_reads() {
    fn times<const N: usize>() -> (u64, u64) {
        let timing = CardTiming::CLASS_4;
        let mut fs: NanoFs<SimCard, N> = NanoFs::new(SimCard::new(12_000, timing));
        fs.format(KEY, 4, 1).unwrap();
        let file = fs.create(b"f").unwrap();
        let mut data = content(1, 0, 10_000 * NODE);
        let written = cost(&mut fs, |fs| {
            fs.write(file, &data).unwrap();
            fs.sync().unwrap();
        });
        let read = cost(&mut fs, |fs| {
            fs.seek(file, 0).unwrap();
            fs.read(file, &mut data).unwrap();
        });
        let buffer = (N - 2) as u64;
        let write_ns = 10_000 / buffer * (timing.write_ns + buffer * timing.write_block_ns);
        let read_ns = 10_000 / buffer * (timing.read_ns + buffer * timing.read_block_ns);
        // Per 1,000 of the time of the blocks.
        (
            written.time_ns * 1_000 / write_ns,
            read.time_ns * 1_000 / read_ns,
        )
    }
    let measured = [times::<3>(), times::<4>(), times::<6>()];
    assert_eq!(measured, TIMES);
    for (write, read) in measured {
        assert!(write <= 1_030 && read <= 1_030);
    }
}

/// One read for each file and one more; 1,000 files in less than 250 ms.
#[test]
fn a_mount_of_a_thousand_files() {
    let mut fs: NanoFs<SimCard> = NanoFs::new(SimCard::new(20_000, CardTiming::CLASS_4));
    fs.format(KEY, 1_000, 1).unwrap();
    for i in 0..1_000 {
        let file = fs.create(format!("file {i}").as_bytes()).unwrap();
        fs.append(file, &content(i, 0, 1_234)).unwrap();
        fs.close(file).unwrap();
        if [1, 10, 100, 1_000].contains(&(i + 1)) {
            let spent = cost(&mut fs, |fs| fs.mount(KEY).unwrap());
            assert_eq!(spent.blocks_read, u64::from(i) + 2);
            assert_eq!(spent.blocks_written, 0);
            assert_eq!(spent.time_ns, spent.blocks_read * 47_850);
        }
    }
    let spent = cost(&mut fs, |fs| fs.mount(KEY).unwrap());
    assert!(spent.time_ns < 250_000_000);
}

/// (blocks read, blocks written) of other calls, on a file of 1,000 nodes and some more bytes.
#[test]
fn other_calls() {
    let mut fs: NanoFs<SimCard> = mounted(formatted(4_000, 4));
    let file = fs.create(b"f").unwrap();
    fs.append(file, &content(1, 0, 1_000 * NODE + 100)).unwrap();
    fs.close(file).unwrap();
    let mut fs: NanoFs<SimCard> = mounted(fs.into_device());
    let mut file = Handle(0);
    let data = content(2, 0, 10_000);
    let mut spent = Vec::new();
    let mut note = |what: &'static str, c: CardCounters| {
        spent.push((what, c.blocks_read, c.blocks_written));
    };
    note("open", cost(&mut fs, |fs| file = fs.open(b"f").unwrap()));
    note(
        "first small append",
        cost(&mut fs, |fs| fs.append(file, b"x").unwrap()),
    );
    note("sync", cost(&mut fs, |fs| fs.sync().unwrap()));
    note(
        "small append",
        cost(&mut fs, |fs| fs.append(file, b"x").unwrap()),
    );
    note("sync", cost(&mut fs, |fs| fs.sync().unwrap()));
    let overwrite = |fs: &mut NanoFs<SimCard>, at: u32, len: usize| {
        fs.seek(file, at).unwrap();
        fs.write(file, &data[..len]).unwrap();
    };
    note(
        "overwrite in a node",
        cost(&mut fs, |fs| overwrite(fs, 250_100, 300)),
    );
    note(
        "the same again",
        cost(&mut fs, |fs| overwrite(fs, 250_100, 300)),
    );
    note(
        "overwrite of 20 nodes",
        cost(&mut fs, |fs| overwrite(fs, 100_000, 10_000)),
    );
    note(
        "truncate",
        cost(&mut fs, |fs| fs.truncate(file, 400_100).unwrap()),
    );
    note("close", cost(&mut fs, |fs| fs.close(file).unwrap()));
    note(
        "create",
        cost(&mut fs, |fs| file = fs.create(b"g").unwrap()),
    );
    note("close", cost(&mut fs, |fs| fs.close(file).unwrap()));
    note("rename", cost(&mut fs, |fs| fs.rename(b"g", b"h").unwrap()));
    note("delete", cost(&mut fs, |fs| fs.delete(b"f").unwrap()));
    note(
        "clean",
        cost(&mut fs, |fs| assert!(!fs.clean(u32::MAX).unwrap())),
    );
    note("space left", cost(&mut fs, |fs| fs.space_left().unwrap()));
    assert_eq!(spent, CALLS);
}

const OURS: u64 = 10_048;
const REVERSE: u64 = 20_010;
const CONVENTIONAL: u64 = 30_010;
const IN_TURN: (u64, u64) = (12_392, 37_313);
const WRITTEN: (u64, u64) = (539_505, 1_854);
const RANDOM: (u64, u64) = (34, 26);
const READ: u64 = 536_908;
const TIMES: [(u64, u64); 3] = [(1_011, 1_002), (1_012, 1_002), (1_012, 1_002)];
const CALLS: [(&str, u64, u64); 16] = [
    ("open", 1, 0),
    ("first small append", 3, 1),
    ("sync", 0, 1),
    ("small append", 0, 0),
    ("sync", 0, 1),
    ("overwrite in a node", 11, 2),
    ("the same again", 0, 2),
    ("overwrite of 20 nodes", 32, 23),
    ("truncate", 36, 24),
    ("close", 0, 2),
    ("create", 1, 1),
    ("close", 0, 0),
    ("rename", 4, 1),
    ("delete", 201, 3),
    ("clean", 808, 4),
    ("space left", 5, 0),
];
