//! Prints which layer of FlashLight imports from which, and how often: what its drawing shows.

use flashkit_tidy::layers::{LAYERS, edges};
use flashkit_tidy::tree;

fn main() {
    let files = tree::files(&tree::top());
    for ((from, to), count) in edges(&files).into_iter().rev() {
        let way = if from < to { "  UPWARDS" } else { "" };
        println!("{:>10} -> {:<10} {count:>4}{way}", LAYERS[from], LAYERS[to]);
    }
}
