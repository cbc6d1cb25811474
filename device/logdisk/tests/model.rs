//! Random operations against a model, through every way to clean, with mounts in between.

mod common;

use common::{Model, Op, formatted, ram, run, script};
use flashkit_logdisk::LogDisk;

#[test]
fn holds_what_was_written() {
    for (name, config) in common::configs() {
        for seed in 0..6 {
            let mut chip = formatted();
            let mut model = Model::new();
            let script = script(seed, 50, 600);
            for (part, ops) in script.chunks(100).enumerate() {
                let id = format!("{name} seed {seed} part {part}");
                let mut ram = ram(&config);
                let mut disk = LogDisk::mount(chip, config, &mut ram).expect(&id);
                for ops in ops.chunks(10) {
                    run(&mut disk, &mut model, ops).expect(&id);
                    disk.check().expect(&id);
                }
                model.compare(&mut disk, false).expect(&id);
                // Trims that wait are not lost by an orderly end.
                disk.flush().expect(&id);
                model.end(Op::Flush);
                chip = disk.into_flash();
            }
        }
    }
}
