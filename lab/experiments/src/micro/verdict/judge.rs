//! How each observation is looked at.

use super::super::data::{
    Curve, Data, Metric, Tests, at, deviation, erases, own_ms, ratio, response_ms, span,
};
use super::super::pattern::Baseline::{self, Rr, Rw, Sr, Sw};
use crate::study::System::{self, Jffs2, Ubifs};

mod yaffs2;

pub use yaffs2::*;

/// A verdict and the data that it rests on; `None` when there are too few.
pub type Judged = Option<(bool, String)>;

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

pub fn reads_alike(data: Data<'_>) -> Judged {
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

pub fn sw_jffs2_slow(data: Data<'_>) -> Judged {
    slower(data, Sw, 3.0)
}

pub fn rw_jffs2_slow(data: Data<'_>) -> Judged {
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

pub fn ubifs_random_worse(data: Data<'_>) -> Judged {
    let (curve, found) = random_over_sequential(data, Ubifs)?;
    Some((span(&curve)?.0 > 1.0, found))
}

pub fn jffs2_random_better(data: Data<'_>) -> Judged {
    let (curve, found) = random_over_sequential(data, Jffs2)?;
    Some((span(&curve)?.1 < 1.0, found))
}

pub fn sw_jffs2_erases(data: Data<'_>) -> Judged {
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

pub fn sw_ubifs_erases(data: Data<'_>) -> Judged {
    let curve = saturated(data, Sw, Ubifs, erases);
    let mut found = ends(&curve)?;
    let durable = data.curve(Tests::durable(Sw), Ubifs, erases);
    if let Some(ends) = ends(&durable) {
        found += &format!("; with an fsync after each {ends}");
    }
    Some((curve.first()?.1 > 1.5 * curve.last()?.1, found))
}

pub fn rw_ubifs_erases(data: Data<'_>) -> Judged {
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
pub fn deviation_follows(data: Data<'_>) -> Judged {
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for (system, kind) in [(Jffs2, Sw), (Jffs2, Rw), (Ubifs, Sw), (Ubifs, Rw)] {
        let (means, deviations) = (
            saturated(data, kind, system, erases),
            saturated(data, kind, system, deviation),
        );
        pairs.extend(means.iter().zip(&deviations).map(|(m, d)| (m.1, d.1)));
    }
    let correlation = correlation(&pairs)?;
    Some((
        correlation > 0.7,
        format!("correlation {correlation:.2} over {} tests", pairs.len()),
    ))
}

/// Pearson's, -1 to 1: none of fewer than four pairs, nor where one side is the same everywhere.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let varies = |of: fn(&(f64, f64)) -> f64| pairs.iter().any(|p| of(p) != of(&pairs[0]));
    if pairs.len() < 4 || !varies(|p| p.0) || !varies(|p| p.1) {
        return None;
    }
    let n = pairs.len() as f64;
    let (mx, my) = (
        pairs.iter().map(|p| p.0).sum::<f64>() / n,
        pairs.iter().map(|p| p.1).sum::<f64>() / n,
    );
    let sum =
        |f: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|p| f(p.0 - mx, p.1 - my)).sum::<f64>();
    Some(sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt())
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

pub fn fill_jffs2(data: Data<'_>) -> Judged {
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

pub fn fill_ubifs(data: Data<'_>) -> Judged {
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

pub fn fill_middle(data: Data<'_>) -> Judged {
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

pub fn fill_levels(data: Data<'_>) -> Judged {
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

pub fn pause_jffs2(data: Data<'_>) -> Judged {
    let (faster, found) = pause(data, Jffs2, false)?;
    Some((faster.first()?.1 > 1.2, found))
}

pub fn pause_jffs2_erases(data: Data<'_>) -> Judged {
    pause_erases(data, Jffs2)
}

pub fn pause_ubifs(data: Data<'_>) -> Judged {
    let (faster, found) = pause(data, Ubifs, false)?;
    let (durable, with_fsync) = pause(data, Ubifs, true)?;
    let so = faster.first().is_some_and(|(_, ratio)| *ratio > 2.0)
        || durable.first().is_some_and(|(_, ratio)| *ratio > 2.0);
    Some((
        so,
        format!("{found}; with an fsync after each {with_fsync}"),
    ))
}

pub fn pause_ubifs_erases(data: Data<'_>) -> Judged {
    pause_erases(data, Ubifs)
}

pub fn table_jffs2(data: Data<'_>) -> Judged {
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

pub fn table_ubifs(data: Data<'_>) -> Judged {
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

pub fn table_space(data: Data<'_>) -> Judged {
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

pub fn table_pause_jffs2(data: Data<'_>) -> Judged {
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
    use super::correlation;

    #[test]
    fn a_correlation_needs_two_sides_that_vary() {
        let rises = [(1.0, 2.0), (2.0, 4.0), (3.0, 6.0), (4.0, 8.0)];
        assert_eq!(correlation(&rises), Some(1.0));
        assert_eq!(correlation(&rises[..3]), None);
        assert_eq!(correlation(&rises.map(|(x, _)| (x, 0.0))), None);
        assert_eq!(correlation(&rises.map(|(_, y)| (0.5, y))), None);
    }
}
