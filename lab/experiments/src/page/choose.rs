//! The first screen: a chip, a load in words, and the file systems by their time.
//!
//! The chip is chosen by radio buttons and a style sheet alone: the arrow keys work, and where
//! styles do not, all tables are there.

use flashkit_sim::{DEFAULT_PRESET, Preset};
use maud::{Markup, html};

use super::Page;
use crate::peers::{self, Choice};

/// The section of a page.
pub fn section(page: &Page) -> Markup {
    let outcomes: Vec<_> = page
        .chapters
        .iter()
        .flat_map(|chapter| chapter.outcomes.iter().cloned())
        .collect();
    let (choices, chips) = (peers::choices(&outcomes), peers::chips());
    html! {
        section id="choose" {
            @if choices.is_empty() {
                p .missing {
                    "Two file systems with results are needed for an answer: " code { "flashkit lab run peers" }
                }
            } @else {
                fieldset .chips {
                    legend { "My chip" }
                    @for (i, chip) in chips.iter().enumerate() {
                        label {
                            input type="radio" name="chip" id={ "chip-" (i) } checked[i == 0];
                            (words(chip))
                        }
                    }
                    label { input type="radio" name="chip" id="chip-other"; "another" }
                    @for (i, chip) in chips.iter().enumerate() {
                        div .chip .{ "chip-" (i) } { (table(&choices, chip)) }
                    }
                    div .chip .chip-other { (others(page)) }
                }
            }
        }
    }
}

/// A chip in few words.
fn words(chip: &Preset) -> String {
    let of = match (chip.name, chip.bus) {
        ("slc-256m", _) => "SLC on a parallel bus, a slow read",
        (_, None) => "SLC on a parallel bus, a fast read",
        (_, Some(_)) => "SPI NAND",
    };
    format!("{} ({of})", chip.name)
}

fn table(choices: &[Choice], chip: &Preset) -> Markup {
    let times = |x: f64| match x {
        x if x < 10.0 => format!("{x:.2}"),
        x => format!("{x:.1}"),
    };
    let is_measured = chip.name == DEFAULT_PRESET;
    let bytes = u64::from(chip.page_size * chip.pages_per_block) * u64::from(chip.blocks);
    let mib = bytes >> 20;
    html! {
        div .scroll {
            table .stack {
                caption { "On " code { (chip.name) } }
                thead { tr {
                    th { "my load" } th { "fastest" } th .n { "flash s" }
                    @if is_measured { th .n { "longest wait, ms" } }
                    th { "the others: how much longer" }
                } }
                tbody {
                    @for choice in choices {
                        @let ranked = choice.ranked(chip);
                        @let best = &ranked[0];
                        tr {
                            td { b { (choice.load) } }
                            td data-l="fastest" { b { (best.system.title()) } }
                            td .n data-l="flash s" { (format!("{:.1}", best.seconds)) }
                            @if is_measured {
                                td .n data-l="longest wait, ms" {
                                    (best.longest_ms.map_or("\u{2013}".to_owned(), |ms| format!("{ms:.1}")))
                                }
                            }
                            td data-l="how much longer the others take" {
                                @for (i, other) in ranked.iter().skip(1).enumerate() {
                                    @if i > 0 { ", " }
                                    (other.system.title()) " " (times(other.seconds / best.seconds))
                                }
                            }
                        }
                    }
                }
            }
        }
        p .note {
            "Chip " code { (chip.name) } ", " (mib) " MiB in pages of 2 KiB: read, program and erase take "
            (chip.timing.read_ns as f64 / 1e3) ", " (chip.timing.program_ns as f64 / 1e3) " and "
            (chip.timing.erase_ns as f64 / 1e3) " us. "
            @if is_measured { "Measured. " } @else {
                "Computed: the operations counted on " code { (DEFAULT_PRESET) } ", a chip of the same geometry, at this one's "
                "latencies. "
                @if let Some(bus) = chip.bus {
                    "With its bus of " (bus.speed.mhz) " MHz on one lane, over which whole pages go: who reads parts of pages, "
                    "as FlashLight does, is faster than this says. "
                }
            }
            "FlashLight has 16 KiB of RAM here and no page cache; " i { "mounted" } " it is behind the kernel's, as UBIFS "
            "and JFFS2 are, which take megabytes. "
            @if chip.bus.is_some() {
                "On a microcontroller only FlashLight, littlefs and YAFFS2's direct interface come into question."
            }
        }
    }
}

/// What a chapter shows, with a link to it if the page has it.
fn chapter(page: &Page, name: &str, shows: &str) -> Markup {
    html! {
        @if page.chapters.iter().any(|chapter| chapter.name == name) {
            a href={ "#" (name) } { (shows) }
        } @else { (shows) }
    }
}

/// What there is to say where nothing was measured against peers.
fn others(page: &Page) -> Markup {
    html! {
        div .scroll {
            table .stack {
                caption { "On another chip" }
                thead { tr { th { "my chip" } th { "what runs on it" } th { "what is measured" } } }
                tbody {
                    (row("NAND of another size or page", "FlashLight, or ext4 on JFTL", &html! {
                        code { "flashkit bench LOAD --chip NAME" } " for each chip of " code { "flashkit chips" }
                    }))
                    (row("NAND of 20 or 100 MiB, worn and dirty", "FlashLight, UBIFS, JFFS2, YAFFS2",
                        &chapter(page, "micro", "wear and cleaning by the chip's state")))
                    (row("NAND with pages of 512 bytes, under a disk's file system", "ext3 or ext4 on JFTL",
                        &chapter(page, "jftl", "with the journal written once, and twice")))
                    (row("SD card, eMMC: blocks of 512 bytes", "Nano-FS, in 8 KB",
                        &chapter(page, "nanofs", "a card of class 4")))
                    (row("NOR", "a disk's file system on logdisk",
                        &chapter(page, "logdisk", "write loads, and the policies of cleaning")))
                }
            }
        }
    }
}

fn row(chip: &str, runs: &str, measured: &Markup) -> Markup {
    html! {
        tr {
            td { b { (chip) } }
            td data-l="what runs on it" { (runs) }
            td data-l="what is measured" { (measured) }
        }
    }
}
