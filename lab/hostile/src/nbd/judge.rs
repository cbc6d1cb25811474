//! What a client is owed, by the protocol: the stream and the answers are read side by side.

use std::io;

use super::Terms;

const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_E889_0455_65A9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const ERROR: u32 = 1 << 31;
/// Longest option and longest read or write that a client can count on.
const OPTION_MAX: u32 = 4096;
const REQUEST_MAX: u32 = 32 << 20;

/// Bytes that are read from their front.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, n: usize) -> Option<&'b [u8]> {
        let (front, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(front)
    }

    fn number<const N: usize>(&mut self) -> Option<u64> {
        let bytes = self.take(N)?;
        Some(bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    fn u16(&mut self) -> Option<u16> {
        self.number::<2>().map(|n| n as u16)
    }

    fn u32(&mut self) -> Option<u32> {
        self.number::<4>().map(|n| n as u32)
    }

    fn u64(&mut self) -> Option<u64> {
        self.number::<8>()
    }
}

/// How a session has to end.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The stream ends, or says what has no answer.
    Refused,
    /// The client has asked for the end.
    Asked,
}

/// Checks all answers to what was sent.
///
/// # Panics
/// One of them is wrong, missing or too much.
pub fn check(sent: &[u8], replied: &[u8], terms: &Terms, ended: &io::Result<()>, reports: u32) {
    let (mut sent, mut replied) = (Bytes(sent), Bytes(replied));
    assert_eq!(replied.take(18), Some(&b"NBDMAGICIHAVEOPT\0\x03"[..]));
    let mut disk = Model {
        bytes: vec![Some(0); terms.size as usize],
        failures: 0,
    };
    let end = match handshake(&mut sent, &mut replied, terms) {
        Ok(()) => transmission(&mut sent, &mut replied, terms, &mut disk),
        Err(end) => end,
    };
    assert_eq!(replied.0, [0; 0], "answers that nobody has asked for");
    assert_eq!(end == End::Asked, ended.is_ok(), "{ended:?}");
    assert_eq!(reports, disk.failures, "failures of the disk that are told");
}

fn handshake(sent: &mut Bytes, replied: &mut Bytes, terms: &Terms) -> Result<(), End> {
    let client = sent.u32().ok_or(End::Refused)?;
    if client & !3 != 0 {
        return Err(End::Refused);
    }
    loop {
        let magic = sent.u64().ok_or(End::Refused)?;
        if magic != OPTION_MAGIC {
            return Err(End::Refused);
        }
        let option = sent.u32().ok_or(End::Refused)?;
        let len = sent.u32().ok_or(End::Refused)?;
        if len > OPTION_MAX {
            return Err(End::Refused);
        }
        let data = sent.take(len as usize).ok_or(End::Refused)?;
        if option == 1 {
            if !data.is_empty() {
                return Err(End::Refused);
            }
            assert_eq!(replied.u64(), Some(terms.size));
            check_flags(replied.u16(), terms);
            if client & 2 == 0 {
                assert_eq!(replied.take(124), Some(&[0; 124][..]));
            }
            return Ok(());
        }
        let accepted = answers(replied, option, data, terms);
        match option {
            2 => return Err(End::Asked),
            7 if accepted => return Ok(()),
            _ => {}
        }
    }
}

fn check_flags(flags: Option<u16>, terms: &Terms) {
    let flags = flags.expect("flags of the export");
    assert_eq!(flags & 1, 1, "a client is to look at the flags");
    assert_eq!(flags & 2 != 0, terms.read_only);
}

/// Reads the answers to an option to their end; whether it was accepted.
fn answers(replied: &mut Bytes, option: u32, data: &[u8], terms: &Terms) -> bool {
    let (mut shown, mut servers) = (false, 0);
    let accepted = loop {
        assert_eq!(replied.u64(), Some(OPTION_REPLY_MAGIC));
        assert_eq!(replied.u32(), Some(option));
        let kind = replied.u32().expect("a kind of answer");
        let len = replied.u32().expect("its length");
        let mut said = Bytes(replied.take(len as usize).expect("as much as announced"));
        match kind {
            1 => {
                assert_eq!(len, 0);
                break true;
            }
            2 => {
                assert_eq!((said.u32(), said.0.len()), (Some(0), 0));
                servers += 1;
            }
            3 => match said.u16() {
                Some(0) => {
                    assert_eq!(said.u64(), Some(terms.size));
                    check_flags(said.u16(), terms);
                    assert_eq!(said.0.len(), 0);
                    shown = true;
                }
                Some(3) => {
                    let sizes = [said.u32(), said.u32(), said.u32()].map(Option::unwrap);
                    assert!(sizes[0] <= sizes[1] && sizes[1] <= sizes[2]);
                    assert!(sizes.iter().take(2).all(|size| size.is_power_of_two()));
                    assert_eq!(said.0.len(), 0);
                }
                kind => panic!("information {kind:?}"),
            },
            kind => {
                assert!(kind & ERROR != 0, "answer {kind}");
                break false;
            }
        }
    };
    let due = match option {
        6 | 7 => asks_for_the_export(data),
        2 | 3 => true,
        _ => false,
    };
    assert_eq!(accepted, due, "option {option}, {data:?}");
    assert_eq!(shown, accepted && matches!(option, 6 | 7));
    assert_eq!(servers, u32::from(option == 3));
    accepted
}

/// Whether the data of GO or INFO is sound and names the one export.
fn asks_for_the_export(data: &[u8]) -> bool {
    let mut data = Bytes(data);
    if data.u32() != Some(0) {
        return false;
    }
    let requests = data.u16();
    requests.is_some_and(|n| data.0.len() == usize::from(n) * 2)
}

/// What a disk may hold; `None` of a byte: a failure has left it open.
struct Model {
    bytes: Vec<Option<u8>>,
    failures: u32,
}

/// A request, whose range lies on the disk if it has one.
struct Command<'s> {
    code: u16,
    range: Option<std::ops::Range<usize>>,
    data: &'s [u8],
}

fn transmission(sent: &mut Bytes, replied: &mut Bytes, terms: &Terms, disk: &mut Model) -> End {
    while let Some((cookie, command)) = request(sent, terms) {
        if command.code == 2 {
            return End::Asked;
        }
        answer(replied, cookie, &command, terms, disk);
    }
    End::Refused
}

/// The next whole request; none if it cannot be answered.
fn request<'s>(sent: &mut Bytes<'s>, terms: &Terms) -> Option<(u64, Command<'s>)> {
    if sent.u32()? != REQUEST_MAGIC {
        return None;
    }
    let (_flags, code, cookie) = (sent.u16()?, sent.u16()?, sent.u64()?);
    let (offset, len) = (sent.u64()?, sent.u32()?);
    if matches!(code, 0 | 1) && len > REQUEST_MAX {
        return None;
    }
    let data = match code {
        1 => sent.take(len as usize)?,
        _ => &[],
    };
    let end = offset.checked_add(len.into());
    let fits = end.is_some_and(|end| end <= terms.size);
    let range = fits.then(|| offset as usize..offset as usize + len as usize);
    Some((cookie, Command { code, range, data }))
}

fn answer(
    replied: &mut Bytes,
    cookie: u64,
    command: &Command<'_>,
    terms: &Terms,
    disk: &mut Model,
) {
    let code = command.code;
    assert_eq!(replied.u32(), Some(REPLY_MAGIC));
    let error = replied.u32().expect("an error number");
    assert_eq!(replied.u64(), Some(cookie));
    let changes = matches!(code, 1 | 4 | 6);
    let is_known = changes || matches!(code, 0 | 3);
    let is_due =
        is_known && (code == 3 || command.range.is_some()) && !(changes && terms.read_only);
    if is_due && error != 0 {
        assert_eq!(error, 5, "an error that is not the disk's");
        assert!(terms.breaks > 0, "an error of a disk that works");
        disk.failures += 1;
    }
    assert!(is_due || error != 0, "command {code} is carried out");
    let Some(range) = command.range.clone().filter(|_| is_due) else {
        return;
    };
    let bytes = &mut disk.bytes[range];
    match code {
        0 if error == 0 => {
            let read = replied.take(bytes.len()).expect("as much as was asked for");
            for (held, read) in bytes.iter().zip(read) {
                assert!(held.is_none_or(|held| held == *read), "{held:?}, {read}");
            }
        }
        1 if error == 0 => {
            let written = command.data.iter().copied().map(Some);
            bytes
                .iter_mut()
                .zip(written)
                .for_each(|(to, byte)| *to = byte);
        }
        4 | 6 if error == 0 => bytes.fill(Some(0)),
        1 | 4 | 6 => bytes.fill(None),
        _ => {}
    }
}
