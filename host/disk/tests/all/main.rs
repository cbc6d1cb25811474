//! Disks under real kernels, and under power cuts. One program, which is linked once.

mod ext4;
mod fat;
mod journals;
mod kernel;
