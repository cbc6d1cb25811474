//! Little-endian fields in byte slices.

pub(crate) use flashkit_bytes::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
