//! The paper's driver and tests, and what it says that they gave.

use flashkit_logdisk::{Config, Separate, Start, Victim};

use super::load::{Hot, Load, Pattern, WRITTEN};

/// The paper.
pub const SOURCE: &str = "A. Kawaguchi, S. Nishioka, H. Motoda: A Flash-Memory Based File System, \
                          USENIX Winter 1995";

/// Sectors that the file system keeps beside the data and that no test writes. The paper does not
/// say how many; of the values tried, those from about 690 to 725 bring all its counts within 15 %.
pub const STILL: u32 = 704;

/// The hot-and-cold tests begin on what so many times the data, written at random, leave.
pub const AGED: u32 = 15;

/// The host's own time for a request, in nanoseconds: brings the sequential test at 30 % to the
/// paper's 231 KB/s.
pub const HOST_NS: u64 = 6_600_000;

/// Cleaner steps after each request.
pub const STEPS: u32 = 2;

/// Data as a share of the paper's 100 %, 14 MiB, in sectors: whole requests.
pub const fn data(percent: u32) -> u32 {
    28_672 * percent / 100 / 8 * 8
}

/// Table 8: seconds of each phase of the Andrew benchmark and of all, on 4.4BSD's file system in
/// memory, on the disk at 52 to 56 % and at 92 to 96 %.
pub const ANDREW_S: [[f64; 3]; 6] = [
    [1.3, 2.0, 2.9],
    [8.0, 9.5, 11.5],
    [13.1, 13.5, 13.5],
    [16.9, 16.9, 17.1],
    [80.6, 81.8, 84.0],
    [119.9, 123.7, 129.0],
];

/// How full the file system was in Table 8.
pub const ANDREW_FULL: [&str; 2] = ["52-56 %", "92-96 %"];

/// Runs of the Andrew benchmark (3.5).
pub const ANDREW_RUNS: usize = 60;

/// Segments erased in those at 92 to 96 % (3.5).
pub const ANDREW_ERASED: u64 = 903;

/// The paper's test of this pattern.
pub fn load(pattern: Pattern, percent: u32, config: Config) -> Load {
    let by_age = config.victim == Victim::CostBenefit;
    Load {
        pattern,
        hot: Hot::Together,
        data: data(percent),
        still: STILL,
        aged: if pattern == Pattern::HotCold { AGED } else { 0 },
        written: WRITTEN,
        config,
        host_ns: HOST_NS,
        steps: STEPS,
        tick_ns: if by_age { 1_000_000_000 } else { 0 },
        seed: 1,
    }
}

/// The paper's cost-benefit policy (2.8): 30 days with one invalid block is an account of 2,576
/// seconds.
pub fn cost_benefit(separate: Separate) -> Config {
    Config {
        victim: Victim::CostBenefit,
        caller_clock: true,
        separate,
        start: Start::Threshold {
            segments: 12,
            account: 2_576,
            curve: 1,
        },
        ..Config::paper()
    }
}

/// How a test of the paper cleans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaner {
    /// Greedy.
    Greedy,
    /// Cost-benefit.
    CostBenefit,
    /// Cost-benefit with the separate segment (3.4).
    Separate,
}

impl Cleaner {
    /// The driver's settings.
    pub fn config(self) -> Config {
        match self {
            Cleaner::Greedy => Config::paper(),
            Cleaner::CostBenefit => cost_benefit(Separate::No),
            Cleaner::Separate => cost_benefit(Separate::Cold),
        }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Cleaner::Greedy => "greedy",
            Cleaner::CostBenefit => "cost-benefit",
            Cleaner::Separate => "cost-benefit, separate segment",
        }
    }
}

/// A test, and the paper's figures for it.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Number of the paper's table.
    pub table: u32,
    /// Where writes go.
    pub pattern: Pattern,
    /// Data, in percent of 14 MiB.
    pub percent: u32,
    /// The cleaner.
    pub cleaner: Cleaner,
    /// KB a second.
    pub throughput: Option<u64>,
    /// Segments erased.
    pub erased: Option<u64>,
    /// Blocks copied.
    pub copied: Option<u64>,
}

impl Test {
    /// The load that repeats it.
    pub fn load(&self) -> Load {
        load(self.pattern, self.percent, self.cleaner.config())
    }
}

const fn test(
    table: u32,
    pattern: Pattern,
    percent: u32,
    cleaner: Cleaner,
    [throughput, erased, copied]: [u64; 3],
) -> Test {
    Test {
        table,
        pattern,
        percent,
        cleaner,
        throughput: Some(throughput),
        erased: Some(erased),
        copied: Some(copied),
    }
}

/// A column of Table 7 of which only the throughput, or nothing, can be told: the text that there
/// is of the paper has its cells out of order.
const fn partly(percent: u32, cleaner: Cleaner, throughput: Option<u64>) -> Test {
    Test {
        table: 7,
        pattern: Pattern::HotCold,
        percent,
        cleaner,
        throughput,
        erased: None,
        copied: None,
    }
}

use Cleaner::{CostBenefit, Greedy, Separate as Apart};
use Pattern::{HotCold, Random, Sequential};

/// Tables 4 to 7.
pub const TESTS: [Test; 18] = [
    test(4, Sequential, 30, Greedy, [231, 749, 0]),
    test(4, Sequential, 60, Greedy, [230, 766, 0]),
    test(4, Sequential, 90, Greedy, [199, 889, 57_266]),
    test(5, Random, 30, Greedy, [222, 801, 26_383]),
    test(5, Random, 60, Greedy, [147, 1_066, 155_856]),
    test(5, Random, 90, Greedy, [40, 2_634, 938_294]),
    test(6, HotCold, 90, Greedy, [51, 2_617, 925_193]),
    test(6, HotCold, 90, CostBenefit, [43, 3_085, 1_161_090]),
    partly(30, CostBenefit, None),
    partly(30, Apart, None),
    partly(60, CostBenefit, None),
    partly(60, Apart, None),
    partly(70, CostBenefit, Some(135)),
    partly(70, Apart, Some(143)),
    partly(80, CostBenefit, Some(81)),
    partly(80, Apart, Some(127)),
    test(7, HotCold, 90, CostBenefit, [43, 3_085, 1_161_090]),
    test(7, HotCold, 90, Apart, [60, 2_218, 723_582]),
];
