//! Replays stored traces over FlashLight in RAM and prints what they cost.
use flashkit_flashlight::{Cleaner, Config, FlashLight, New};
use flashkit_sim::{SimNand, preset};
use flashkit_vfs::flashlight::FlashLightFs;
use flashkit_workload::{Options, replay_fs, traces};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let fsync = args.iter().any(|a| a == "--fsync");
    let verify = args.iter().any(|a| a == "--verify");
    let mut config = Config::default();
    if args.iter().any(|a| a == "--paper") {
        config.cleaner = Cleaner::Paper;
    }
    let chip = SimNand::new(preset("slc-256m").unwrap());
    let ram: &'static mut [u8] = Box::leak(vec![0; 16384].into_boxed_slice());
    let ram2: &'static mut [u8] = Box::leak(vec![0; 16384].into_boxed_slice());
    let mut chip = FlashLight::format(chip, ram, 1, &New::default()).unwrap();
    chip.clear_counters();
    let fs = FlashLight::mount(chip, ram2, config).unwrap();
    println!("mount {:?}", fs.nand().counters_of());
    let mut fs = FlashLightFs::new(fs, 16384);
    let t = std::time::Instant::now();
    let options = Options { fsync, verify, ..Options::default() };
    match replay_fs(&mut fs, traces::open(&args[0]).unwrap(), options) {
        Ok(r) => {
            for p in r.report.phases.iter().chain([&r.report.total]) {
                println!(
                    "{:10} ops {} reads {} spare {} programs {} erases {} flash {:.2} s lat {:?}",
                    p.name, p.ops, p.page_reads, p.spare_reads, p.page_programs, p.block_erases,
                    p.flash_us as f64 / 1e6, p.latency_us
                );
            }
        }
        Err(e) => println!("FAILED {e}"),
    }
    println!("{:?} in {:?}", fs.volume().written(), t.elapsed());
    let checked = flashkit_vfs::check::check(fs.volume());
    println!("{:?}", checked.map(|c| (c.findings.len(), c.findings.first().cloned(), c.files)));
}

trait C {
    fn counters_of(&self) -> flashkit_sim::Counters;
}
impl C for SimNand {
    fn counters_of(&self) -> flashkit_sim::Counters {
        flashkit_sim::Metered::counters(self)
    }
}
