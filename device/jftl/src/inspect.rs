//! The checker.

use flashkit_bytes::get_u32;
use flashkit_nand::Nand;

use crate::error::Error;
use crate::layout::NONE;
use crate::ram::State;
use crate::state::Jftl;

impl<N: Nand> Jftl<'_, N> {
    /// Checks that the whole map can be read, that it leads to blocks that hold data, and
    /// that the table counts the owners of each block as the map does. Reads every map
    /// page twice; writes nothing.
    ///
    /// # Errors
    /// [`Error::Damaged`] names what is wrong and a page; [`Error::Flash`].
    pub fn check(&mut self) -> Result<(), Error<N::Error>> {
        let left = self.count_twice();
        // The counts are lost.
        self.latched |= left.is_err();
        match left? {
            Some(block) => Err(self.miscounted(block)),
            None => Ok(()),
        }
    }

    /// Takes each owner off the counts, and adds it again. Returns a block that
    /// had some left in between.
    fn count_twice(&mut self) -> Result<Option<u32>, Error<N::Error>> {
        self.count(-1)?;
        let mut blocks = 0..self.lay.blocks;
        let left = blocks.find(|block| matches!(self.ram.state(*block), State::Used(1..)));
        self.count(1)?;
        Ok(left)
    }

    fn miscounted(&self, block: u32) -> Error<N::Error> {
        Error::Damaged {
            what: "the count of a block's owners",
            page: block * self.lay.pages,
        }
    }

    /// Adds to the count of each page's block, for every owner there is.
    fn count(&mut self, add: i32) -> Result<(), Error<N::Error>> {
        for map_page in 0..self.lay.map_pages {
            let place = self.ram.place(map_page);
            let first = map_page * self.lay.per_page;
            let mut cached = first..first + self.lay.per_page;
            if place == NONE && !cached.any(|segment| self.ram.find(segment).is_some()) {
                continue;
            }
            self.count_one(place, add)?;
            self.fill_map_page(map_page)?;
            for at in (0..self.lay.page).step_by(4) {
                self.count_one(get_u32(self.ram.scratch, at), add)?;
            }
        }
        Ok(())
    }

    fn count_one(&mut self, page: u32, add: i32) -> Result<(), Error<N::Error>> {
        if page == NONE || self.is_open(page) {
            return Ok(());
        }
        if !self.lay.contains(page) {
            return Err(Error::Damaged {
                what: "an entry of the map",
                page,
            });
        }
        let block = self.lay.block_of(page);
        let count = match self.ram.state(block) {
            State::Used(n) => n.checked_add_signed(add),
            _ => None,
        };
        let count = count.ok_or_else(|| self.miscounted(block))?;
        self.ram.set_state(block, State::Used(count));
        Ok(())
    }
}
