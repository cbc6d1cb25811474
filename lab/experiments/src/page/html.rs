//! The page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Chapter, Page, plot};
use crate::report::{Bars, Cell, Figure, Table, grouped};

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
                title { "Flash file systems, side by side" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Flash file systems, side by side" }
                    p {
                        "The same operations on the same chip. Times are flash time: counted reads, programs and "
                        "erases at the chip's latencies, so they do not depend on the machine. A lower curve or "
                        "bar is better wherever the axis does not say that a higher one is."
                    }
                    nav {
                        @for chapter in &page.chapters {
                            a href={ "#" (chapter.name) } { (chapter.name) }
                        }
                        a href="#repeat" { "how to repeat it" }
                    }
                }
                @for bars in bars { section { (bars) } }
                @for chapter in chapters { (chapter) }
                section id="repeat" {
                    h2 { "How to repeat it" }
                    p {
                        "Each number belongs to a case. " code { "flashkit lab run STUDY --results NEW --only '=CASE'" }
                        " runs one again; the study is the first word of the case. "
                        code { "flashkit lab run STUDY" } " runs all that have no result yet, and "
                        code { "flashkit lab report" } " writes this page. Counts of FlashLight come out the same "
                        "every time; those of a kernel's file systems vary by a few in a thousand, because its threads "
                        "write when their timers say so."
                    }
                    ul { @for made in &page.made { li { (made) } } }
                }
            }
        }
    };
    Ok(markup.into_string())
}

fn chapter(chapter: &Chapter) -> anyhow::Result<Markup> {
    let mut figures = Vec::new();
    for figure in &chapter.report.figures {
        figures.push(curve_figure(figure)?);
    }
    for held in &chapter.report.bars {
        figures.push(bar_figure(held, "")?);
    }
    let missing = chapter.cases - chapter.outcomes.len() - chapter.measured.len();
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
            @for held in short { (table(held)) }
            div .figures { @for figure in figures { (figure) } }
            @for held in long {
                details { summary { (held.title) " (" (held.rows.len()) ")" } (table(held)) }
            }
        }
    })
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
            p .paper { (bars.note) }
        }
    })
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
