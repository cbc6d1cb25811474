//! The page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::papers::{PAPERS, Verdict, counted};
use super::{Chapter, Page, choose, plot};
use crate::report::{Bars, Cell, Figure, Table, grouped};

/// By it a page is known again.
pub const TITLE: &str = "Flash file systems, side by side";
const STYLE: &str = include_str!("page.css");
/// Tables with more rows are closed until asked for.
const OPEN_ROWS: usize = 40;

/// The whole page.
pub fn page(page: &Page) -> anyhow::Result<String> {
    let mut chapters = Vec::new();
    for chapter in &page.chapters {
        chapters.push(self::chapter(chapter)?);
    }
    let mut bars = Vec::new();
    for held in &page.bars {
        bars.push(bar_figure(held, "wide")?);
    }
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (TITLE) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a .skip href="#choose" { "to the results" }
                header {
                    h1 { "Which flash file system for my load and chip" }
                    p {
                        "The same operations on the same chip. Times are flash time: counted reads, programs and "
                        "erases at the chip's latencies, so they do not depend on the machine. Times of the host, in the "
                        "CSV file, are noise."
                    }
                    nav {
                        a href="#papers" { "the papers" }
                        @for chapter in &page.chapters {
                            a href={ "#" (chapter.name) } { (chapter.name) }
                        }
                        a href="#repeat" { "how to repeat it" }
                    }
                }
                main {
                    (choose::section(page))
                    @for bars in bars { section { (bars) } }
                    (papers(page))
                    @for chapter in chapters { (chapter) }
                    (repeat(page))
                }
            }
        }
    };
    Ok(markup.into_string())
}

/// Each paper's tables and figures, with what became of them.
fn papers(page: &Page) -> Markup {
    let look = page.look();
    let all: Vec<_> = PAPERS.map(|paper| (paper, paper.rows(&look))).into();
    let lines = page.verdicts();
    html! {
        section id="papers" {
            h2 { "The papers, to the last table and figure" }
            p { (lines.last().map_or("", |line| line.as_str())) "." }
            @for (paper, rows) in &all {
                details open {
                    summary { (paper.name) ": " (counted(rows)) }
                    div .scroll {
                        table .stack .papers {
                            thead { tr {
                                th { "place" } th { "the paper" } th { "verdict" } th { "here, and why" } th { "again" }
                            } }
                            tbody {
                                @for row in rows {
                                    tr {
                                        td {
                                            @if page.chapters.iter().any(|held| held.name == paper.study) {
                                                a href={ "#" (paper.study) } { (row.item.place) }
                                            } @else { (row.item.place) }
                                        }
                                        td { (row.item.what) }
                                        td class=(class(row.verdict)) { (row.verdict.title()) }
                                        td { (row.found) }
                                        td { code { (paper.command(row.item)) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Repeated | Verdict::Better => "confirmed",
        Verdict::Different => "changed",
        Verdict::NotTestable | Verdict::NotMeasured => "open",
    }
}

fn repeat(page: &Page) -> Markup {
    html! {
        section id="repeat" {
            h2 { "How to repeat it" }
            p {
                "Each number belongs to a case. " code { "flashkit lab run STUDY --results NEW --only '=CASE'" }
                " runs one again; the study is the first word of the case. "
                code { "flashkit lab run STUDY" } " runs all that have no result yet, "
                code { "--stale" } " those that older code has made, and "
                code { "flashkit lab report" } " writes this page. Counts of FlashLight come out the same "
                "every time; those of a kernel's file systems vary by a few in a thousand, because its threads "
                "write when their timers say so."
            }
            div .scroll {
                table {
                    thead { tr {
                        th { "study" } th .n { "results" } th .n { "of" } th .n { "measured on this machine" } th .n { "stale" }
                    } }
                    tbody {
                        @for chapter in &page.chapters {
                            tr {
                                td { (chapter.name) }
                                td .n { (chapter.count) }
                                td .n { (chapter.cases) }
                                td .n { (chapter.marks.own.len()) }
                                td .n { (chapter.marks.stale.len()) }
                            }
                        }
                    }
                }
            }
            ul { @for made in &page.made { li { (made) } } }
        }
    }
}

fn chapter(chapter: &Chapter) -> anyhow::Result<Markup> {
    let mut figures = Vec::new();
    for figure in &chapter.report.figures {
        figures.push(curve_figure(figure)?);
    }
    for held in &chapter.report.bars {
        figures.push(bar_figure(held, "")?);
    }
    let missing = chapter.cases.saturating_sub(chapter.count);
    let name = chapter.name;
    let (short, long): (Vec<&Table>, Vec<&Table>) = chapter
        .report
        .tables
        .iter()
        .partition(|table| table.rows.len() <= OPEN_ROWS);
    Ok(html! {
        section id=(name) {
            h2 { (chapter.what) }
            p .source { (chapter.source) }
            ul .notes { @for note in &chapter.report.notes { li { (note) } } }
            @if missing > 0 {
                p .missing {
                    (missing) " of " (chapter.cases) " cases have no result yet: "
                    code { "flashkit lab run " (name) }
                }
            }
            (marked(name, "measured on this machine", chapter.marks.own.iter()))
            (marked(name, "stale: made by other code or in an older format than this program's", chapter.marks.stale.iter()))
            @for held in short { (table(held)) }
            div .figures { @for figure in figures { (figure) } }
            @for held in long {
                details { summary { (held.title) " (" (held.rows.len()) ")" } (table(held)) }
            }
        }
    })
}

/// The results that a mark is on.
fn marked<'a>(study: &str, what: &str, ids: impl ExactSizeIterator<Item = &'a String>) -> Markup {
    let of = |id: &str| {
        id.strip_prefix(study)
            .unwrap_or(id)
            .trim_start_matches('/')
            .to_owned()
    };
    html! {
        @if ids.len() > 0 {
            details .marks {
                summary { (ids.len()) " results " (what) }
                p { @for id in ids { code { (of(id)) } " " } }
            }
        }
    }
}

/// Names of series beside their colours.
fn legend<'a>(names: impl Iterator<Item = (usize, &'a str)>) -> Markup {
    html! {
        ul .legend {
            @for (i, name) in names {
                li { span style={ "background:var(--s" (i % plot::COLOURS) ")" } {} (name) }
            }
        }
    }
}

fn curve_figure(figure: &Figure) -> anyhow::Result<Markup> {
    let svg = plot::curves(figure)?;
    Ok(html! {
        figure {
            figcaption { (figure.title) }
            p .axis { (figure.y) }
            (legend(figure.shown().map(|(place, name, _)| (place, name))))
            (PreEscaped(svg))
            (as_table(&figure_table(figure)))
            @if !figure.papers.is_empty() { p .paper { b { "The paper: " } (figure.papers) } }
        }
    })
}

fn bar_figure(bars: &Bars, class: &str) -> anyhow::Result<Markup> {
    let svg = plot::bars(bars)?;
    Ok(html! {
        figure class=[(!class.is_empty()).then_some(class)] {
            figcaption { (bars.title) }
            p .axis { (bars.y) }
            (legend(bars.shown()))
            (PreEscaped(svg))
            (as_table(&bars_table(bars)))
            p .paper { (bars.note) }
        }
    })
}

/// What a plot shows, for those who do not see it.
fn as_table(rows: &[Vec<String>]) -> Markup {
    html! {
        details .plain {
            summary { "as a table" }
            div .scroll {
                table {
                    @for (i, row) in rows.iter().enumerate() {
                        tr {
                            @for (j, cell) in row.iter().enumerate() {
                                @if i == 0 || j == 0 { th .n[j > 0] { (cell) } } @else { td .n { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Three digits, or all before the point.
fn few_digits(value: Option<f64>) -> String {
    match value {
        None => "\u{2013}".into(),
        Some(x) if x.abs() >= 100.0 || x == 0.0 => format!("{x:.0}"),
        Some(x) if x.abs() >= 10.0 => format!("{x:.1}"),
        Some(x) => format!("{x:.2}"),
    }
}

fn figure_table(figure: &Figure) -> Vec<Vec<String>> {
    let names = figure.shown().map(|(_, name, _)| name.to_owned());
    let head = [figure.x.to_owned()].into_iter().chain(names).collect();
    let row = |(i, x): (usize, &f64)| {
        let values = figure
            .shown()
            .map(|(_, _, values)| few_digits(values.get(i).copied().flatten()));
        [format!("{x}")].into_iter().chain(values).collect()
    };
    [head]
        .into_iter()
        .chain(figure.at.iter().enumerate().map(row))
        .collect()
}

fn bars_table(bars: &Bars) -> Vec<Vec<String>> {
    let head = [String::new()]
        .into_iter()
        .chain(bars.series.iter().cloned())
        .collect();
    let row = |(name, values): &(String, Vec<Option<f64>>)| {
        let values = values.iter().map(|value| few_digits(*value));
        [name.clone()].into_iter().chain(values).collect()
    };
    [head]
        .into_iter()
        .chain(bars.groups.iter().map(row))
        .collect()
}

fn table(table: &Table) -> Markup {
    let words = |column: usize| column < table.keys;
    html! {
        h3 { (table.title) }
        div .scroll {
            table {
                thead { tr {
                    @for (i, column) in table.columns.iter().enumerate() {
                        th .n[!words(i)] { (column) }
                    }
                } }
                tbody {
                    @for row in &table.rows { tr {
                        @for (i, cell) in row.iter().enumerate() {
                            td class=[if words(i) { verdict(cell) } else { Some("n") }] { (text(cell)) }
                        }
                    } }
                }
            }
        }
        @for note in &table.notes { p .note { (note) } }
    }
}

/// A class for the words of a verdict.
fn verdict(cell: &Cell) -> Option<&'static str> {
    match cell {
        Cell::Text(text) if text == "confirmed" => Some("confirmed"),
        Cell::Text(text) if text == "changed" => Some("changed"),
        Cell::Text(text) if text == "not measured" => Some("open"),
        _ => None,
    }
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::None => "\u{2013}".into(),
        Cell::Text(text) => text.clone(),
        Cell::Count(n) => grouped(*n),
        Cell::Measure(x, digits) => format!("{x:.digits$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_table_says_is_no_markup() {
        let held = Table {
            title: "a < b".into(),
            columns: vec!["case", "n"],
            keys: 1,
            rows: vec![vec!["<script>".into(), Cell::Count(1)]],
            notes: vec!["& more".into()],
        };
        let text = table(&held).into_string();
        assert!(
            text.contains("a &lt; b")
                && text.contains("&lt;script&gt;")
                && text.contains("&amp; more")
        );
        assert!(!text.contains("<script"));
    }
}
