//! Disks under real kernels, under power cuts, and when the host crashes. One program, which is
//! linked once.

mod crashes;
mod ext4;
mod fat;
mod journals;
mod kernel;
