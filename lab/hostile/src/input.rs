//! Inputs as the fuzzer sees them: a head of three bytes, then edits, then steps, each of a fixed
//! length, so that a mutation of one leaves the others alone.

/// Bytes of an edit.
pub(crate) const EDIT: usize = 10;
/// Bytes of a step.
pub(crate) const STEP: usize = 6;
/// Bytes before the edits: image, flags, number of edits.
pub(crate) const HEAD: usize = 3;
/// Edits and steps at most: what is beyond is ignored.
pub(crate) const EDITS_MAX: usize = 12;
const STEPS_MAX: usize = 40;

/// The parts of an input.
pub(crate) struct Input<'a> {
    pub image: u8,
    pub flags: u8,
    pub edits: Vec<&'a [u8; EDIT]>,
    pub steps: Vec<&'a [u8; STEP]>,
}

impl<'a> Input<'a> {
    pub fn parse(bytes: &'a [u8]) -> Option<Input<'a>> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let (edits, _) = rest.as_chunks::<EDIT>();
        let edits = &edits[..edits.len().min(usize::from(head[2]) % (EDITS_MAX + 1))];
        let (steps, _) = rest[edits.len() * EDIT..].as_chunks::<STEP>();
        Some(Input {
            image: head[0],
            flags: head[1],
            edits: edits.iter().collect(),
            steps: steps.iter().take(STEPS_MAX).collect(),
        })
    }

    /// Half of the images stay as they are, for targets that ask more of those: mutations bring
    /// edits far more often than they take the last.
    pub fn half_sound(mut self) -> Input<'a> {
        if self.image >= 128 {
            self.edits.clear();
        }
        self
    }
}

/// A small generator for mutations.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        if n == 0 {
            0
        } else {
            (self.0 >> 11) as usize % n
        }
    }
    fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }
}

/// Changes an input of `size` bytes in place, as a custom mutator of libFuzzer does: whole edits
/// and steps come, go, are copied, or have one of their bytes changed. Returns the new size.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut chance = Chance(u64::from(seed) << 1 | 1 << 40 | 1);
    let input = data[..size.min(max_size)].to_vec();
    let (mut head, mut edits, mut steps) = match Input::parse(&input) {
        Some(input) => (
            [input.image, input.flags],
            input.edits.into_iter().copied().collect::<Vec<_>>(),
            input.steps.into_iter().copied().collect::<Vec<_>>(),
        ),
        None => ([0; 2], Vec::new(), Vec::new()),
    };
    for _ in 0..=chance.below(3) {
        match chance.below(16) {
            0 => head[chance.below(2)] = chance.byte(),
            1..=9 => change(&mut edits, EDITS_MAX, &mut chance),
            _ => change(&mut steps, STEPS_MAX, &mut chance),
        }
    }
    let mut out = vec![head[0], head[1], edits.len() as u8];
    out.extend(edits.iter().flatten());
    out.extend(steps.iter().flatten());
    let size = out.len().min(max_size).min(data.len());
    data[..size].copy_from_slice(&out[..size]);
    size
}

fn change<const N: usize>(list: &mut Vec<[u8; N]>, most: usize, chance: &mut Chance) {
    let at = chance.below(list.len());
    match chance.below(8) {
        0 | 1 if list.len() < most => {
            let mut new = [0; N];
            new.iter_mut().for_each(|byte| *byte = chance.byte());
            list.insert(chance.below(list.len() + 1), new);
        }
        2 if list.len() < most && !list.is_empty() => {
            let copy = list[at];
            list.insert(chance.below(list.len() + 1), copy);
        }
        3 if !list.is_empty() => {
            list.remove(at);
        }
        4 if list.len() > 1 => list.swap(at, 0),
        _ if !list.is_empty() => {
            let byte = &mut list[at][chance.below(N)];
            *byte = match chance.below(4) {
                0 => byte.wrapping_add(1),
                1 => byte.wrapping_sub(1),
                2 => *byte ^ 1 << chance.below(8),
                _ => chance.byte(),
            };
        }
        _ => list.push([0; N].map(|_: u8| chance.byte())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_keep_to_their_bounds_and_do_something() {
        let mut data = vec![0; 400];
        let mut size = 0;
        let mut seen = std::collections::HashSet::new();
        for seed in 0..2_000 {
            size = mutate(&mut data, size, 300, seed);
            assert!((HEAD..=300).contains(&size));
            seen.insert(data[..size].to_vec());
        }
        assert!(seen.len() > 1_500, "{}", seen.len());
    }
}
