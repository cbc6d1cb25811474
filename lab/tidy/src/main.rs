//! Prints which layer of FlashLight imports from which, and how often: what its drawing shows.

use flashkit_tidy::layers::{LAYERS, are_there, edges};
use flashkit_tidy::tree;

fn main() {
    let files = tree::files(&tree::top());
    if !are_there(&files) {
        println!("FlashLight's sources stand in no folders: there are no layers");
        return;
    }
    for ((from, to), count) in edges(&files).into_iter().rev() {
        let way = if from < to { "  UPWARDS" } else { "" };
        println!("{:>10} -> {:<10} {count:>4}{way}", LAYERS[from], LAYERS[to]);
    }
}
