//! Request patterns: the four baselines and the nine micro-benchmarks of uFLIP.
//!
//! L. Bouganim, B. Jonsson, P. Bonnet: *uFLIP: Understanding Flash IO Patterns*, CIDR 2009. Each
//! varies one parameter around sequential or random reads or writes of 32 KiB. Here the
//! device is a file. What differs: processes that run in parallel are streams whose requests
//! arrive in random order, because one process replays them; pauses are whole milliseconds;
//! targets end at the file's end.

use flashkit_workload::{Op, Rng};

/// The file that requests go to.
pub const TARGET: &str = "target";
/// Bytes of a request where nothing else is said.
pub const SIZE: u64 = 32 << 10;
/// Requests of a micro-benchmark.
pub const COUNT: u64 = 256;

/// One of the four baselines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Sequential reads.
    Sr,
    /// Random reads.
    Rr,
    /// Sequential writes.
    Sw,
    /// Random writes.
    Rw,
}

impl Baseline {
    /// All four.
    pub const ALL: [Baseline; 4] = [Baseline::Sr, Baseline::Rr, Baseline::Sw, Baseline::Rw];

    /// `sr`, `rr`, `sw`, `rw`.
    pub fn name(self) -> &'static str {
        match self {
            Baseline::Sr => "sr",
            Baseline::Rr => "rr",
            Baseline::Sw => "sw",
            Baseline::Rw => "rw",
        }
    }

    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Baseline::Sr => "sequential reads",
            Baseline::Rr => "random reads",
            Baseline::Sw => "sequential writes",
            Baseline::Rw => "random writes",
        }
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        matches!(self, Baseline::Sw | Baseline::Rw)
    }

    fn random(self) -> bool {
        matches!(self, Baseline::Rr | Baseline::Rw)
    }
}

/// Requests of one kind over a part of the file, one after another.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Reads or writes, in sequence or not.
    pub kind: Baseline,
    /// Bytes of a request.
    pub size: u64,
    /// Bytes that requests are moved from their natural alignment.
    pub shift: u64,
    /// First byte of the part.
    pub start: u64,
    /// Bytes of the part. What is sequential begins again at its end.
    pub target: u64,
    /// Step between sequential requests, in requests: -1 goes backwards, 0 stays.
    pub step: i64,
    next: u64,
}

impl Stream {
    /// Over the first `target` bytes of the file.
    pub fn new(kind: Baseline, size: u64, target: u64) -> Stream {
        Stream {
            kind,
            size,
            shift: 0,
            start: 0,
            target,
            step: 1,
            next: 0,
        }
    }

    /// Places for requests in the part.
    fn places(&self) -> u64 {
        (self.target.saturating_sub(self.shift) / self.size).max(1)
    }

    /// The next request.
    pub fn next(&mut self, rng: &mut Rng) -> Op {
        let places = self.places();
        let place = if self.kind.random() {
            rng.below(places)
        } else {
            let steps = i128::from(self.next) * i128::from(self.step);
            steps.rem_euclid(i128::from(places)) as u64
        };
        self.next += 1;
        let offset = self.start + self.shift + place * self.size;
        request(self.kind.writes(), offset, self.size)
    }
}

fn request(write: bool, offset: u64, size: u64) -> Op {
    let path = TARGET.to_owned();
    if write {
        Op::Update { path, offset, size }
    } else {
        Op::Read { path, offset, size }
    }
}

/// `count` requests of a stream.
pub fn baseline(mut stream: Stream, count: u64, rng: &mut Rng) -> Vec<Op> {
    (0..count).map(|_| stream.next(rng)).collect()
}

/// Each place of a stream's part once, in random order if the stream is random: a cache that has
/// seen a page once is of no use.
pub fn once(stream: &Stream, rng: &mut Rng) -> Vec<Op> {
    let mut places: Vec<u64> = (0..stream.places()).collect();
    if stream.kind.random() {
        for i in (1..places.len()).rev() {
            places.swap(i, rng.below(i as u64 + 1) as usize);
        }
    }
    let first = stream.start + stream.shift;
    let at = |place: u64| {
        request(
            stream.kind.writes(),
            first + place * stream.size,
            stream.size,
        )
    };
    places.into_iter().map(at).collect()
}

/// The same with a pause before each request but the first.
pub fn paused(ops: Vec<Op>, ms: u64) -> Vec<Op> {
    bursts(ops, 1, ms)
}

/// The same in bursts of so many requests, with pauses between them.
pub fn bursts(ops: Vec<Op>, burst: u64, ms: u64) -> Vec<Op> {
    let mut out = Vec::with_capacity(ops.len() * 2);
    for (i, op) in ops.into_iter().enumerate() {
        if ms > 0 && i > 0 && (i as u64).is_multiple_of(burst) {
            out.push(Op::Idle { ms });
        }
        out.push(op);
    }
    out
}

/// `count` requests of several streams: round robin, or in random order.
pub fn interleaved(mut streams: Vec<Stream>, in_turn: bool, count: u64, rng: &mut Rng) -> Vec<Op> {
    let degree = streams.len() as u64;
    let mut ops = Vec::new();
    for i in 0..count {
        let turn = if in_turn {
            i % degree
        } else {
            rng.below(degree)
        };
        ops.push(streams[turn as usize].next(rng));
    }
    ops
}

/// `ratio` requests of one stream for each of another.
pub fn mixed(mut one: Stream, mut other: Stream, ratio: u64, count: u64, rng: &mut Rng) -> Vec<Op> {
    (0..count)
        .map(|i| {
            if i % (ratio + 1) < ratio {
                one.next(rng)
            } else {
                other.next(rng)
            }
        })
        .collect()
}

/// A point of a micro-benchmark.
pub struct Point {
    /// Which of the nine.
    pub benchmark: &'static str,
    /// The baseline, or the pair of a mix.
    pub kind: String,
    /// What the parameter is.
    pub parameter: &'static str,
    /// Its value.
    pub value: i64,
    /// The requests.
    pub ops: Vec<Op>,
}

/// Every point of the nine micro-benchmarks over a file of `target` bytes.
pub fn uflip(target: u64, seed: u64) -> Vec<Point> {
    let mut all = Points {
        target,
        rng: Rng::new(seed),
        points: Vec::new(),
    };
    all.granularity();
    all.alignment();
    all.locality();
    all.partitioning();
    all.order();
    all.parallelism();
    all.mix();
    all.pause();
    all.bursts();
    all.points
}

struct Points {
    target: u64,
    rng: Rng,
    points: Vec<Point>,
}

impl Points {
    fn add(&mut self, names: (&'static str, &str, &'static str), value: u64, ops: Vec<Op>) {
        let (benchmark, kind, parameter) = names;
        self.points.push(Point {
            benchmark,
            kind: kind.to_owned(),
            parameter,
            value: value as i64,
            ops,
        });
    }

    fn stream(&self, kind: Baseline) -> Stream {
        Stream::new(kind, SIZE, self.target)
    }

    /// Sizes from a sector to 512 sectors, and some that are no powers of two.
    fn granularity(&mut self) {
        let odd = [3 << 10, 24 << 10, 100 << 10];
        for kind in Baseline::ALL {
            for size in (0..10).map(|k| 512 << k).chain(odd) {
                let stream = Stream::new(kind, size, self.target);
                let ops = baseline(stream, COUNT, &mut self.rng);
                self.add(("granularity", kind.name(), "size"), size, ops);
            }
        }
    }

    /// Shifts from a sector to a request.
    fn alignment(&mut self) {
        for kind in Baseline::ALL {
            for shift in (0..7).map(|k| 512 << k) {
                let mut stream = self.stream(kind);
                stream.shift = shift;
                let ops = baseline(stream, COUNT, &mut self.rng);
                self.add(("alignment", kind.name(), "shift"), shift, ops);
            }
        }
    }

    /// Parts of the file from one request to 256.
    fn locality(&mut self) {
        for kind in Baseline::ALL {
            for target in (0..9).map(|k| SIZE << k) {
                let stream = Stream::new(kind, SIZE, target.min(self.target));
                let ops = baseline(stream, COUNT, &mut self.rng);
                self.add(("locality", kind.name(), "target"), target, ops);
            }
        }
    }

    /// Sequential in each of 1 to 256 parts, in turn.
    fn partitioning(&mut self) {
        for kind in [Baseline::Sr, Baseline::Sw] {
            for parts in (0..9).map(|k| 1u64 << k) {
                let streams = self.parts(kind, parts);
                let ops = interleaved(streams, true, COUNT, &mut self.rng);
                self.add(("partitioning", kind.name(), "partitions"), parts, ops);
            }
        }
    }

    /// Streams over equal parts.
    fn parts(&self, kind: Baseline, parts: u64) -> Vec<Stream> {
        let size = (self.target / parts / SIZE).max(1) * SIZE;
        let stream = |part: u64| {
            let mut stream = Stream::new(kind, SIZE, size);
            stream.start = part * size;
            stream
        };
        (0..parts).map(stream).collect()
    }

    /// Backwards, in place, and with gaps.
    fn order(&mut self) {
        for kind in [Baseline::Sr, Baseline::Sw] {
            for step in [-1, 0].into_iter().chain((0..9).map(|k| 1i64 << k)) {
                let mut stream = self.stream(kind);
                stream.step = step;
                let ops = baseline(stream, COUNT, &mut self.rng);
                self.add(("order", kind.name(), "step"), step as u64, ops);
            }
        }
    }

    /// 1 to 16 streams at a time, each over its own part.
    fn parallelism(&mut self) {
        for kind in Baseline::ALL {
            for degree in (0..5).map(|k| 1u64 << k) {
                let streams = self.parts(kind, degree);
                let ops = interleaved(streams, false, COUNT, &mut self.rng);
                self.add(("parallelism", kind.name(), "degree"), degree, ops);
            }
        }
    }

    /// 1 to 64 requests of one baseline for each of another.
    fn mix(&mut self) {
        let all = Baseline::ALL;
        for (i, one) in all.into_iter().enumerate() {
            for other in all.into_iter().skip(i + 1) {
                for ratio in (0..7).map(|k| 1u64 << k) {
                    let (a, b) = (self.stream(one), self.stream(other));
                    let ops = mixed(a, b, ratio, COUNT, &mut self.rng);
                    let kind = format!("{}-{}", one.name(), other.name());
                    self.add(("mix", &kind, "ratio"), ratio, ops);
                }
            }
        }
    }

    /// 1 to 256 ms between requests.
    fn pause(&mut self) {
        for kind in Baseline::ALL {
            for ms in (0..9).map(|k| 1u64 << k) {
                let ops = baseline(self.stream(kind), COUNT, &mut self.rng);
                self.add(("pause", kind.name(), "ms"), ms, paused(ops, ms));
            }
        }
    }

    /// 10 to 640 requests between pauses of 100 ms.
    fn bursts(&mut self) {
        for kind in Baseline::ALL {
            for burst in (0..7).map(|k| 10u64 << k) {
                let ops = baseline(self.stream(kind), COUNT.max(2 * burst), &mut self.rng);
                self.add(
                    ("bursts", kind.name(), "requests"),
                    burst,
                    bursts(ops, burst, 100),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const TARGET_SIZE: u64 = 12 << 20;

    fn offsets(ops: &[Op]) -> Vec<u64> {
        let offset = |op: &Op| match op {
            Op::Update { offset, .. } | Op::Read { offset, .. } => Some(*offset),
            _ => None,
        };
        ops.iter().filter_map(offset).collect()
    }

    #[test]
    fn nine_benchmarks_with_all_their_points() {
        let points = uflip(TARGET_SIZE, 1);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for point in &points {
            *counts.entry(point.benchmark).or_default() += 1;
            let requests = offsets(&point.ops).len() as u64;
            assert!(requests >= COUNT, "{} {}", point.benchmark, point.value);
            for op in &point.ops {
                let (Op::Update { offset, size, .. } | Op::Read { offset, size, .. }) = op else {
                    continue;
                };
                assert!(offset + size <= TARGET_SIZE, "{} {op}", point.benchmark);
            }
        }
        let expected = [
            ("granularity", 4 * 13),
            ("alignment", 4 * 7),
            ("locality", 4 * 9),
            ("partitioning", 2 * 9),
            ("order", 2 * 11),
            ("parallelism", 4 * 5),
            ("mix", 6 * 7),
            ("pause", 4 * 9),
            ("bursts", 4 * 7),
        ];
        assert_eq!(counts, BTreeMap::from(expected));
        let again = uflip(TARGET_SIZE, 1);
        assert!(points.iter().zip(&again).all(|(a, b)| a.ops == b.ops));
    }

    #[test]
    fn sequences_go_where_they_should() {
        let mut rng = Rng::new(1);
        let mut stream = Stream::new(Baseline::Sw, 10, 35);
        assert_eq!(
            offsets(&baseline(stream.clone(), 5, &mut rng)),
            [0, 10, 20, 0, 10]
        );
        stream.step = -1;
        assert_eq!(
            offsets(&baseline(stream.clone(), 4, &mut rng)),
            [0, 20, 10, 0]
        );
        stream.step = 0;
        assert_eq!(offsets(&baseline(stream.clone(), 3, &mut rng)), [0, 0, 0]);
        stream.step = 2;
        assert_eq!(
            offsets(&baseline(stream.clone(), 4, &mut rng)),
            [0, 20, 10, 0]
        );
        stream.step = 1;
        stream.shift = 6;
        assert_eq!(offsets(&baseline(stream, 3, &mut rng)), [6, 16, 6]);
    }

    #[test]
    fn each_place_once() {
        let mut rng = Rng::new(1);
        assert_eq!(
            offsets(&once(&Stream::new(Baseline::Sr, 10, 35), &mut rng)),
            [0, 10, 20]
        );
        let mut random = offsets(&once(&Stream::new(Baseline::Rr, 10, 1000), &mut rng));
        let falls = random.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!((30..70).contains(&falls), "{falls}");
        random.sort_unstable();
        assert!(random.iter().copied().eq((0..100).map(|i| i * 10)));
    }

    #[test]
    fn streams_take_turns() {
        let mut rng = Rng::new(1);
        let two = || {
            let mut second = Stream::new(Baseline::Sr, 10, 20);
            second.start = 100;
            vec![Stream::new(Baseline::Sr, 10, 20), second]
        };
        assert_eq!(
            offsets(&interleaved(two(), true, 5, &mut rng)),
            [0, 100, 10, 110, 0]
        );
        let [one, other] = two().try_into().unwrap();
        assert_eq!(
            offsets(&mixed(one, other, 2, 5, &mut rng)),
            [0, 10, 100, 0, 10]
        );
        let random = offsets(&interleaved(two(), false, 100, &mut rng));
        assert!(random.iter().any(|at| *at >= 100) && random.iter().any(|at| *at < 100));
        let order = |offsets: &[u64]| {
            offsets
                .windows(2)
                .filter(|w| w[0] < 100 && w[1] < 100)
                .count()
        };
        assert!(order(&random) > 5, "streams must not alternate");
    }

    #[test]
    fn pauses_are_between_requests() {
        let ops = baseline(Stream::new(Baseline::Sr, 1, 9), 5, &mut Rng::new(1));
        let kinds =
            |ops: Vec<Op>| -> String { ops.iter().map(|op| op.to_string().remove(0)).collect() };
        assert_eq!(kinds(paused(ops.clone(), 7)), "RIRIRIRIR");
        assert_eq!(kinds(paused(ops.clone(), 0)), "RRRRR");
        assert_eq!(kinds(bursts(ops, 2, 7)), "RRIRRIR");
    }
}
