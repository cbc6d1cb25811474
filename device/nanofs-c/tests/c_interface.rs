//! The C interface, called as C would.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;

use ::nanofs::*;

const BLOCKS: u32 = 300;

unsafe extern "C" fn read(context: *mut c_void, first: u32, data: *mut u8, n: u32) -> c_int {
    // SAFETY: the context is the card of the test.
    let card = unsafe { &*context.cast::<Vec<u8>>() };
    let from = &card[first as usize * 512..][..n as usize * 512];
    // SAFETY: the library hands over room for so many blocks.
    unsafe { data.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    0
}

unsafe extern "C" fn write(context: *mut c_void, first: u32, data: *const u8, n: u32) -> c_int {
    // SAFETY: as above.
    let card = unsafe { &mut *context.cast::<Vec<u8>>() };
    let to = &mut card[first as usize * 512..][..n as usize * 512];
    // SAFETY: as above.
    unsafe { data.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
    0
}

fn device(card: &mut Vec<u8>) -> nanofs_device {
    nanofs_device {
        context: (card as *mut Vec<u8>).cast(),
        blocks: BLOCKS,
        read: Some(read),
        write: Some(write),
        trim: None,
        flush: None,
    }
}

#[test]
fn a_file_by_way_of_c() {
    let mut card = vec![0xff; BLOCKS as usize * 512];
    let device = device(&mut card);
    // What is there before does not matter.
    let mut room = Box::new(MaybeUninit::<nanofs>::uninit());
    // SAFETY: any bytes are a `nanofs`.
    unsafe { room.as_mut_ptr().write_bytes(0xa5, 1) };
    let fs = room.as_mut_ptr();
    let data: Vec<u8> = (0..10_000).map(|i| (i / 7) as u8).collect();
    // SAFETY: the pointers are valid and of the lengths given.
    unsafe {
        nanofs_init(fs, &device);
        assert_eq!(nanofs_mount(fs, 5), NANOFS_E_NOT_FORMATTED);
        assert_eq!(nanofs_format(fs, 5, 4, 1), 0);
        let file = nanofs_create(fs, b"log".as_ptr(), 3);
        assert_eq!(file, 0);
        assert_eq!(nanofs_append(fs, file, data.as_ptr(), 10_000), 0);
        assert_eq!(nanofs_sync(fs), 0);
        nanofs_init(fs, &device);
        assert_eq!(nanofs_mount(fs, 6), NANOFS_E_WRONG_KEY);
        assert_eq!(nanofs_mount(fs, 5), 0);
        let file = nanofs_open(fs, b"log".as_ptr(), 3);
        let mut found = vec![0; 10_001];
        assert_eq!(nanofs_read(fs, file, found.as_mut_ptr(), 10_001), 10_000);
        assert!(found[..10_000] == data);
        let (mut size, mut pos, mut space) = (0, 0, 0);
        assert_eq!(nanofs_size(fs, file, &mut size), 0);
        assert_eq!(nanofs_tell(fs, file, &mut pos), 0);
        assert_eq!((size, pos), (10_000, 10_000));
        assert_eq!(nanofs_seek(fs, file, 300), 0);
        assert_eq!(nanofs_write(fs, file, data.as_ptr(), 50), 0);
        assert_eq!(nanofs_truncate(fs, file, 400), 0);
        assert_eq!(nanofs_close(fs, file), 0);
        assert_eq!(nanofs_close(fs, file), NANOFS_E_BAD_HANDLE);
        assert_eq!(nanofs_rename(fs, b"log".as_ptr(), 3, b"old".as_ptr(), 3), 0);
        assert!(nanofs_next_file(fs, 0) > 0);
        let mut name = [0; NANOFS_NAME_MAX as usize];
        assert_eq!(nanofs_entry(fs, name.as_mut_ptr(), &mut size), 3);
        assert_eq!((&name[..3], size), (&b"old"[..], 400));
        assert_eq!(nanofs_delete(fs, b"old".as_ptr(), 3), 0);
        assert_eq!(nanofs_clean(fs, u32::MAX), 0);
        assert_eq!(nanofs_space_left(fs, &mut space), 0);
        assert_eq!(space, (BLOCKS - 2 - 3 * 4 - 2) * 500);
        assert_eq!(nanofs_open(fs, b"old".as_ptr(), 3), NANOFS_E_NOT_FOUND);
    }
}

/// Places that are null, lengths that no result can say, and numbers given to uninitialised places.
#[test]
fn bytes_that_cannot_be_are_refused() {
    let mut card = vec![0xff; BLOCKS as usize * 512];
    let device = device(&mut card);
    let mut room = Box::new(MaybeUninit::<nanofs>::uninit());
    let fs = room.as_mut_ptr();
    let null = core::ptr::null_mut();
    let bad = NANOFS_E_BAD_ARGUMENT;
    // SAFETY: the pointers are valid and of the lengths given, or refused.
    unsafe {
        nanofs_init(fs, &device);
        assert_eq!(nanofs_format(fs, 5, 4, 1), 0);
        let file = nanofs_create(fs, b"f".as_ptr(), 1);
        assert_eq!(nanofs_append(fs, file, b"abc".as_ptr(), 3), 0);
        assert_eq!(nanofs_seek(fs, file, 0), 0);
        assert_eq!(nanofs_read(fs, file, null, 1), bad);
        assert_eq!(nanofs_write(fs, file, null, 1), bad);
        assert_eq!(nanofs_append(fs, file, null, 1), bad);
        for f in [nanofs_open, nanofs_create, nanofs_delete] {
            assert_eq!(f(fs, null, 1), NANOFS_E_BAD_NAME);
            let long = [b'n'; 65];
            assert_eq!(f(fs, long.as_ptr(), 65), NANOFS_E_NAME_TOO_LONG);
        }
        assert_eq!(
            nanofs_rename(fs, b"f".as_ptr(), 1, null, 1),
            NANOFS_E_BAD_NAME
        );
        assert_eq!(
            nanofs_rename(fs, null, 1, b"g".as_ptr(), 1),
            NANOFS_E_BAD_NAME
        );
        let one = [0u8; 1].as_mut_ptr();
        for n in [1 << 31, u32::MAX] {
            assert_eq!(nanofs_read(fs, file, one, n), bad);
            assert_eq!(nanofs_write(fs, file, one, n), bad);
        }
        // No bytes are none, wherever they are.
        assert_eq!(nanofs_read(fs, file, null, 0), 0);
        assert_eq!(nanofs_write(fs, file, null, 0), 0);
        assert_eq!(nanofs_append(fs, file, null, 0), 0);
        assert_eq!(nanofs_open(fs, null, 0), NANOFS_E_BAD_NAME);
        assert_eq!(nanofs_seek(fs, file, 0), 0);
        let mut n = MaybeUninit::uninit();
        assert_eq!(nanofs_tell(fs, file, n.as_mut_ptr()), 0);
        assert_eq!(n.assume_init(), 0);
        let mut n = MaybeUninit::uninit();
        assert_eq!(nanofs_size(fs, file, n.as_mut_ptr()), 0);
        assert_eq!(n.assume_init(), 3);
        let mut n = MaybeUninit::uninit();
        assert_eq!(nanofs_space_left(fs, n.as_mut_ptr()), 0);
        assert!(n.assume_init() > 0);
    }
}
