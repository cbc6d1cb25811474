//! Kawaguchi, Nishioka, Motoda: *A Flash-Memory Based File System*, 1995.

use super::{Item, Judged, Look, Paper, better, column, holds, number, ratios, spread};

pub const PAPER: Paper = Paper {
    name: "A Flash-Memory Based File System (USENIX Winter 1995)",
    study: "logdisk",
    by_title: true,
    items: &[
        Item {
            place: "Section 3",
            what: "reads are as fast at random as in sequence: 707 and 644 KB/s, as from memory",
            ours: "Section 3: reads",
            judge: reads,
        },
        Item {
            place: "Table 4",
            what: "sequential writes: throughput, segments erased, blocks copied",
            ours: "Table 4",
            judge: |look| counts(look, "Table 4", ""),
        },
        Item {
            place: "Table 5",
            what: "random writes: the same",
            ours: "Table 5",
            judge: |look| counts(look, "Table 5", ""),
        },
        Item {
            place: "Table 6",
            what: "hot-and-cold writes: greedy copies less than cost-benefit",
            ours: "Table 6",
            judge: order,
        },
        Item {
            place: "Table 7",
            what: "a separate segment for cold blocks saves a third of the copies at 90 %",
            ours: "Table 7",
            judge: separate,
        },
        Item {
            place: "Table 8",
            what: "an Andrew benchmark costs little more than in memory: 3.8 s at 55 % full, 9.1 s at 94 %",
            ours: "Table 8",
            judge: andrew,
        },
        Item {
            place: "Figure 5",
            what: "throughput of sequential writes is level; 30 and 60 % alike, 90 % below",
            ours: "Figure 5",
            judge: level,
        },
        Item {
            place: "Figure 6",
            what: "throughput of random writes falls when the free segments are used up, the more the fuller",
            ours: "Figure 6",
            judge: falling,
        },
        Item {
            place: "Figure 7",
            what: "hot-and-cold writes run at 30 to 60 KB/s",
            ours: "Figure 7",
            judge: hot_and_cold,
        },
        Item {
            place: "Figure 8",
            what: "utilisation of segments: weakly bimodal, few full ones",
            ours: "Figure 8",
            judge: bimodal,
        },
        Item {
            place: "Figure 9",
            what: "2,579 cold blocks at the end, where 19,000 could be",
            ours: "What the paper does not state",
            judge: cold,
        },
        Item {
            place: "Figure 10",
            what: "with the separate segment many segments are all cold",
            ours: "Figure 10",
            judge: all_cold,
        },
        Item {
            place: "Section 3.5",
            what: "the chip lives about 590 days under the Andrew benchmark",
            ours: "Section 3.5",
            judge: life,
        },
    ],
};

/// Counts of a table within 15 % of the paper's, which its tests demand as well.
fn counts(look: &Look<'_>, title: &str, cause: &str) -> Judged {
    let table = look.table("logdisk", title)?;
    let (least, most) = ratios(table, "erased", "erased, paper")?;
    let copied = ratios(table, "copied", "copied, paper").unwrap_or((1.0, 1.0));
    let within = |(least, most): (f64, f64)| least >= 0.85 && most <= 1.15;
    holds(
        within((least, most)) && within(copied),
        format!(
            "erased {least:.2} to {most:.2} times the paper's, copied {:.2} to {:.2}",
            copied.0, copied.1
        ),
        cause,
    )
}

fn order(look: &Look<'_>) -> Judged {
    let table = look.table("logdisk", "Table 6")?;
    let copied = column(table, "copied");
    let over = copied.get(1)? / copied.first()?;
    holds(
        over > 1.15,
        format!("cost-benefit copies {over:.2} times as much as greedy, in the paper 1.25 times"),
        "Each count is within 15 % of the paper's. On a tidy layout cost-benefit copies up to 1.13 times as much, but both \
         a fifth of the paper's counts; no layout, place of the hot data or clock gives both",
    )
}

fn separate(look: &Look<'_>) -> Judged {
    let table = look.table("logdisk", "Table 7")?;
    let copied = column(table, "copied");
    let [.., without, with] = copied[..] else {
        return None;
    };
    holds(
        with / without < 0.75,
        format!(
            "at 90 % it copies {:.2} times as much (paper 0.62)",
            with / without
        ),
        "",
    )
}

fn reads(look: &Look<'_>) -> Judged {
    let table = look.table("logdisk", "Section 3: reads")?;
    let host = column(table, "ours, with the paper's host");
    let alone = column(table, "ours, the chip alone");
    let [sequential, random] = host[..] else {
        return None;
    };
    let even = alone.first()? / alone.get(1)?;
    holds(
        (0.9..1.1).contains(&even) && sequential > 0.9 * 644.0 && random > 0.9 * 707.0,
        format!(
            "the chip takes as long for both ({:.0} KB/s); with the paper's host {sequential:.0} and {random:.0} KB/s",
            alone[0]
        ),
        "",
    )
}

fn andrew(look: &Look<'_>) -> Judged {
    let table = look.table("logdisk", "Table 8: an Andrew")?;
    let last = table.rows.len() - 1;
    let half = number(table, last, "ours, dirsync: 52-56 %")?;
    let full = number(table, last, "ours, dirsync: 92-96 %")?;
    better(
        half <= 3.8 && full <= 9.1,
        true,
        format!("{half:.2} s a run at 55 % full, {full:.2} at 93 %"),
        "",
    )
}

/// Means of each series.
fn means(look: &Look<'_>, title: &str) -> Option<Vec<(f64, f64, f64)>> {
    let figure = look.figure("logdisk", title)?;
    let of = |values: &[Option<f64>]| {
        let all: Vec<f64> = values.iter().flatten().copied().collect();
        let (least, most) = spread(all.iter().copied())?;
        Some((least, all.iter().sum::<f64>() / all.len() as f64, most))
    };
    figure.series.iter().map(|(_, values)| of(values)).collect()
}

fn level(look: &Look<'_>) -> Judged {
    let found = means(look, "Figure 5")?;
    let [first, second, third] = found[..] else {
        return None;
    };
    let even = found
        .iter()
        .all(|(least, mean, most)| *least > 0.8 * mean && *most < 1.25 * mean);
    holds(
        even && (first.1 / second.1 - 1.0).abs() < 0.05 && third.1 < second.1,
        format!("{:.0}, {:.0} and {:.0} KB/s", first.1, second.1, third.1),
        "The first megabytes are written before the cleaner has anything to do",
    )
}

fn falling(look: &Look<'_>) -> Judged {
    let figure = look.figure("logdisk", "Figure 6")?;
    let ends: Option<Vec<(f64, f64)>> = figure
        .series
        .iter()
        .map(|(_, values)| Some((*values.first()?.as_ref()?, *values.last()?.as_ref()?)))
        .collect();
    let ends = ends?;
    let falls = ends.windows(2).all(|two| two[1].1 < two[0].1);
    holds(
        falls && ends.last()?.1 < 0.5 * ends.last()?.0,
        format!(
            "from {:.0}, {:.0}, {:.0} KB/s to {:.0}, {:.0}, {:.0}",
            ends.first()?.0,
            ends.get(1)?.0,
            ends.get(2)?.0,
            ends[0].1,
            ends[1].1,
            ends[2].1
        ),
        "At 90 % the free segments are used up within the first point of the curve, 4 MiB",
    )
}

fn hot_and_cold(look: &Look<'_>) -> Judged {
    let found = means(look, "Figure 7")?;
    let (least, most) = spread(found.iter().map(|(_, mean, _)| *mean))?;
    holds(
        least >= 30.0 && most <= 60.0,
        format!("means of {least:.0} to {most:.0} KB/s"),
        "",
    )
}

fn bimodal(look: &Look<'_>) -> Judged {
    let figure = look.figure("logdisk", "Figure 8")?;
    let counts: Vec<f64> = figure.series.first()?.1.iter().flatten().copied().collect();
    let all: f64 = counts.iter().sum();
    let full = counts.last()? / all;
    holds(
        full < 0.5,
        format!(
            "{:.0} % of the segments are more than 90 % full",
            100.0 * full
        ),
        "",
    )
}

fn cold(look: &Look<'_>) -> Judged {
    let table = look.table("logdisk", "What the paper does not state")?;
    let once = column(table, "cold blocks, cost-benefit");
    let last = column(table, "of them cold when moved last");
    let (least, most) = spread(once.iter().skip(1).chain(&last).copied())?;
    // Where as much is copied as in the paper.
    let copied = column(table, "copied, greedy");
    let counts = copied.iter().skip(1).zip(once.iter().skip(1));
    let there = counts.filter(|(copied, _)| (0.85..1.15).contains(&(*copied / 925_193.0)));
    let (fewest, _) = spread(there.map(|(_, cold)| *cold))?;
    holds(
        fewest < 1.2 * 2_579.0,
        format!(
            "{least:.0} to {most:.0}, by the layout at the start, the place of the hot data, the clock and what counts as \
             cold; {fewest:.0} and more where as much is copied as in the paper"
        ),
        "A tidy layout gives the paper's number, and less than a fifth of its copies. Where as much is copied as in the \
         paper, each block is moved 45 times in the mean, and nearly each that is not written is judged cold at some time",
    )
}

fn all_cold(look: &Look<'_>) -> Judged {
    let figure = look.figure("logdisk", "Figure 10")?;
    let none_other = figure.series.first()?.1.last()?.as_ref()?;
    holds(
        *none_other >= 10.0,
        format!("{none_other:.0} segments are full of cold blocks and hold no other"),
        "",
    )
}

fn life(look: &Look<'_>) -> Judged {
    let table = look.table("logdisk", "Section 3.5")?;
    let days = column(table, "days, worn evenly");
    let (least, most) = spread(days.iter().skip(1).copied())?;
    better(
        least > 590.0,
        false,
        format!("{least:.0} to {most:.0} days by the same reckoning"),
        "",
    )
}
