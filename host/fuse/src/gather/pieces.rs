//! Bytes of a file that are held back, in pieces.

use std::collections::BTreeMap;

/// No piece crosses a multiple of this. Pages of flash are as long, or it is a multiple of theirs:
/// so two pieces share a page only if there is a gap between them.
pub(super) const CHUNK: u64 = 64 << 10;

/// What a piece takes beside its bytes: its place among the others, and what memory is given out
/// in.
const PIECE_MEMORY: usize = 96;

/// Pieces of a file, by their offsets. They do not overlap, and none touches another of its chunk.
#[derive(Default)]
pub(super) struct Pieces {
    pieces: BTreeMap<u64, Vec<u8>>,
    bytes: usize,
}

impl Pieces {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes in all of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the last one ends; 0 without one.
    pub(super) fn end(&self) -> u64 {
        let last = self.pieces.last_key_value();
        last.map_or(0, |(at, piece)| at + piece.len() as u64)
    }

    /// Bytes of memory, about.
    pub(super) fn memory(&self) -> usize {
        self.bytes + self.pieces.len() * PIECE_MEMORY
    }

    /// The piece that begins there.
    pub(super) fn get(&self, at: u64) -> Option<&[u8]> {
        self.pieces.get(&at).map(Vec::as_slice)
    }

    /// Where the first piece begins that begins at or behind an offset, or the very first.
    pub(super) fn next(&self, offset: u64) -> Option<u64> {
        let behind = self.pieces.range(offset..).next();
        let (at, _) = behind.or_else(|| self.pieces.first_key_value())?;
        Some(*at)
    }

    /// Where the first piece begins that ends behind an offset.
    pub(super) fn behind(&self, offset: u64) -> Option<u64> {
        let before = self.pieces.range(..offset).next_back();
        let around = before.filter(|(at, piece)| *at + piece.len() as u64 > offset);
        let (at, _) = around.or_else(|| self.pieces.range(offset..).next())?;
        Some(*at)
    }

    /// Where the piece ends that holds the byte at an offset, if one does.
    pub(super) fn end_of(&self, offset: u64) -> Option<u64> {
        let (at, piece) = self.pieces.range(..=offset).next_back()?;
        Some(at + piece.len() as u64).filter(|end| *end > offset)
    }

    pub(super) fn remove(&mut self, at: u64) -> Vec<u8> {
        let piece = self.pieces.remove(&at).unwrap_or_default();
        self.bytes -= piece.len();
        piece
    }

    /// Takes bytes up, over what is held there.
    pub(super) fn put(&mut self, mut offset: u64, mut data: &[u8]) {
        while !data.is_empty() {
            let room = (CHUNK - offset % CHUNK) as usize;
            let (part, rest) = data.split_at(room.min(data.len()));
            self.put_in_chunk(offset, part);
            offset += part.len() as u64;
            data = rest;
        }
    }

    fn put_in_chunk(&mut self, offset: u64, data: &[u8]) {
        let (chunk, end) = (offset / CHUNK * CHUNK, offset + data.len() as u64);
        let before = self.pieces.range(chunk..=offset).next_back();
        let start = match before {
            Some((at, piece)) if at + piece.len() as u64 >= offset => *at,
            _ => offset,
        };
        // What begins in the new bytes, or right behind them, becomes part of the piece.
        let touched: Vec<u64> = (self.pieces.range(offset + 1..=end))
            .map(|(at, _)| *at)
            .filter(|at| *at > start && *at < chunk + CHUNK)
            .collect();
        let mut tail = Vec::new();
        for at in touched {
            let piece = self.pieces.remove(&at).unwrap_or_default();
            self.bytes -= piece.len();
            let hidden = (end - at) as usize;
            tail.extend_from_slice(piece.get(hidden..).unwrap_or_default());
        }
        let piece = self.pieces.entry(start).or_default();
        self.bytes -= piece.len();
        let at = (offset - start) as usize;
        let over = data.len().min(piece.len() - at);
        piece[at..at + over].copy_from_slice(&data[..over]);
        piece.extend_from_slice(&data[over..]);
        piece.extend_from_slice(&tail);
        self.bytes += piece.len();
    }

    /// Copies what is held of a range over what is in `buf`; whether that is all of it.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> bool {
        let end = offset + buf.len() as u64;
        let before = self.pieces.range(..=offset).next_back();
        let from = before.map_or(offset, |(at, _)| *at);
        let mut copied = 0;
        for (&at, piece) in self.pieces.range(from..end) {
            let first = at.max(offset);
            let last = end.min(at + piece.len() as u64);
            if first < last {
                let held = &piece[(first - at) as usize..(last - at) as usize];
                buf[(first - offset) as usize..(last - offset) as usize].copy_from_slice(held);
                copied += held.len();
            }
        }
        copied == buf.len()
    }

    /// Drops what is behind the new end of the file.
    pub(super) fn cut(&mut self, size: u64) {
        for (_, piece) in self.pieces.split_off(&size) {
            self.bytes -= piece.len();
        }
        if let Some(mut last) = self.pieces.last_entry() {
            let keep = (size - last.key()) as usize;
            let piece = last.get_mut();
            self.bytes -= piece.len().saturating_sub(keep);
            piece.truncate(keep);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashkit_sim::Rng;

    /// Against a plain array, with what is not held as `None`.
    #[test]
    fn what_is_put_is_read_and_no_byte_is_counted_twice() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut pieces = Pieces::default();
            let mut held = vec![None; 3 * CHUNK as usize];
            for step in 0..200u32 {
                let longest = [10, 3_000, 2 * CHUNK][rng.below(3) as usize];
                let offset = rng.below(held.len() as u64 - 1) as usize;
                let len = (1 + rng.below(longest) as usize).min(held.len() - offset);
                let range = offset..offset + len;
                match rng.below(12) {
                    0 => {
                        pieces.cut(offset as u64);
                        held[offset..].fill(None);
                    }
                    1 => {
                        if let Some(at) = pieces.next(offset as u64) {
                            let first = at as usize;
                            held[first..first + pieces.remove(at).len()].fill(None);
                        }
                    }
                    _ => {
                        pieces.put(offset as u64, &vec![step as u8; len]);
                        held[range.clone()].fill(Some(step as u8));
                    }
                }
                let mut read = vec![99; len];
                let whole = pieces.read(offset as u64, &mut read);
                let expected: Vec<u8> = held[range.clone()]
                    .iter()
                    .map(|b| b.unwrap_or(99))
                    .collect();
                assert!(read == expected, "seed {seed}, step {step}");
                assert_eq!(
                    whole,
                    held[range].iter().all(Option::is_some),
                    "seed {seed}"
                );
                let first = held[offset..].iter().position(Option::is_some);
                let behind = pieces.behind(offset as u64);
                assert_eq!(
                    behind.is_some(),
                    first.is_some(),
                    "seed {seed}, step {step}"
                );
                if let (Some(at), Some(first)) = (behind, first) {
                    let all = pieces.get(at).unwrap().len();
                    let piece = at as usize..at as usize + all;
                    assert!(
                        piece.contains(&(offset + first)),
                        "seed {seed}, step {step}"
                    );
                }
                if step % 20 > 0 {
                    continue;
                }
                let bytes = held.iter().flatten().count();
                assert_eq!(pieces.bytes(), bytes, "seed {seed}, step {step}");
                let end = held
                    .iter()
                    .rposition(Option::is_some)
                    .map_or(0, |at| at + 1);
                assert_eq!(pieces.end(), end as u64, "seed {seed}, step {step}");
            }
        }
    }

    #[test]
    fn bytes_that_touch_are_one_piece_within_a_chunk() {
        let mut pieces = Pieces::default();
        for at in [0, 200, 100, 300] {
            pieces.put(at, &[1; 100]);
        }
        assert_eq!((pieces.count(), pieces.bytes()), (1, 400));
        pieces.put(CHUNK - 10, &[2; 20]);
        assert_eq!((pieces.count(), pieces.end()), (3, CHUNK + 10));
        assert_eq!(pieces.next(1), Some(CHUNK - 10));
        assert_eq!(pieces.next(CHUNK + 1), Some(0));
        assert_eq!(pieces.get(0), Some(&[1; 400][..]));
        assert_eq!(pieces.get(1), None);
    }
}
