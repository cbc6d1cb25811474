//! Tells the linker where a program begins. There is no start-up code: it is measured, never run.

fn main() {
    println!("cargo:rustc-link-arg-bins=--gc-sections");
    println!("cargo:rustc-link-arg-bins=-emain");
}
