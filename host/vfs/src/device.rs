//! Numbers of devices: 12 bits of major and 20 of minor, in 32 bits as Linux packs them.

/// The number of the device with this major and minor number; bits too many are left out.
pub fn pack(major: u32, minor: u32) -> u32 {
    minor & 0xff | (major & 0xfff) << 8 | (minor & 0xf_ff00) << 12
}

/// Major and minor number of a device.
pub fn unpack(device: u32) -> (u32, u32) {
    (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for (major, minor, device) in [
            (0, 0, 0),
            (1, 3, 0x103),
            (8, 0x12_345, 0x1230_0845),
            (0xfff, 0xf_ffff, u32::MAX),
        ] {
            assert_eq!(pack(major, minor), device);
            assert_eq!(unpack(device), (major, minor));
        }
    }
}
