//! Tests of tags.

use super::*;

const FORMS: [Form; 2] = [Form::Wide, Form::Short];
const SEQ: u64 = 3 << 32 | 0x1234_5678;
const TAG: Tag = Tag {
    owner: Owner {
        ino: 0x1020_3040,
        dir: 0xf_edcb,
        hash: 0xa98_7654,
    },
    index: 0xf_0e0d,
    seq: SEQ as u32,
};

fn time(secs: i64, nanos: u32) -> Time {
    Time { secs, nanos }
}

fn updates() -> [(Form, Update); 5] {
    let update = |when, left| Update { when, left };
    [
        (Form::Wide, update(When::At(time(1, 2)), 0)),
        (
            Form::Wide,
            update(When::At(time(-(1 << 39), NANOS - 1)), 255),
        ),
        (Form::Short, update(When::After(0), 15)),
        (Form::Short, update(When::After(0x4_a5a5), 200)),
        (Form::Short, update(When::After(TICKS - 1), 255)),
    ]
}

/// What a reader with that number makes of spare bytes.
fn read(
    form: Form,
    b: &[u8; UPDATE_SIZE],
    data: &[u8],
    seq: u64,
) -> Option<(Tag, bool, Option<Update>)> {
    let mut b = *b;
    let checked = Tag::check(form, b.first_chunk_mut()?, data, seq)?;
    let tag = Tag::decode(form, b.first_chunk()?)?;
    Some((tag, checked.mended, Update::decode(form, &b, SEQ)))
}

#[test]
fn the_form_of_a_new_volume_goes_by_the_spare_bytes() {
    let forms = [0, 23, 24, 37, 38, 64].map(Form::new);
    let (wide, short) = (Some(Form::Wide), Some(Form::Short));
    assert_eq!(forms, [None, None, short, short, wide, wide]);
}

/// Bytes as `docs/format.md` has them.
#[test]
fn the_bytes_of_tags() {
    let wide = TAG.encode(Form::Wide, b"data", SEQ);
    let fields = [0x1020_3040, 0xf_0e0d, 0x1234_5678, 0xf_edcb, 0xa98_7654];
    let all = fields.map(u32::to_le_bytes).concat();
    assert_eq!(wide[4..], all);
    assert_eq!(get_u32(&wide, 0), crc32c(b"data", &all));

    let update = Update {
        when: When::After(0x4_a5a5),
        left: 200,
    };
    let short = TAG.encode(Form::Short, b"data", SEQ);
    let with = update.encode(Form::Short, &TAG, b"data", SEQ);
    for (b, index, says) in [
        (&short[..], 0xf_0e0d, 0xffff),
        (&with[..SIZE], 0x5a5f_0e0d, 0x4ac8),
    ] {
        assert_eq!(get_u32(b, 2), 0x1020_3040, "file");
        assert_eq!(get_u32(b, 8), index);
        assert_eq!(get_u16(b, 12), 0x5678, "number, low");
        assert_eq!(
            get_u32(b, 14),
            0xba98_7654,
            "hash, low bits of the directory"
        );
        assert_eq!(get_u16(b, 18), says);
        assert_eq!((get_u16(b, 20), get_u16(b, 22)), (0xfedc, 0x1234));
        let covered = [
            &b[2..6],
            &b[8..12],
            &b[14..18],
            &b[20..24],
            &b[12..14],
            &b[18..20],
        ];
        let crc = u32::from(get_u16(b, 0)) | u32::from(get_u16(b, 6)) << 16;
        let high = 3u32.to_le_bytes();
        assert_eq!(crc, crc32c(b"data", &[&high, &*covered.concat()].concat()));
    }
}

#[test]
fn round_trip() {
    for form in FORMS {
        let mut b = TAG.encode(form, b"data", SEQ);
        assert_eq!(Tag::decode(form, &b), Some(TAG));
        let high = if form == Form::Short { 3 } else { 0 };
        let sound = Some(Checked {
            high,
            mended: false,
        });
        assert_eq!(Tag::check(form, &mut b, b"data", SEQ), sound);
        assert_eq!(Tag::check(form, &mut b, b"date", SEQ), None);
        assert_eq!(Tag::decode(form, &[0xff; SIZE]), None);
        let largest = Tag {
            index: u32::MAX - 16,
            ..TAG
        };
        let b = largest.encode(form, b"data", SEQ);
        assert_eq!(Tag::decode(form, &b), Some(largest));
    }
    for (form, update) in updates() {
        let b = update.encode(form, &TAG, b"data", SEQ);
        let found = read(form, &b, b"data", SEQ);
        assert_eq!(found, Some((TAG, false, Some(update))));
    }
    let b = TAG.encode(Form::Short, b"data", SEQ);
    let mut page = [0xff; UPDATE_SIZE];
    page[..SIZE].copy_from_slice(&b);
    assert_eq!(Update::decode(Form::Short, &page, SEQ), None);
    assert_eq!(Update::decode(Form::Wide, &[0xff; UPDATE_SIZE], 5), None);
}

#[test]
fn a_tag_of_data_that_was_not_looked_at() {
    let data = *b"what a file holds";
    let new = Tag {
        seq: 77,
        owner: Owner {
            dir: 3,
            ..TAG.owner
        },
        ..TAG
    };
    for form in FORMS {
        let old = TAG.encode(form, &data, SEQ);
        let mut b = new.encode_anew(form, &old);
        let (high, mended) = (if form == Form::Short { 3 } else { 0 }, false);
        let sound = Some(Checked { high, mended });
        assert_eq!(Tag::check(form, &mut b, &data, SEQ), sound, "{form:?}");
        assert_eq!(Tag::decode(form, &b), Some(new));
        assert_eq!(Tag::check(form, &mut b, b"what a file holdS", SEQ), None);
    }
    for (form, update) in updates() {
        let old = update.encode(form, &TAG, &data, SEQ);
        let mut b = new.encode_anew(form, old.first_chunk().unwrap());
        assert!(Tag::check(form, &mut b, &data, SEQ).is_some_and(|c| !c.mended));
        assert_eq!(Tag::decode(form, &b), Some(new));
    }
}

/// A chip's copy hands a flipped bit on, in the checksum. Then the new tag is right as it is, or
/// with that bit mended. And it does not look like an update.
#[test]
fn a_tag_that_is_made_anew_from_one_with_a_flipped_bit_is_believed() {
    let data: [u8; 512] = core::array::from_fn(|i| (i * 7) as u8);
    let new = Tag {
        seq: TAG.seq + 1_000,
        ..TAG
    };
    let plain = FORMS.map(|form| (form, TAG.encode(form, &data, SEQ)));
    let updates = updates().map(|(form, update)| {
        let spare = update.encode(form, &TAG, &data, SEQ);
        (form, *spare.first_chunk().unwrap())
    });
    for (form, old) in plain.into_iter().chain(updates) {
        for bit in 0..8 * SIZE {
            let mut old = old;
            old[bit / 8] ^= 1 << (bit % 8);
            let as_made = new.encode_anew(form, &old);
            let mut mended = as_made;
            let checked = Tag::check(form, &mut mended, &data, SEQ);
            assert!(checked.is_some_and(|c| c.mended), "{form:?}, bit {bit}");
            assert_eq!(Tag::decode(form, &as_made), Some(new), "bit {bit}");
            let mut spare = [0xff; UPDATE_SIZE];
            spare[..SIZE].copy_from_slice(&mended);
            let update = Update::decode(form, &spare, SEQ);
            assert_eq!(update, None, "{form:?}, bit {bit}");
        }
    }
}

/// Where no ECC covers the spare bytes, a bit that flips costs nothing.
#[test]
fn any_flipped_bit_of_any_tag_is_mended() {
    let data: [u8; 512] = core::array::from_fn(|i| (i * 7) as u8);
    for form in FORMS {
        let sound = TAG.encode(form, &data, SEQ);
        for bit in 0..8 * SIZE {
            let mut b = sound;
            b[bit / 8] ^= 1 << (bit % 8);
            let checked = Tag::check(form, &mut b, &data, SEQ);
            assert!(checked.is_some_and(|c| c.mended), "{form:?}, bit {bit}");
            assert_eq!(b, sound, "{form:?}, bit {bit}");
        }
    }
    for (form, update) in updates() {
        let sound = update.encode(form, &TAG, &data, SEQ);
        for bit in 0..8 * form.update_size() {
            let mut b = sound;
            b[bit / 8] ^= 1 << (bit % 8);
            let mended = bit < 8 * SIZE;
            let found = read(form, &b, &data, SEQ);
            assert_eq!(
                found,
                Some((TAG, mended, Some(update))),
                "{update:?}, bit {bit}"
            );
        }
    }
}

#[test]
fn two_changed_bits_of_a_tag_or_one_of_the_data_are_not_believed() {
    let mut data = *b"what a file holds";
    for form in FORMS {
        let b = TAG.encode(form, &data, SEQ);
        let bits = 8 * SIZE;
        for two in 0..bits * bits {
            let (one, other) = (two / bits, two % bits);
            let mut b = b;
            b[one / 8] ^= 1 << (one % 8);
            b[other / 8] ^= 1 << (other % 8);
            let checked = Tag::check(form, &mut b, &data, SEQ);
            assert_eq!(checked.is_some(), one == other, "bits {one} and {other}");
        }
        for bit in 0..8 * data.len() {
            data[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Tag::check(form, &mut { b }, &data, SEQ), None, "bit {bit}");
            data[bit / 8] ^= 1 << (bit % 8);
        }
    }
    for (form, update) in updates().into_iter().filter(|u| u.0 == Form::Wide) {
        let b = update.encode(form, &TAG, &data, SEQ);
        for bit in 8 * SIZE..8 * UPDATE_SIZE - 1 {
            let mut b = b;
            b[bit / 8] ^= 1 << (bit % 8);
            b[UPDATE_SIZE - 1] ^= 0x80;
            assert_eq!(Update::decode(form, &b, SEQ), None, "bit {bit}");
        }
    }
}

/// What has been at rest since before, as it may lie in a block that is to be taken.
#[test]
fn a_number_of_long_ago_is_none_of_now() {
    for (form, update) in updates() {
        let b = update.encode(form, &TAG, b"data", SEQ);
        let mut tag = *b.first_chunk().unwrap();
        let later = SEQ + (1 << 32);
        let checked = Tag::check(form, &mut tag, b"data", later).unwrap();
        match form {
            Form::Wide => assert_eq!(Update::decode(form, &b, later), None),
            Form::Short => assert_eq!(checked.high, 3),
        }
    }
    let mut b = TAG.encode(Form::Short, b"data", SEQ);
    let before = SEQ - (1 << 32);
    assert!(Tag::check(Form::Short, &mut b, b"data", before).is_none_or(|c| c.mended));
}

/// An image may say any number; to try each upper half would take a minute for a page.
#[test]
fn any_upper_half_of_a_number_is_found_at_once() {
    let most = (1 << 62) - 1;
    for seq in [0, SEQ, 0x2000_0000_1234_5678, most - 1, most] {
        let tag = Tag {
            seq: seq as u32,
            ..TAG
        };
        let high = (seq >> 32) as u32;
        let sound = tag.encode(Form::Short, b"data", seq);
        let checked = Tag::check(Form::Short, &mut { sound }, b"data", most);
        let mended = false;
        assert_eq!(checked, Some(Checked { high, mended }), "{seq:#x}");
        for bit in 0..8 * SIZE {
            let mut b = sound;
            b[bit / 8] ^= 1 << (bit % 8);
            let checked = Tag::check(Form::Short, &mut b, b"data", seq);
            assert!(checked.is_some(), "{seq:#x}, bit {bit}");
        }
    }
    let wide = TAG.encode(Form::Wide, b"data", SEQ);
    assert_eq!(Tag::check(Form::Wide, &mut { wide }, b"date", most), None);
}

#[test]
fn times_of_a_wide_tag_are_what_they_were() {
    let of = |now| When::of(Form::Wide, now, time(0, 0));
    for secs in [-1, 0, (1 << 39) - 1, -(1 << 39)] {
        let now = time(secs, NANOS - 1);
        assert_eq!(of(now), Some(When::At(now)));
        assert_eq!(When::At(now).time(time(5, 5)), now);
        assert_eq!(When::At(now).again(), When::At(now));
    }
    assert_eq!(of(time(1 << 39, 0)), None);
    assert_eq!(of(time(0, NANOS)), None);
}

#[test]
fn times_of_a_short_tag_are_since_the_change_before() {
    let before = time(7, 999_000_000);
    for (now, ticks, back) in [
        (before, 0, before),
        (time(8, 0), 0, before),
        (time(8, 2_906_249), 0, before),
        (time(8, 2_906_250), 1, time(8, 2_906_250)),
        (time(9, 0), 256, time(8, 999_000_000)),
        (time(2039, 995_093_750), TICKS - 1, time(2039, 995_093_750)),
        (time(2039, 998_999_999), TICKS - 1, time(2039, 995_093_750)),
    ] {
        let when = When::of(Form::Short, now, before);
        assert_eq!(when, Some(When::After(ticks)), "{now:?}");
        assert_eq!(when.unwrap().time(before), back, "{now:?}");
    }
    for now in [
        time(7, 998_999_999),
        time(6, 0),
        time(2039, 999_000_000),
        time(i64::MAX, 0),
        time(i64::MIN, 0),
        time(8, NANOS),
    ] {
        assert_eq!(When::of(Form::Short, now, before), None, "{now:?}");
    }
    assert_eq!(When::of(Form::Short, before, time(7, NANOS)), None);
    assert_eq!(When::of(Form::Short, time(i64::MAX, 0), time(-1, 0)), None);
    // Nobody writes that.
    let far = When::After(TICKS).time(time(i64::MAX, u32::MAX));
    assert_eq!(far.secs, i64::MAX);
    assert_eq!(When::After(9).again(), When::After(0));
}

#[test]
fn the_index_has_no_room_in_the_tag_of_an_update() {
    let last = (1 << INDEX_BITS) - 1;
    assert!(Update::holds(Form::Short, last) && !Update::holds(Form::Short, last + 1));
    assert!(Update::holds(Form::Wide, u32::MAX.into()));
}

#[test]
fn the_end_of_a_tail_is_told() {
    let when = When::At(time(1, 2));
    let mut page = [0; 512];
    page[..3].copy_from_slice(b"abc");
    for len in [3, 4, 100, 242] {
        let update = Update::tail(when, &page[..len]).unwrap();
        assert_eq!((update.len(&page), update.is_last()), (len, true));
    }
    assert_eq!(Update::tail(when, &page[..243]), None);
    assert_eq!(Update::tail(when, &[0; 9]), None);
    let whole = |left| Update { when, left };
    assert_eq!((whole(0).len(&page), whole(15).len(&page)), (512, 512));
    assert_eq!(
        [0, 1, 15, 16].map(|left| whole(left).is_last()),
        [true, false, false, true]
    );
    // Nobody writes that.
    assert_eq!(whole(255).len(&[1; 8]), 8);
}

#[test]
fn a_number_is_told_only_from_those_shortly_before() {
    let tag = |seq: u64| Tag {
        seq: seq as u32,
        ..TAG
    };
    let since = (7 << 32) - 2;
    for after in [1, 2, 3, (1 << 28) - 1] {
        let seq = since + after;
        assert_eq!(
            tag(seq).seq_after(since),
            Some(seq),
            "over the edge of 32 bits"
        );
    }
    assert_eq!(tag(since).seq_after(since), None, "it is not after itself");
    assert_eq!(tag(since - 1).seq_after(since), None);
    assert_eq!(
        tag(since + (1 << 28)).seq_after(since),
        None,
        "too long ago"
    );
    assert_eq!(
        tag(0).seq_after(u64::MAX),
        Some(u64::MAX),
        "no number is beyond all"
    );
}

#[test]
fn a_tag_of_another_page_is_not_taken_for_an_update() {
    let update = Update {
        when: When::At(time(1, 2)),
        left: 0,
    };
    let mut b = update.encode(Form::Wide, &TAG, b"data", SEQ);
    b[..SIZE].fill(8);
    assert_eq!(Update::decode(Form::Wide, &b, SEQ), None);
    let of_no_second = Update {
        when: When::At(time(1, NANOS)),
        left: 0,
    };
    let b = of_no_second.encode(Form::Wide, &TAG, b"data", SEQ);
    assert_eq!(Update::decode(Form::Wide, &b, SEQ), None);
}
