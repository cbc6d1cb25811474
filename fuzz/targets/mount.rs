#![no_main]
#![forbid(unsafe_code)]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| flashkit_hostile::mount::run(data));

// Mostly whole edits and steps; now and then libFuzzer's own idea.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed % 8 == 0 {
        fuzzer_mutate(data, size, max_size)
    } else {
        flashkit_hostile::mutate(data, size, max_size, seed)
    }
});
