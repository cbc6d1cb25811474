//! What tracefs prints, parsed.

use serde::Serialize;

use crate::probe::Kind;

/// One flash operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// Seconds of the kernel's monotonic clock.
    pub seconds: f64,
    /// What was done: `page_read`, `spare_read`, `page_program`, `spare_program`, `block_erase`.
    pub op: &'static str,
    /// Page within its die; none of an erase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// Block within its die; of a page, once the geometry is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// CPU.
    pub cpu: u32,
    /// Process or kernel thread that asked for it.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// Hits and misses of an event in the text of `kprobe_profile`.
pub fn profile(text: &str, event: &str) -> Option<(u64, u64)> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        if words.next()? != event {
            return None;
        }
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    })
}

/// A histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hist {
    pub entries: Vec<Entry>,
    /// Hits that found the table full.
    pub dropped: u64,
}

/// A line of a histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// Names and texts of the keys.
    keys: Vec<(String, String)>,
    pub hits: u64,
}

impl Entry {
    fn key(&self, name: &str) -> Option<&str> {
        let (_, text) = self.keys.iter().find(|(held, _)| held == name)?;
        Some(text)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.key(name)?.parse().ok()
    }

    /// `name [ pid]`.
    pub fn process(&self) -> Option<(String, u32)> {
        let text = self.key("common_pid")?;
        let (name, rest) = text.rsplit_once('[')?;
        let pid = rest.trim_end_matches(']').trim().parse().ok()?;
        Some((name.trim().to_owned(), pid))
    }
}

/// Parses that histogram of a `hist` file whose first key is this. An event may have several, each
/// below a line that tells its keys; entries look like `{ chip: 1, block: 2 } hitcount: 3`.
pub fn hist(text: &str, first: &str) -> Hist {
    let mut hist = Hist::default();
    let mut wanted = false;
    for line in text.lines() {
        if let Some(trigger) = line.strip_prefix("# trigger info: hist:keys=") {
            let keys = trigger.split([':', ' ']).next().unwrap_or("");
            let key = keys.split([',', '.']).next();
            wanted = key == Some(first);
        }
        if !wanted {
            continue;
        }
        if let Some(dropped) = line.trim().strip_prefix("Dropped:") {
            hist.dropped = dropped.trim().parse().unwrap_or(0);
        }
        let entry = line
            .strip_prefix('{')
            .and_then(|line| line.rsplit_once('}'));
        if let Some((keys, values)) = entry {
            let pair = |text: &str| {
                let (name, value) = text.split_once(':')?;
                Some((name.trim().to_owned(), value.trim().to_owned()))
            };
            let keys = keys.split(", ").filter_map(pair).collect();
            let hits = values.split_whitespace().nth(1);
            let hits = hits.and_then(|hits| hits.parse().ok()).unwrap_or(0);
            hist.entries.push(Entry { keys, hits });
        }
    }
    hist
}

/// Entries lost, in the text of a CPU's `stats`.
pub fn overrun(text: &str) -> u64 {
    let of = |name| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
            .unwrap_or(0)
    };
    of("overrun:") + of("commit overrun:") + of("dropped events:")
}

/// Parses a line of `trace_pipe` that belongs to monitor `id`:
/// `  ubi_bgt0d-100   [000] .....     5.948395: page_program_7: (nand...+0/0x70) chip=0x1 page=9`.
pub fn event(line: &str, id: u32) -> Option<Event> {
    let (head, arguments) = line.split_once(": (")?;
    let (head, event) = head.rsplit_once(": ")?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.event(id) == event)?;
    let (head, seconds) = head.rsplit_once(' ')?;
    // Names may hold anything, brackets and dashes as well; what follows them does not.
    let (process, rest) = head.rsplit_once(" [")?;
    let cpu = rest.split(']').next()?.parse().ok()?;
    let (name, pid) = process.trim_end().rsplit_once('-')?;
    let argument = |name: &str| {
        let mut words = arguments.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.parse().ok())
    };
    let (page, block) = match kind {
        Kind::BlockErase => (None, Some(argument("block=")?)),
        _ => (Some(argument("page=")?), None),
    };
    Some(Event {
        seconds: seconds.parse().ok()?,
        op: kind.name(),
        page,
        block,
        cpu,
        pid: pid.parse().ok()?,
        name: name.trim_start().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_hits_and_misses() {
        let text = "  page_read_7                    2048               0\n  \
                    page_read_70                      1               2\n";
        assert_eq!(profile(text, "page_read_7"), Some((2048, 0)));
        assert_eq!(profile(text, "page_read_70"), Some((1, 2)));
        assert_eq!(profile(text, "page_read"), None);
        assert_eq!(profile("page_read_7 many 0", "page_read_7"), None);
    }

    #[test]
    fn a_histogram_of_blocks() {
        let text = "# event histogram\n#\n# trigger info: hist:keys=chip,block [active]\n#\n\n\
            { chip: 18446618180743806976, block:       1791 } hitcount:          1\n\
            { chip: 18446618180743806976, block:          0 } hitcount:          2\n\n\
            Totals:\n    Hits: 2050\n    Entries: 2048\n    Dropped: 3\n";
        let hist = hist(text, "chip");
        assert_eq!(hist.dropped, 3);
        assert_eq!(hist.entries.len(), 2);
        assert_eq!(
            hist.entries[0].number("chip"),
            Some(18_446_618_180_743_806_976)
        );
        assert_eq!(hist.entries[0].number("block"), Some(1791));
        assert_eq!(hist.entries[1].hits, 2);
    }

    #[test]
    fn a_histogram_of_processes() {
        let text = "# trigger info: hist:keys=common_pid.execname:vals=hitcount:size=2048 [active]\n\
                    { common_pid: ubi_bgt0d       [       100] } hitcount:       2048\n\
                    { common_pid: a, b: [x]       [         7] } hitcount:          1\n";
        let hist = hist(text, "common_pid");
        assert_eq!(hist.entries[0].process(), Some(("ubi_bgt0d".into(), 100)));
        assert_eq!(hist.entries[0].hits, 2048);
        assert_eq!(hist.entries[1].hits, 1);
    }

    #[test]
    fn two_histograms_of_an_event_are_told_apart() {
        let text = "# event histogram\n#\n# trigger info: hist:keys=chip,block:vals=hitcount\n#\n\n\
            { chip: 9, block:       1791 } hitcount:          4\n\n\
            Totals:\n    Hits: 7\n    Entries: 1\n    Dropped: 3\n\n\n\
            # event histogram\n#\n# trigger info: hist:keys=common_pid.execname\n#\n\n\
            { common_pid: sh              [         7] } hitcount:          7\n\n\
            Totals:\n    Hits: 7\n    Entries: 1\n    Dropped: 0\n";
        let blocks = hist(text, "chip");
        assert_eq!((blocks.dropped, blocks.entries.len()), (3, 1));
        assert_eq!(blocks.entries[0].number("block"), Some(1791));
        let processes = hist(text, "common_pid");
        assert_eq!((processes.dropped, processes.entries.len()), (0, 1));
        assert_eq!(processes.entries[0].process(), Some(("sh".into(), 7)));
        assert_eq!(hist(text, "block"), Hist::default());
    }

    #[test]
    fn a_line_of_the_log() {
        let line = "       ubi_bgt0d-100     [000] ....1   135.948395: block_erase_7: \
                    (nand_erase_op+0x0/0x90 [nand]) chip=0xffff9d3b04ef8000 block=1791";
        let event = event(line, 7).unwrap();
        assert_eq!(
            (event.op, event.page, event.block),
            ("block_erase", None, Some(1791))
        );
        assert_eq!(
            (event.pid, &event.name[..], event.cpu),
            (100, "ubi_bgt0d", 0)
        );
        assert!((event.seconds - 135.948_395).abs() < 1e-9);
        assert_eq!(super::event(line, 8), None);
        let line = "  a-b [1]-22    [003] .....  1.000001: page_read_7: (nand_read_page_op+0x0/0x90 \
                    [nand]) chip=0xffff9d3b04ef8000 page=9";
        let event = super::event(line, 7).unwrap();
        assert_eq!((event.pid, &event.name[..], event.cpu), (22, "a-b [1]", 3));
        assert_eq!(event.page, Some(9));
        assert_eq!(super::event("CPU:0 [LOST 12 EVENTS]", 7), None);
        assert_eq!(super::event("", 7), None);
    }

    #[test]
    fn lost_events_are_summed_up() {
        let text = "entries: 0\noverrun: 5\ncommit overrun: 1\nbytes: 0\ndropped events: 2\n";
        assert_eq!(overrun(text), 8);
        assert_eq!(overrun(""), 0);
    }
}
