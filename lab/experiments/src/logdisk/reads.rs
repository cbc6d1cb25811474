//! Reads (section 3 of the paper), and how long the chip lives (section 3.5).

use anyhow::{Result, anyhow};
use flashkit_logdisk::{Config, LogDisk, Shape, ram_bytes};
use flashkit_sim::Rng;
use flashkit_sim::nor::{NOR_DEFAULT, SimNor, nor_preset};
use serde::{Deserialize, Serialize};

use super::load::{REQUEST, SECTOR, SECTORS};
use super::paper;
use crate::report::{Cell, Table};

/// Title of its table.
pub const TITLE: &str = "Section 3: reads of 4 KB from 12.6 MB, KB/s";

/// KB/s of the paper's driver, and of its file system in memory: in sequence, at random.
const PAPER: [[f64; 2]; 2] = [[644.0, 707.0], [647.0, 702.0]];
/// Bytes a second that the paper's host reads from its memory (Table 3).
const MEMORY: f64 = 7e6;

/// Seconds that the chip takes for a request: in sequence, at random.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Reads {
    seconds: [f64; 2],
}

/// Measures both over all of the data.
///
/// # Errors
/// Of the disk.
pub fn measure() -> Result<Reads> {
    let told = |e| anyhow!("{e:?}");
    let spec = nor_preset(NOR_DEFAULT).ok_or_else(|| anyhow!("no such chip"))?;
    let config = Config::paper();
    let shape = Shape {
        sector_size: SECTOR,
        sectors: SECTORS,
    };
    let len = ram_bytes::<SimNor>(16 << 20, spec.banks(), &shape, &config);
    let mut ram = vec![0; len.map_err(|why| anyhow!(why))?];
    let mut chip: SimNor = SimNor::new(spec);
    LogDisk::format(&mut chip, &shape, 1).map_err(told)?;
    let mut disk = LogDisk::mount(chip, config, &mut ram).map_err(told)?;
    let data = paper::data(90);
    let mut buf = [0x5A; (SECTOR * REQUEST) as usize];
    for sector in (0..data).step_by(REQUEST as usize) {
        disk.write(sector, &buf).map_err(told)?;
    }
    let requests = data / REQUEST;
    let mut seconds = [0.0; 2];
    let mut rng = Rng::new(1);
    for (random, seconds) in seconds.iter_mut().enumerate() {
        let before = disk.flash().now_ns();
        for request in 0..requests {
            let at = match random {
                0 => request,
                _ => rng.below(requests.into()) as u32,
            };
            disk.read(at * REQUEST, &mut buf).map_err(told)?;
        }
        *seconds = (disk.flash().now_ns() - before) as f64 / 1e9 / f64::from(requests);
    }
    Ok(Reads { seconds })
}

/// The table.
pub fn table(reads: Reads) -> Table {
    let bytes = f64::from(SECTOR * REQUEST);
    let row = |i: usize| {
        // The host's own time for a request, without its copy from memory: the chip is in its
        // place.
        let host = 4.0 / PAPER[1][i] - bytes / MEMORY;
        vec![
            ["in sequence", "at random"][i].into(),
            Cell::Measure(PAPER[0][i], 0),
            Cell::Measure(PAPER[1][i], 0),
            Cell::Measure(4.0 / reads.seconds[i], 0),
            Cell::Measure(4.0 / (host + reads.seconds[i]), 0),
        ]
    };
    Table {
        title: TITLE.into(),
        columns: vec![
            "reads",
            "paper",
            "paper, in memory",
            "ours, the chip alone",
            "ours, with the paper's host",
        ],
        keys: 1,
        rows: vec![row(0), row(1)],
        notes: vec![
            "The paper's are its host's speed: its file system in memory is as fast. The last column has that host's \
             time, with the chip read at 4 MB/s in place of memory at 7 MB/s (Table 3)."
                .into(),
        ],
    }
}
