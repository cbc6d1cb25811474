//! The paper's observations (section V and Table I), looked at in the results.

use super::data::{
    Curve, Data, Metric, Tests, at, deviation, erases, own_ms, ratio, response_ms, span,
};
use super::pattern::Baseline::{self, Rr, Rw, Sr, Sw};
use crate::report::Table;
use crate::study::System::{self, Jffs2, Ubifs};

/// What became of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is so today.
    Confirmed,
    /// It is not so any more, or not here.
    Changed,
    /// Not with what runs here.
    NotTestable,
    /// Its cases have no results yet.
    NotMeasured,
}

impl Verdict {
    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Verdict::Confirmed => "confirmed",
            Verdict::Changed => "changed",
            Verdict::NotTestable => "not testable",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// A verdict and the data that it rests on; `None` when there are too few.
type Judged = Option<(bool, String)>;

/// Something that the paper observed.
pub struct Observation {
    /// Where.
    pub place: &'static str,
    /// What, in our words.
    pub what: &'static str,
    /// How it is looked at; `None` where YAFFS2 is needed.
    judge: Option<fn(Data<'_>) -> Judged>,
}

impl Observation {
    /// What the results say.
    pub fn look(&self, data: Data<'_>) -> (Verdict, String) {
        let Some(judge) = self.judge else {
            return (
                Verdict::NotTestable,
                "YAFFS2 is in no mainline kernel".into(),
            );
        };
        match judge(data) {
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
    judge: Option<fn(Data<'_>) -> Judged>,
) -> Observation {
    Observation { place, what, judge }
}

/// All of them, in the paper's order.
pub fn observations() -> &'static [Observation] {
    const ALL: &[Observation] = &[
        observed(
            "V.A",
            "reads cost the same in sequence and at random, but for 2 KB",
            Some(reads_alike),
        ),
        observed(
            "V.A",
            "sequential writes: JFFS2 takes 4 times as long as UBIFS",
            Some(sw_jffs2_slow),
        ),
        observed("V.A", "sequential writes: YAFFS2 is fastest", None),
        observed(
            "V.A",
            "random writes: JFFS2 takes more than twice as long as UBIFS",
            Some(rw_jffs2_slow),
        ),
        observed(
            "V.A",
            "random writes: YAFFS2 against UBIFS, small and large",
            None,
        ),
        observed(
            "V.A",
            "UBIFS writes cost more at random than in sequence",
            Some(ubifs_random_worse),
        ),
        observed(
            "V.A",
            "JFFS2 writes cost less at random than in sequence",
            Some(jffs2_random_better),
        ),
        observed(
            "V.A",
            "sequential writes: JFFS2 erases most, 1.5 times more at 2 KB than at 512 KB",
            Some(sw_jffs2_erases),
        ),
        observed(
            "V.A",
            "sequential writes: UBIFS erases less the larger the requests (1.4 to 0.3)",
            Some(sw_ubifs_erases),
        ),
        observed("V.A", "sequential writes: YAFFS2 erases least", None),
        observed(
            "V.A",
            "random writes: UBIFS erases least, but for 2 KB",
            Some(rw_ubifs_erases),
        ),
        observed(
            "V.A",
            "the deviation of erases follows their mean",
            Some(deviation_follows),
        ),
        observed(
            "V.B",
            "JFFS2: 30 and 60 % alike, 75 % costs 2.5 times as much at 2 KB, 1.06 at 512 KB",
            Some(fill_jffs2),
        ),
        observed("V.B", "YAFFS2 bears little clean space best", None),
        observed(
            "V.B",
            "UBIFS: 75 % costs 5 times as much as 30 % at 2 KB, 1.1 at 512 KB",
            Some(fill_ubifs),
        ),
        observed(
            "V.B",
            "erases are fewest at 8 to 64 KB, of JFFS2 and of UBIFS",
            Some(fill_middle),
        ),
        observed(
            "V.B",
            "JFFS2 wears blocks more evenly than UBIFS though it erases more",
            Some(fill_levels),
        ),
        observed(
            "V.C",
            "JFFS2 cleans in pauses: 1.67 ms become 0.84 at 2 KB, 173 become 148 at 512 KB",
            Some(pause_jffs2),
        ),
        observed(
            "V.C",
            "JFFS2 erases the same with and without pauses",
            Some(pause_jffs2_erases),
        ),
        observed("V.C", "YAFFS2 does not use pauses", None),
        observed(
            "V.C",
            "UBIFS is 8 to 12 times faster with pauses",
            Some(pause_ubifs),
        ),
        observed(
            "V.C",
            "UBIFS erases the same with and without pauses",
            Some(pause_ubifs_erases),
        ),
        observed(
            "Table I, 1",
            "JFFS2: good for reads, bad for writes",
            Some(table_jffs2),
        ),
        observed(
            "Table I, 1",
            "UBIFS: better speed and life for large random writes",
            Some(table_ubifs),
        ),
        observed(
            "Table I, 1",
            "YAFFS2: better for sequential and small random writes",
            None,
        ),
        observed(
            "Table I, 2",
            "JFFS2 and UBIFS: good where clean space is left",
            Some(table_space),
        ),
        observed(
            "Table I, 3",
            "JFFS2: good cleaning in pauses, longer life",
            Some(table_pause_jffs2),
        ),
        observed(
            "Table I, 3",
            "UBIFS: good cleaning in pauses, better speed",
            Some(pause_ubifs),
        ),
    ];
    ALL
}

/// The observations and what became of them.
pub fn table(data: Data<'_>) -> Table {
    let rows = observations().iter().map(|observation| {
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
            "Verdicts are computed from the cases without an fsync, as in the paper; where a page cache hides the \
             answer, cases with an fsync after each request are named."
                .into(),
        ],
    }
}

fn saturated(data: Data<'_>, kind: Baseline, system: System, metric: Metric) -> Curve {
    data.curve(Tests::saturated(kind), system, metric)
}

/// `1.2 to 3.4`.
fn between(curve: &Curve) -> Option<String> {
    let (least, most) = span(curve)?;
    Some(format!("{least:.2} to {most:.2}"))
}

/// Both ends of a curve, with their sizes.
fn ends(curve: &Curve) -> Option<String> {
    let (first, last) = (curve.first()?, curve.last()?);
    Some(format!(
        "{:.2} at {} KB, {:.2} at {} KB",
        first.1, first.0, last.1, last.0
    ))
}

fn reads_alike(data: Data<'_>) -> Judged {
    let of = |system| {
        let (rr, sr) = (
            saturated(data, Rr, system, response_ms),
            saturated(data, Sr, system, response_ms),
        );
        let larger: Curve = ratio(&rr, &sr)
            .into_iter()
            .filter(|(size, _)| *size > 2.0)
            .collect();
        Some((span(&larger)?, between(&larger)?))
    };
    let ((j, j_text), (u, u_text)) = (of(Jffs2)?, of(Ubifs)?);
    let alike = [j, u]
        .iter()
        .all(|(least, most)| *least > 0.8 && *most < 1.25);
    Some((
        alike,
        format!("random over sequential: JFFS2 {j_text}, UBIFS {u_text}"),
    ))
}

/// JFFS2 over UBIFS, durable or not.
fn jffs2_over_ubifs(data: Data<'_>, tests: Tests) -> Curve {
    let (j, u) = (
        data.curve(tests, Jffs2, response_ms),
        data.curve(tests, Ubifs, response_ms),
    );
    ratio(&j, &u)
}

fn slower(data: Data<'_>, kind: Baseline, least: f64) -> Judged {
    let cached = jffs2_over_ubifs(data, Tests::saturated(kind));
    let (from, _) = span(&cached)?;
    let mut found = format!("{} times", between(&cached)?);
    if let Some(durable) = between(&jffs2_over_ubifs(data, Tests::durable(kind))) {
        found += &format!("; with an fsync after each {durable}");
    }
    Some((from >= least, found))
}

fn sw_jffs2_slow(data: Data<'_>) -> Judged {
    slower(data, Sw, 3.0)
}

fn rw_jffs2_slow(data: Data<'_>) -> Judged {
    slower(data, Rw, 2.0)
}

fn random_over_sequential(data: Data<'_>, system: System) -> Option<(Curve, String)> {
    let of = |tests: fn(Baseline) -> Tests| {
        let curve = |kind| data.curve(tests(kind), system, response_ms);
        ratio(&curve(Rw), &curve(Sw))
    };
    let cached = of(Tests::saturated);
    let mut found = format!("random over sequential {}", between(&cached)?);
    if let Some(durable) = between(&of(Tests::durable)) {
        found += &format!("; with an fsync after each {durable}");
    }
    Some((cached, found))
}

fn ubifs_random_worse(data: Data<'_>) -> Judged {
    let (curve, found) = random_over_sequential(data, Ubifs)?;
    Some((span(&curve)?.0 > 1.0, found))
}

fn jffs2_random_better(data: Data<'_>) -> Judged {
    let (curve, found) = random_over_sequential(data, Jffs2)?;
    Some((span(&curve)?.1 < 1.0, found))
}

fn sw_jffs2_erases(data: Data<'_>) -> Judged {
    let (j, u) = (
        saturated(data, Sw, Jffs2, erases),
        saturated(data, Sw, Ubifs, erases),
    );
    let falls = j.first()?.1 / j.last()?.1;
    let most = span(&ratio(&j, &u))?.0 > 1.0;
    Some((
        most && falls > 1.2,
        format!("JFFS2 {}; UBIFS {}", ends(&j)?, ends(&u)?),
    ))
}

fn sw_ubifs_erases(data: Data<'_>) -> Judged {
    let curve = saturated(data, Sw, Ubifs, erases);
    let mut found = ends(&curve)?;
    let durable = data.curve(Tests::durable(Sw), Ubifs, erases);
    if let Some(ends) = ends(&durable) {
        found += &format!("; with an fsync after each {ends}");
    }
    Some((curve.first()?.1 > 1.5 * curve.last()?.1, found))
}

fn rw_ubifs_erases(data: Data<'_>) -> Judged {
    let (j, u) = (
        saturated(data, Rw, Jffs2, erases),
        saturated(data, Rw, Ubifs, erases),
    );
    let larger: Curve = ratio(&u, &j)
        .into_iter()
        .filter(|(size, _)| *size > 2.0)
        .collect();
    Some((
        span(&larger)?.1 < 1.0,
        format!("JFFS2 {}; UBIFS {}", ends(&j)?, ends(&u)?),
    ))
}

/// Correlation of mean and deviation over all tests of writes.
fn deviation_follows(data: Data<'_>) -> Judged {
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for (system, kind) in [(Jffs2, Sw), (Jffs2, Rw), (Ubifs, Sw), (Ubifs, Rw)] {
        let (means, deviations) = (
            saturated(data, kind, system, erases),
            saturated(data, kind, system, deviation),
        );
        pairs.extend(means.iter().zip(&deviations).map(|(m, d)| (m.1, d.1)));
    }
    if pairs.len() < 4 {
        return None;
    }
    let n = pairs.len() as f64;
    let (mx, my) = (
        pairs.iter().map(|p| p.0).sum::<f64>() / n,
        pairs.iter().map(|p| p.1).sum::<f64>() / n,
    );
    let sum =
        |f: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|p| f(p.0 - mx, p.1 - my)).sum::<f64>();
    let correlation = sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt();
    Some((
        correlation > 0.7,
        format!("correlation {correlation:.2} over {n} tests"),
    ))
}

/// 75 % over 30 %, and 60 % over 30 %.
fn fill(data: Data<'_>, system: System, metric: Metric) -> (Curve, Curve) {
    fill_of(data, system, metric, false)
}

fn fill_of(data: Data<'_>, system: System, metric: Metric, fsync: bool) -> (Curve, Curve) {
    let curve = |mib| data.curve(Tests::fill(mib, fsync), system, metric);
    (ratio(&curve(75), &curve(30)), ratio(&curve(60), &curve(30)))
}

/// What did not fit, if anything.
fn unfit(data: Data<'_>, system: System) -> String {
    match data.failure(Tests::fill(75, false), system) {
        Some((size, _)) => format!("; 75 % at {size} KB does not fit"),
        None => String::new(),
    }
}

fn fill_jffs2(data: Data<'_>) -> Judged {
    let (most, middle) = fill(data, Jffs2, response_ms);
    let alike = span(&middle)?.1 < 1.25;
    let (small, large) = (at(&most, 2.0)?, most.last()?.1);
    let found = format!(
        "60 over 30 %: {}; 75 over 30 %: {}",
        between(&middle)?,
        ends(&most)?
    );
    Some((
        alike && small > 1.5 && large < small,
        found + &unfit(data, Jffs2),
    ))
}

fn fill_ubifs(data: Data<'_>) -> Judged {
    let (most, _) = fill(data, Ubifs, response_ms);
    let found = format!("75 over 30 %: {}", ends(&most)?);
    let rises =
        at(&most, 2.0).is_some_and(|small| small > 2.0 && most.last().is_some_and(|l| l.1 < small));
    let (durable, _) = fill_of(data, Ubifs, response_ms, true);
    let durable = ends(&durable).map_or(String::new(), |ends| {
        format!("; with an fsync after each {ends}")
    });
    Some((rises, found + &unfit(data, Ubifs) + &durable))
}

fn fill_middle(data: Data<'_>) -> Judged {
    let of = |system| {
        let curve = data.curve(Tests::fill(75, false), system, erases);
        let (middle, ends): (Curve, Curve) = curve
            .iter()
            .partition(|(size, _)| (8.0..=64.0).contains(size));
        Some((
            span(&middle)?.1 < span(&ends)?.0,
            format!("{} there, {} else", between(&middle)?, between(&ends)?),
        ))
    };
    let ((j, j_text), (u, u_text)) = (of(Jffs2)?, of(Ubifs)?);
    Some((j && u, format!("at 75 %: JFFS2 {j_text}; UBIFS {u_text}")))
}

fn fill_levels(data: Data<'_>) -> Judged {
    let of = |system, metric| data.curve(Tests::fill(75, false), system, metric);
    let deviations = ratio(&of(Jffs2, deviation), &of(Ubifs, deviation));
    let erased = ratio(&of(Jffs2, erases), &of(Ubifs, erases));
    let so = span(&deviations)?.1 < 1.0 && span(&erased)?.0 > 1.0;
    let found = format!(
        "at 75 %, JFFS2 over UBIFS: deviation {}, erases {}",
        between(&deviations)?,
        between(&erased)?
    );
    Some((so, found))
}

/// Time until a request returns with pauses, and without: both ends, and their ratio.
fn pause(data: Data<'_>, system: System, fsync: bool) -> Option<(Curve, String)> {
    let of = |ms| data.curve(Tests::pause(ms, fsync), system, own_ms);
    let (without, with) = (of(0), of(100));
    let (first, last) = (without.first()?, without.last()?);
    let (small, large) = (at(&with, first.0)?, at(&with, last.0)?);
    let found = format!(
        "{:.2} ms become {small:.2} at {} KB, {:.1} become {large:.1} at {} KB",
        first.1, first.0, last.1, last.0
    );
    Some((ratio(&without, &with), found))
}

/// The same erases within a tenth, whatever the pauses.
fn pause_erases(data: Data<'_>, system: System) -> Judged {
    let of = |ms| data.curve(Tests::pause(ms, false), system, erases);
    let ratios = ratio(&of(100), &of(0));
    let (least, most) = span(&ratios)?;
    let found = format!("with 100 ms over without: {}", between(&ratios)?);
    Some((least > 0.9 && most < 1.1, found))
}

fn pause_jffs2(data: Data<'_>) -> Judged {
    let (faster, found) = pause(data, Jffs2, false)?;
    Some((faster.first()?.1 > 1.2, found))
}

fn pause_jffs2_erases(data: Data<'_>) -> Judged {
    pause_erases(data, Jffs2)
}

fn pause_ubifs(data: Data<'_>) -> Judged {
    let (faster, found) = pause(data, Ubifs, false)?;
    let (durable, with_fsync) = pause(data, Ubifs, true)?;
    let so = faster.first().is_some_and(|(_, ratio)| *ratio > 2.0)
        || durable.first().is_some_and(|(_, ratio)| *ratio > 2.0);
    Some((
        so,
        format!("{found}; with an fsync after each {with_fsync}"),
    ))
}

fn pause_ubifs_erases(data: Data<'_>) -> Judged {
    pause_erases(data, Ubifs)
}

fn table_jffs2(data: Data<'_>) -> Judged {
    let (j, u) = (
        saturated(data, Rr, Jffs2, response_ms),
        saturated(data, Rr, Ubifs, response_ms),
    );
    let reads = ratio(&j, &u);
    let writes = jffs2_over_ubifs(data, Tests::saturated(Rw));
    let so = span(&reads)?.1 < 1.5 && span(&writes)?.0 > 1.5;
    let found = format!(
        "over UBIFS: random reads {}, random writes {}",
        between(&reads)?,
        between(&writes)?
    );
    Some((so, found))
}

fn table_ubifs(data: Data<'_>) -> Judged {
    let large = |curve: Curve| -> Curve {
        curve
            .into_iter()
            .filter(|(size, _)| *size >= 32.0)
            .collect()
    };
    let times = large(jffs2_over_ubifs(data, Tests::saturated(Rw)));
    let (j, u) = (
        saturated(data, Rw, Jffs2, erases),
        saturated(data, Rw, Ubifs, erases),
    );
    let erased = large(ratio(&j, &u));
    let so = span(&times)?.0 > 1.0 && span(&erased)?.0 > 1.0;
    let found = format!(
        "JFFS2 over UBIFS from 32 KB: time {}, erases {}",
        between(&times)?,
        between(&erased)?
    );
    Some((so, found))
}

fn table_space(data: Data<'_>) -> Judged {
    let ((j, _), (u, _)) = (
        fill(data, Jffs2, response_ms),
        fill(data, Ubifs, response_ms),
    );
    let so = span(&j)?.1 > 1.1 || span(&u)?.1 > 1.1;
    Some((
        so,
        format!(
            "75 over 30 %: JFFS2 {}, UBIFS {}",
            between(&j)?,
            between(&u)?
        ),
    ))
}

fn table_pause_jffs2(data: Data<'_>) -> Judged {
    let (faster, found) = pause(data, Jffs2, false)?;
    let of = |ms| data.curve(Tests::pause(ms, false), Jffs2, erases);
    let ratios = ratio(&of(100), &of(0));
    let so = faster.first()?.1 > 1.2 && span(&ratios)?.1 < 1.0;
    Some((
        so,
        format!(
            "{found}; erases with 100 ms over without: {}",
            between(&ratios)?
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let found = observations().iter().find(|o| o.what.starts_with(what));
        found.unwrap().look(Data(outcomes)).0
    }

    #[test]
    fn without_results_there_are_no_verdicts() {
        for observation in observations() {
            let (verdict, _) = observation.look(Data(&[]));
            let yaffs = observation.what.contains("YAFFS2");
            let expected = if yaffs {
                Verdict::NotTestable
            } else {
                Verdict::NotMeasured
            };
            assert_eq!(verdict, expected, "{}", observation.what);
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
        // One system alone says nothing.
        assert_eq!(verdict(slow, &of(400, 2.0)[..1]), Verdict::NotMeasured);
        let table = table(Data(&of(400, 2.0)));
        assert_eq!(table.rows.len(), observations().len());
    }
}
