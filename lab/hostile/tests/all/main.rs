//! What fuzz targets are given, and what they are to find. One program, which is linked once.

mod circles;
mod images;
mod inputs;
mod open;
mod records;
