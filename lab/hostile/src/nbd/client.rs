//! A client's whole session as a stream: mostly one that makes sense.

use crate::input::{EDIT, Input, STEP};

const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const GO: u32 = 7;

/// The stream that an input stands for, on a disk of `size` bytes.
pub fn stream(input: &Input<'_>, size: u64) -> Vec<u8> {
    let mut out = Vec::new();
    // No zeroes and fixed newstyle, in the order in which a client most likely has them.
    let client = [3u32, 1, 2, 0, 3, 0x8000_0003, 4, 3][usize::from(input.image >> 5)];
    out.extend(client.to_be_bytes());
    let is_damage = |edit: &&&[u8; EDIT]| edit[0] % 16 >= 14;
    for edit in input.edits.iter().filter(|edit| !is_damage(edit)) {
        option(&mut out, edit);
    }
    option(&mut out, &[0; EDIT]);
    for (n, step) in (1..).zip(&input.steps) {
        command(&mut out, step, n, size);
    }
    for edit in input.edits.iter().filter(is_damage) {
        damage(&mut out, edit);
    }
    out
}

/// Puts one option: what, what is said of its name, what is said of its requests, lengths that are
/// not so.
fn option(out: &mut Vec<u8>, edit: &[u8; EDIT]) {
    let code = match edit[0] % 16 {
        0 | 1 => GO,
        2 => 6,
        3 => 3,
        4 => 1,
        5 => 2,
        6 => 5,
        7 => 8,
        other => u32::from(other) << (edit[9] % 32),
    };
    let is_described = matches!(code, 6 | GO);
    let mut data = Vec::new();
    if is_described {
        let name = vec![b'n'; usize::from(edit[1] % 4)];
        let len =
            name.len() as u32 + u32::from(edit[2] % 4 == 3) * u32::from(edit[3]) * 0x0101_0000;
        data.extend(len.to_be_bytes());
        data.extend(name);
        let requests = u16::from(edit[4] % 4);
        let told = requests.wrapping_add(u16::from(edit[5] % 4 == 3) * u16::from(edit[6]));
        data.extend(told.to_be_bytes());
        (0..requests).for_each(|n| data.extend((n * u16::from(edit[7])).to_be_bytes()));
    } else {
        data.resize(usize::from(edit[1] % 4) * usize::from(edit[2]), b'x');
    }
    let told = match edit[8] % 8 {
        6 => (data.len() as u32).wrapping_sub(1),
        7 => u32::from_be_bytes([edit[1], edit[2], edit[3], edit[4]]) >> (edit[9] % 32),
        _ => data.len() as u32,
    };
    out.extend(OPTION_MAGIC.to_be_bytes());
    out.extend(code.to_be_bytes());
    out.extend(told.to_be_bytes());
    out.extend(data);
}

/// Puts one command: what, its flags, offset (two bytes) and length, how far both are off.
fn command(out: &mut Vec<u8>, step: &[u8; STEP], n: u64, size: u64) {
    let code = [0, 1, 1, 3, 4, 6, 0, 5, 7, 2][usize::from(step[0] % 10)];
    // Rare: it ends the session.
    let code = if code == 2 && !step[5].is_multiple_of(8) {
        0
    } else {
        code
    };
    let flags = if step[0] >= 200 {
        u16::from(step[1])
    } else {
        u16::from(step[1] & 1)
    };
    let near = u64::from(u16::from_le_bytes([step[2], step[3]])) % (size + 16);
    let offset = match step[5] % 16 {
        13 => u64::MAX - near,
        14 => size.wrapping_sub(near % 600),
        15 => near << 40,
        _ => near,
    };
    let len = match step[5] >> 4 {
        12 => size as u32,
        13 if step[4] == 0 => 32 << 20,
        14 if step[4] > 250 => u32::MAX - u32::from(step[4]),
        15 if step[4] == 0 => (32 << 20) + u32::from(step[3] % 2),
        _ => u32::from(step[4]) * 7,
    };
    out.extend(REQUEST_MAGIC.to_be_bytes());
    out.extend(flags.to_be_bytes());
    out.extend(u16::to_be_bytes(code));
    out.extend((n << 56 | u64::from(step[1]) << 8 | n).to_be_bytes());
    out.extend(offset.to_be_bytes());
    out.extend(len.to_be_bytes());
    if code == 1 {
        // What is announced may be more than what comes.
        let come = (len as usize).min(64 << 10);
        out.extend((0..come).map(|at| (at as u8).wrapping_mul(3) ^ n as u8 | 1));
    }
}

/// Cuts the stream short, changes a byte, or takes one away.
fn damage(out: &mut Vec<u8>, edit: &[u8; EDIT]) {
    let at = usize::from(u16::from_le_bytes([edit[1], edit[2]])) % out.len().max(1);
    match edit[3] % 4 {
        _ if out.is_empty() => {}
        0 => out.truncate(at),
        1 => drop(out.remove(at)),
        _ => out[at] ^= edit[4].max(1),
    }
}
