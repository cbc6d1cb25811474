//! What the image prints: a word and numbers in a line.

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub word: String,
    pub numbers: Vec<u32>,
}

impl Told {
    /// The numbers, if there are so many.
    pub fn numbers<const N: usize>(&self) -> Result<[u32; N], String> {
        let numbers = self.numbers.clone().try_into();
        numbers.map_err(|_| format!("the image says {self:?}"))
    }
}

/// The lines of what was printed. One that has no end is left out.
pub fn lines(printed: &str) -> Vec<Told> {
    let Some((whole, _)) = printed.rsplit_once('\n') else {
        return Vec::new();
    };
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers = words.iter().rev().map_while(|word| word.parse().ok());
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.reverse();
        let word = words[..words.len() - numbers.len()].join(" ");
        Told { word, numbers }
    };
    whole.split('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers() {
        let told = lines("formatted\nslot 3 40 44\nno chip 0\nsynced 12");
        let words: Vec<_> = told.iter().map(|told| &told.word[..]).collect();
        assert_eq!(words, ["formatted", "slot", "no chip"]);
        assert_eq!(told[1].numbers(), Ok([3, 40, 44]));
        assert!(told[1].numbers::<2>().is_err());
        assert_eq!(lines("syn"), []);
    }
}
