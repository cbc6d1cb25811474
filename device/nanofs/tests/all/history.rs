//! Histories of one card, cut again and again, in recoveries as well: files come and go, grow in
//! turn, are overwritten and cut on cards that are nearly full, through buffers of one, two or four
//! blocks. What a cut leaves is what the next session begins with. Once more it is mounted while a
//! read fails, and the one after it.
//!
//! `NANOFS_HISTORIES=n` has so many; a failure prints its seed, and `NANOFS_HISTORY=seed` repeats
//! it.

use crate::common::{KEY, formatted, read_tree, some_len};
use crate::powercut::{CUTS, Files, Op, Run, verify};
use crate::read_errors::FailsTwice;
use flashkit_block::BlockDevice;
use flashkit_nanofs::NanoFs;
use flashkit_sim::{CARD_BLOCK, CardLog, Rng, SimCard};

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What a card holds.
fn held(card: &SimCard) -> Files {
    let mut fs: NanoFs<SimCard> = NanoFs::new(card.clone());
    fs.mount(KEY).unwrap();
    let named = |(name, data): (String, Vec<u8>)| (name["file".len()..].parse().unwrap(), data);
    read_tree(&mut fs).unwrap().into_iter().map(named).collect()
}

/// Blocks that cannot be read can be read from now on, and hold anything.
fn forget_unreadable(card: &mut SimCard, rng: &mut Rng) {
    for block in 0..card.sector_count() {
        let mut bytes = [0; CARD_BLOCK];
        if card.read(block, &mut bytes).is_err() {
            rng.fill(&mut bytes);
            card.write(block, &bytes).unwrap();
        }
    }
}

/// Something that can be done now.
fn draw<const N: usize>(run: &Run<N>, rng: &mut Rng, most: u8) -> Op {
    let file = rng.below(u64::from(most)) as u8;
    let is_open = run.handles.contains_key(&file);
    let Some(len) = run.files.get(&file).map(Vec::len) else {
        return match rng.below(3) {
            0 => Op::Sync,
            _ => Op::Create(file),
        };
    };
    match rng.below(24) {
        0..=7 => Op::Append(file, some_len(rng, 4_000)),
        8..=11 => {
            let at = rng.below(len as u64 + 1) as usize;
            Op::Write(file, at, some_len(rng, 2_500))
        }
        12 | 13 => {
            let at = rng.below(len as u64 + 1) as usize;
            Op::Truncate(file, if rng.one_in(3) { at / 500 * 500 } else { at })
        }
        14 | 15 if is_open => Op::Close(file),
        16 if !is_open => Op::Delete(file),
        17 => {
            let to = rng.below(u64::from(most)) as u8;
            match run.files.contains_key(&to) {
                true => Op::Clean(400),
                false => Op::Rename(file, to),
            }
        }
        18 | 19 => Op::Clean(rng.below(600) as u32),
        _ => Op::Sync,
    }
}

fn history<const N: usize>(seed: u64) {
    let mut rng = Rng::new(seed);
    let most = 1 + rng.below(5) as u8;
    let mut card = formatted(30 + rng.below(220) as u32, u32::from(most));
    let mut tag = 0;
    for session in 0..10 {
        let mut run = Run::<N>::new(card.clone());
        (run.files, run.tag) = (held(&card), tag);
        let first = run.fs.device().len();
        let (mut steps, mut before) = (Vec::new(), Vec::new());
        for _ in 0..1 + rng.below(14) {
            let op = draw(&run, &mut rng, most);
            if matches!(op, Op::Create(_)) {
                // What was deleted counts until it is cleaned.
                before.push(run.files.clone());
                steps.push(run.step(Op::Clean(100_000)));
            }
            before.push(run.files.clone());
            steps.push(run.step(op));
        }
        tag = run.tag;
        let log = run.fs.into_device();
        let at = first + rng.below((log.len() - first).max(1) as u64) as usize;
        let Some(i) = steps.iter().position(|step| at < step.end) else {
            continue;
        };
        if !log.can_cut(at) {
            continue;
        }
        let cut = CUTS[rng.below(CUTS.len() as u64) as usize];
        let (op, told) = (steps[i].op, log.describe(at));
        let mut what = format!("NANOFS_HISTORY={seed}: session {session}, {op:?}, {told}, {cut:?}");
        card = log.after(at, cut);
        for _ in 0..rng.below(3) {
            let mut fs: NanoFs<CardLog, N> = NanoFs::new(CardLog::new(card.clone()));
            fs.mount(KEY).unwrap_or_else(|e| panic!("{what}: {e:?}"));
            let log = fs.into_device();
            if log.is_empty() {
                break;
            }
            let at = rng.below(log.len() as u64) as usize;
            if log.can_cut(at) {
                let cut = CUTS[rng.below(CUTS.len() as u64) as usize];
                what += &format!("; then {at}, {}, {cut:?}", log.describe(at));
                card = log.after(at, cut);
            }
        }
        verify(card.clone(), &before[i], &steps[i], &what);
        let read = 1 + rng.below(40) as u32;
        let mut fs: NanoFs<FailsTwice, N> = NanoFs::new(FailsTwice::new(card.clone(), read));
        let what = format!("{what}; read {read} of the mount fails");
        fs.mount(KEY).unwrap_or_else(|e| panic!("{what}: {e:?}"));
        verify(fs.into_device().card, &before[i], &steps[i], &what);
        forget_unreadable(&mut card, &mut rng);
        // Mostly as a mount has left it.
        if !rng.one_in(3) {
            let mut fs: NanoFs<SimCard, N> = NanoFs::new(card);
            fs.mount(KEY).unwrap();
            card = fs.into_device();
        }
    }
}

#[test]
fn cards_live_through_cut_after_cut() {
    let seeds = match env("NANOFS_HISTORY") {
        Some(seed) => seed..seed + 1,
        None => 0..env("NANOFS_HISTORIES").unwrap_or(250),
    };
    for seed in seeds {
        let history = match seed % 3 {
            0 => history::<3>,
            1 => history::<4>,
            _ => history::<6>,
        };
        if std::panic::catch_unwind(|| history(seed)).is_err() {
            panic!("NANOFS_HISTORY={seed}");
        }
    }
}
