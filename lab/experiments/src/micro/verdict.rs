//! The paper's observations (section V and Table I), looked at in the results.

mod judge;

use judge::Judged;

use super::data::Data;
use crate::report::Table;

/// What became of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is so today.
    Confirmed,
    /// It is not so any more, or not here.
    Changed,
    /// Its cases have no results yet.
    NotMeasured,
}

impl Verdict {
    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Verdict::Confirmed => "confirmed",
            Verdict::Changed => "changed",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// Something that the paper observed.
pub struct Observation {
    /// Where.
    pub place: &'static str,
    /// What, in our words.
    pub what: &'static str,
    /// How it is looked at.
    judge: fn(Data<'_>) -> Judged,
}

impl Observation {
    /// What the results say.
    pub fn look(&self, data: Data<'_>) -> (Verdict, String) {
        match (self.judge)(data) {
            Some((true, found)) => (Verdict::Confirmed, found),
            Some((false, found)) => (Verdict::Changed, found),
            None => (
                Verdict::NotMeasured,
                "some of its cases have no figures yet".into(),
            ),
        }
    }
}

const fn observed(
    place: &'static str,
    what: &'static str,
    judge: fn(Data<'_>) -> Judged,
) -> Observation {
    Observation { place, what, judge }
}

/// All of them, in the paper's order.
pub const OBSERVATIONS: &[Observation] = &[
    observed(
        "V.A",
        "reads cost the same in sequence and at random, but for 2 KB",
        judge::reads_alike,
    ),
    observed(
        "V.A",
        "sequential writes: JFFS2 takes 4 times as long as UBIFS",
        judge::sw_jffs2_slow,
    ),
    observed(
        "V.A",
        "sequential writes: YAFFS2 is fastest, 5 times as fast as UBIFS below 32 KB, 1.5 times above",
        judge::sw_yaffs2_fastest,
    ),
    observed(
        "V.A",
        "random writes: JFFS2 takes more than twice as long as UBIFS",
        judge::rw_jffs2_slow,
    ),
    observed(
        "V.A",
        "random writes: YAFFS2 is no slower than UBIFS below 16 KB, and slower above, twice at 512 KB",
        judge::rw_yaffs2_ubifs,
    ),
    observed(
        "V.A",
        "UBIFS writes cost more at random than in sequence",
        judge::ubifs_random_worse,
    ),
    observed(
        "V.A",
        "YAFFS2 writes cost more at random than in sequence",
        judge::yaffs2_random_worse,
    ),
    observed(
        "V.A",
        "JFFS2 writes cost less at random than in sequence",
        judge::jffs2_random_better,
    ),
    observed(
        "V.A",
        "sequential writes: JFFS2 erases most, 1.5 times more at 2 KB than at 512 KB",
        judge::sw_jffs2_erases,
    ),
    observed(
        "V.A",
        "sequential writes: UBIFS erases less the larger the requests (1.4 to 0.3)",
        judge::sw_ubifs_erases,
    ),
    observed(
        "V.A",
        "sequential writes: YAFFS2 erases least, 0.2 at all sizes",
        judge::sw_yaffs2_erases,
    ),
    observed(
        "V.A",
        "random writes: UBIFS erases least, but for 2 KB",
        judge::rw_ubifs_erases,
    ),
    observed(
        "V.A",
        "the deviation of erases follows their mean",
        judge::deviation_follows,
    ),
    observed(
        "V.B",
        "JFFS2: 30 and 60 % alike, 75 % costs 2.5 times as much at 2 KB, 1.06 at 512 KB",
        judge::fill_jffs2,
    ),
    observed(
        "V.B",
        "YAFFS2 bears little clean space best",
        judge::fill_best,
    ),
    observed(
        "V.B",
        "YAFFS2: 75 % costs 2.2 times as much as 60 % at small requests, the same at 256 and 512 KB",
        judge::fill_yaffs2,
    ),
    observed(
        "V.B",
        "YAFFS2 erases least however full",
        judge::fill_yaffs2_erases,
    ),
    observed(
        "V.B",
        "UBIFS: 75 % costs 5 times as much as 30 % at 2 KB, 1.1 at 512 KB",
        judge::fill_ubifs,
    ),
    observed(
        "V.B",
        "erases are fewest at 8 to 64 KB, of JFFS2 and of UBIFS",
        judge::fill_middle,
    ),
    observed(
        "V.B",
        "JFFS2 wears blocks more evenly than UBIFS though it erases more",
        judge::fill_levels,
    ),
    observed(
        "V.C",
        "JFFS2 cleans in pauses: 1.67 ms become 0.84 at 2 KB, 173 become 148 at 512 KB",
        judge::pause_jffs2,
    ),
    observed(
        "V.C",
        "JFFS2 erases the same with and without pauses",
        judge::pause_jffs2_erases,
    ),
    observed("V.C", "YAFFS2 does not use pauses", judge::pause_yaffs2),
    observed(
        "V.C",
        "UBIFS is 8 to 12 times faster with pauses",
        judge::pause_ubifs,
    ),
    observed(
        "V.C",
        "UBIFS erases the same with and without pauses",
        judge::pause_ubifs_erases,
    ),
    observed(
        "Table I, 1",
        "JFFS2: good for reads, bad for writes",
        judge::table_jffs2,
    ),
    observed(
        "Table I, 1",
        "UBIFS: better speed and life for large random writes",
        judge::table_ubifs,
    ),
    observed(
        "Table I, 1",
        "YAFFS2: better speed and life for sequential and small random writes",
        judge::table_yaffs2,
    ),
    observed(
        "Table I, 2",
        "JFFS2 and UBIFS: good where clean space is left",
        judge::table_space,
    ),
    observed(
        "Table I, 2",
        "YAFFS2: bears little clean space better",
        judge::fill_best,
    ),
    observed(
        "Table I, 3",
        "JFFS2: good cleaning in pauses, longer life",
        judge::table_pause_jffs2,
    ),
    observed(
        "Table I, 3",
        "UBIFS: good cleaning in pauses, better speed",
        judge::pause_ubifs,
    ),
    observed(
        "Table I, 3",
        "YAFFS2: no cleaning in pauses",
        judge::pause_yaffs2,
    ),
];

/// The observations and what became of them.
pub fn table(data: Data<'_>) -> Table {
    let rows = OBSERVATIONS.iter().map(|observation| {
        let (verdict, found) = observation.look(data);
        vec![
            observation.place.into(),
            observation.what.into(),
            verdict.title().into(),
            found.into(),
        ]
    });
    Table {
        title: "What the paper observed, and what is so today".into(),
        columns: vec!["place", "observation", "verdict", "here"],
        keys: 4,
        rows: rows.collect(),
        notes: vec![
            "The paper's YAFFS2 was Linux's, below a page cache as the others. That of here has its direct interface, \
             no page cache and no thread that cleans: its requests cost what they cost by themselves."
                .into(),
            "Verdicts are computed from the cases without an fsync, as in the paper; where a page cache hides the \
             answer, cases with an fsync after each request are named."
                .into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::System::{self, Jffs2, Ubifs, Yaffs2};
    use crate::study::{Made, Outcome};
    use flashkit_workload::{Phase, Report};
    use serde_json::json;

    /// A result of the first group: flash time and erases per block are made up.
    fn result(system: System, kind: &str, kib: u64, us: u64, erases: f64) -> Outcome {
        let mut test = Phase {
            name: "test".into(),
            ops: 10,
            flash_us: us * 10,
            ..Phase::default()
        };
        test.erases.mean = erases;
        let params = json!({
            "group": "saturated", "kind": kind, "amount": 0, "pause": 0, "fsync": false, "size": kib << 10,
        });
        Outcome {
            case: format!("{}{kind}{kib}", system.name()),
            system,
            chip: "micron-20m".into(),
            params: params.as_object().cloned().unwrap_or_default(),
            report: Some(Report {
                phases: vec![test],
                ..Report::default()
            }),
            error: None,
            made: Made::default(),
        }
    }

    fn verdict(what: &str, outcomes: &[Outcome]) -> Verdict {
        let found = OBSERVATIONS.iter().find(|o| o.what.starts_with(what));
        found.unwrap().look(Data(outcomes)).0
    }

    #[test]
    fn without_results_there_are_no_verdicts() {
        for observation in OBSERVATIONS {
            let (verdict, _) = observation.look(Data(&[]));
            assert_eq!(verdict, Verdict::NotMeasured, "{}", observation.what);
        }
    }

    #[test]
    fn verdicts_follow_the_results() {
        let of = |jffs2: u64, erased: f64| {
            let points = [2, 32, 512].map(|kib| {
                [
                    result(Jffs2, "sw", kib, jffs2 * kib, erased / kib as f64),
                    result(Ubifs, "sw", kib, 100 * kib, 1.0 / kib as f64),
                ]
            });
            points.concat()
        };
        let slow = "sequential writes: JFFS2 takes";
        assert_eq!(verdict(slow, &of(400, 2.0)), Verdict::Confirmed);
        assert_eq!(verdict(slow, &of(200, 2.0)), Verdict::Changed);
        let most = "sequential writes: JFFS2 erases most";
        assert_eq!(verdict(most, &of(400, 2.0)), Verdict::Confirmed);
        assert_eq!(verdict(most, &of(400, 0.5)), Verdict::Changed);
        assert_eq!(
            verdict("sequential writes: UBIFS erases less", &of(1, 1.0)),
            Verdict::Confirmed
        );
        let three = |yaffs2: u64, erased: f64| {
            let more = [2, 32, 512]
                .map(|kib| result(Yaffs2, "sw", kib, yaffs2 * kib, erased / kib as f64));
            [of(400, 2.0), more.to_vec()].concat()
        };
        let fastest = "sequential writes: YAFFS2 is fastest";
        assert_eq!(verdict(fastest, &three(20, 0.5)), Verdict::Confirmed);
        assert_eq!(verdict(fastest, &three(150, 0.5)), Verdict::Changed);
        let least = "sequential writes: YAFFS2 erases least";
        assert_eq!(verdict(least, &three(150, 0.5)), Verdict::Confirmed);
        assert_eq!(verdict(least, &three(20, 1.5)), Verdict::Changed);
        // One system alone says nothing.
        assert_eq!(verdict(slow, &of(400, 2.0)[..1]), Verdict::NotMeasured);
        let table = table(Data(&of(400, 2.0)));
        assert_eq!(table.rows.len(), OBSERVATIONS.len());
    }
}
