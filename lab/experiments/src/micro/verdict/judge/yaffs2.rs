//! What the paper observed of YAFFS2.

use super::{Judged, between, ends, fill, random_over_sequential, saturated, unfit};
use crate::micro::data::{Curve, Data, Metric, Tests, erases, own_ms, ratio, response_ms, span};
use crate::micro::pattern::Baseline::{self, Rw, Sw};
use crate::study::System::{self, Jffs2, Ubifs, Yaffs2};

/// Requests of less than so many KiB are small ones to the paper, of random writes.
const SMALL: f64 = 16.0;
/// As much as one figure may be above another that it is said to be equal to.
const EQUAL: f64 = 1.05;

/// A figure over that of YAFFS2.
fn over_yaffs2(data: Data<'_>, tests: Tests, system: System, metric: Metric) -> Curve {
    let of = |system| data.curve(tests, system, metric);
    ratio(&of(system), &of(Yaffs2))
}

/// Both others over YAFFS2: the least ratio, and all of them.
fn both(data: Data<'_>, tests: Tests, metric: Metric) -> Option<(f64, String)> {
    let of = |system| {
        let curve = over_yaffs2(data, tests, system, metric);
        Some((span(&curve)?.0, between(&curve)?))
    };
    let ((u, u_text), (j, j_text)) = (of(Ubifs)?, of(Jffs2)?);
    Some((u.min(j), format!("UBIFS {u_text}, JFFS2 {j_text}")))
}

/// The same with an fsync after each request, where it was run.
fn durable(data: Data<'_>, kind: Baseline, metric: Metric) -> String {
    both(data, Tests::durable(kind), metric).map_or(String::new(), |(_, found)| {
        format!("; with an fsync after each, over that of YAFFS2: {found}")
    })
}

/// YAFFS2 over another, of requests below some size and of the others.
fn by_size(curve: &Curve, from: f64) -> (Curve, Curve) {
    curve.iter().partition(|(size, _)| *size < from)
}

pub fn sw_yaffs2_fastest(data: Data<'_>) -> Judged {
    let (least, found) = both(data, Tests::saturated(Sw), response_ms)?;
    let durable = durable(data, Sw, response_ms);
    Some((
        least > 1.0,
        format!("time over that of YAFFS2: {found}{durable}"),
    ))
}

pub fn rw_yaffs2_ubifs(data: Data<'_>) -> Judged {
    let of = |tests| {
        let curve = |system| data.curve(tests, system, response_ms);
        let (small, large) = by_size(&ratio(&curve(Yaffs2), &curve(Ubifs)), SMALL);
        let found = format!(
            "{} below 16 KB, {} from there on",
            between(&small)?,
            between(&large)?
        );
        let so = span(&small)?.1 < EQUAL && span(&large)?.0 > 1.0;
        Some((so, found))
    };
    let (so, mut found) = of(Tests::saturated(Rw))?;
    if let Some((_, durable)) = of(Tests::durable(Rw)) {
        found += &format!("; with an fsync after each {durable}");
    }
    Some((so, format!("YAFFS2 over UBIFS: {found}")))
}

pub fn yaffs2_random_worse(data: Data<'_>) -> Judged {
    let (curve, found) = random_over_sequential(data, Yaffs2)?;
    Some((span(&curve)?.0 > 1.0, found))
}

pub fn sw_yaffs2_erases(data: Data<'_>) -> Judged {
    let of = |system| saturated(data, Sw, system, erases);
    let yaffs2 = of(Yaffs2);
    // UBIFS may erase nothing at all, and nothing is less.
    let least = |other: &Curve| {
        let mut pairs = yaffs2.iter().filter_map(|(size, value)| {
            let (_, other) = other.iter().find(|(at, _)| at == size)?;
            Some(value < other)
        });
        pairs.next().map(|first| first && pairs.all(|less| less))
    };
    let (u, j) = (of(Ubifs), of(Jffs2));
    let so = least(&u)? && least(&j)?;
    let found = format!(
        "YAFFS2 {}; UBIFS {}; JFFS2 {}",
        ends(&yaffs2)?,
        ends(&u)?,
        ends(&j)?
    );
    Some((so, found + &durable(data, Sw, erases)))
}

pub fn fill_best(data: Data<'_>) -> Judged {
    let of = |system| {
        let (most, _) = fill(data, system, response_ms);
        Some((span(&most)?.1, ends(&most)?))
    };
    let ((y, y_text), (u, u_text), (j, j_text)) = (of(Yaffs2)?, of(Ubifs)?, of(Jffs2)?);
    let unfit = unfit(data, Ubifs);
    let found = format!("75 over 30 %: YAFFS2 {y_text}; JFFS2 {j_text}; UBIFS {u_text}{unfit}");
    Some((y < u && y < j, found))
}

pub fn fill_yaffs2(data: Data<'_>) -> Judged {
    let of = |fsync| {
        let at = |mib| data.curve(Tests::fill(mib, fsync), Yaffs2, response_ms);
        ratio(&at(75), &at(60))
    };
    let curve = of(false);
    let (first, last) = (curve.first()?.1, curve.last()?.1);
    let mut found = format!("75 over 60 %: {}", ends(&curve)?);
    if let Some(durable) = ends(&of(true)) {
        found += &format!("; with an fsync after each {durable}");
    }
    // A large rise at small requests, and next to none at the largest.
    Some((first > 1.5 && last < 1.25, found))
}

pub fn fill_yaffs2_erases(data: Data<'_>) -> Judged {
    let mut so = true;
    let mut found = Vec::new();
    for mib in [30, 60, 75] {
        let of = |system| data.curve(Tests::fill(mib, false), system, erases);
        let (y, u, j) = (of(Yaffs2), of(Ubifs), of(Jffs2));
        let less = |other: &Curve| span(&y).zip(span(other)).map(|(y, o)| y.1 < o.0);
        so &= less(&u)? && less(&j)?;
        found.push(format!(
            "{mib} %: YAFFS2 {}, UBIFS {}, JFFS2 {}",
            between(&y)?,
            between(&u)?,
            between(&j)?
        ));
    }
    Some((so, found.join("; ")))
}

pub fn pause_yaffs2(data: Data<'_>) -> Judged {
    let of = |ms, metric| data.curve(Tests::pause(ms, false), Yaffs2, metric);
    let times = ratio(&of(100, own_ms), &of(0, own_ms));
    let erased = ratio(&of(100, erases), &of(0, erases));
    let same = |curve: &Curve| {
        let (least, most) = span(curve)?;
        Some(least * EQUAL > 1.0 && most < EQUAL)
    };
    let found = format!(
        "with 100 ms over without: time {}, erases {}",
        between(&times)?,
        between(&erased)?
    );
    Some((same(&times)? && same(&erased)?, found))
}

pub fn table_yaffs2(data: Data<'_>) -> Judged {
    let mut so = true;
    let mut found = Vec::new();
    for (kind, what, below) in [
        (Sw, "sequential", f64::INFINITY),
        (Rw, "random below 16 KB", SMALL),
    ] {
        for system in [Ubifs, Jffs2] {
            let tests = Tests::saturated(kind);
            let of = |metric: Metric| by_size(&over_yaffs2(data, tests, system, metric), below).0;
            let (time, life) = (of(response_ms), of(erases));
            so &= span(&time)?.0 > 1.0 && span(&life)?.0 > 1.0;
            found.push(format!(
                "{what}, {} over YAFFS2: time {}, erases {}",
                system.title(),
                between(&time)?,
                between(&life)?
            ));
        }
    }
    Some((so, found.join("; ")))
}
