//! One module per subcommand: its arguments and its work.

pub mod attach;
pub mod bench;
pub mod cat;
pub mod chips;
pub mod clean;
pub mod cp;
pub mod demo;
pub mod dump;
pub mod fsck;
pub mod gc;
pub mod info;
pub mod lab;
pub mod ls;
pub mod manual;
pub mod mkfs;
pub mod monitor;
pub mod mount;
pub mod powercut;
pub mod raw;
pub mod replay;
pub mod serve;
pub mod soak;
pub mod sync;
pub mod umount;
