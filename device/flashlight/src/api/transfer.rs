//! Volumes that are made elsewhere and written to the chip by a programmer.
//!
//! A programmer (`nandwrite`, U-Boot, a gang programmer) passes over bad blocks: block `i`
//! of the image gets into the `i`-th good block of the chip, and which are bad differs from
//! chip to chip. So the first two blocks of such an image hold no volume but a *transfer
//! record*, and the volume's block `b` is block `b + 2` of the image. Whoever opens the chip
//! for the first time writes into the record which blocks were bad then: blocks that go bad
//! later must not move anything.
//!
//! ```text
//! transfer record, page 0 of the first two blocks of the image:
//!  0         4        8        10      12         16        20      24     28     32    36
//!  +---------+--------+--------+-------+----------+---------+-------+------+------+-----+-------+
//!  | CRC-32C | "FLtr" | version| stage | page size| pages a | blocks| slack| spare| bad |bad u16|
//!  | of 4..  |        | u16    | u16   | u32      | block   | u32   | u32  | u32  | u32 | ...   |
//!  |         |        |        |       |          | u32     |       |      |      |     |       |
//!  +---------+--------+--------+-------+----------+---------+-------+------+------+-----+-------+
//! ```
//!
//! * *sent*: not opened yet. The blocks marked bad now are those that were passed over.
//! * *placed*: they are listed. The next mount must be one
//!   [after a transfer](Config::after_transfer): a programmer may have
//!   programmed pages that look erased.
//! * *settled*: such a mount is over.
//!
//! A new stage is written to the copy that does not count. It counts once it is whole: once the
//! same record is in page 1 of its block as well, which is programmed after page 0. Of two stages
//! the higher counts if its copy is whole, and else the lower. So a cut repeats what was under way,
//! and nothing rests on a page whose program was cut, or on a block whose erase was.

use crate::config::Config;
use crate::error::{Damaged, Error};
use crate::format::hash::crc32c;
use crate::format::header::{self, is_blank};
use crate::format::limits::{ROOT_BLOCKS, TRANSFER};
use crate::{FlashLight, Kind};
use flashkit_bytes::{get_u16, get_u32, put_u16, put_u32};
use flashkit_nand::{BlockAddr, Copied, Geometry, Nand, OpStatus, PageAddr, ReadStatus};

const VERSION: u16 = 1;
const LIST: usize = 36;
/// Blocks of the image before those of the volume.
const RECORDS: u32 = 2;

const SENT: u16 = 0;
const PLACED: u16 = 1;
const SETTLED: u16 = 2;

/// A chip with a volume that a programmer has written, or with any other: then all addresses stay.
pub struct Transferred<'r, N> {
    nand: N,
    /// Shape of the volume, when there is a record.
    shape: Option<Geometry>,
    /// The record, of the stage that counts.
    record: &'r mut [u8],
    /// Which of its two copies counts.
    kept: u32,
    /// Whether the other is there, and of that stage.
    both: bool,
}

/// What a record says of the chip and of the volume.
fn shapes(record: &[u8]) -> Option<(Geometry, Geometry)> {
    let word = |i: usize| get_u32(record, 12 + 4 * i);
    let [page_size, pages, blocks, slack, spare] = [0, 1, 2, 3, 4].map(word);
    let chip = Geometry::new(page_size, spare, pages, blocks).ok()?;
    let left = blocks.checked_sub(slack)?.checked_sub(RECORDS)?;
    Some((chip, Geometry::new(page_size, spare, pages, left).ok()?))
}

fn stage(record: &[u8]) -> u16 {
    get_u16(record, 10)
}

fn skipped(record: &[u8]) -> usize {
    get_u32(record, 32) as usize
}

fn listed(record: &[u8], i: usize) -> u32 {
    u32::from(get_u16(record, LIST + 2 * i))
}

/// The chip's block of a block of the image.
fn block_of(record: &[u8], block: u32) -> u32 {
    let n = skipped(record);
    // The list is sorted: each block listed up to the place moves it by one.
    let before = (0..n).take_while(|&k| listed(record, k) <= block + k as u32);
    block + before.count() as u32
}

/// Whether a page holds an intact record, its list sorted and within the slack.
fn is_record(page: &[u8]) -> bool {
    if get_u32(page, 4) != TRANSFER || get_u16(page, 8) != VERSION || stage(page) > SETTLED {
        return false;
    }
    let n = skipped(page);
    if n > (page.len() - LIST) / 2 || n > get_u32(page, 24) as usize {
        return false;
    }
    let ascending = (1..n).all(|i| listed(page, i - 1) < listed(page, i));
    ascending
        && (n == 0 || listed(page, n - 1) < get_u32(page, 20))
        && get_u32(page, 0) == crc32c(&page[4..LIST + 2 * n], &[])
        && shapes(page).is_some()
}

/// Which copy of the record a page is, if it is one: page 0 of a block that is in the image's first
/// or second place. `good` blocks are before it. A file may hold records too.
fn copy(page: &[u8], block: BlockAddr, good: u32) -> Option<u32> {
    if !is_record(page) {
        None
    } else if stage(page) == SENT {
        (good < RECORDS).then_some(good)
    } else {
        (0..RECORDS).find(|&i| block_of(page, i) == block.0)
    }
}

/// Sets the stage and the checksum; gives the record's length.
fn seal(record: &mut [u8], stage: u16) -> usize {
    let len = LIST + 2 * skipped(record);
    put_u16(record, 10, stage);
    let crc = crc32c(&record[4..len], &[]);
    put_u32(record, 0, crc);
    len
}

/// Makes the first page of an image, as it was read from a chip without bad blocks, one that is
/// sent to another chip. The same for the first page of its second block. Gives the blocks that the
/// image may have. `None`: it is no such page, or its blocks were placed around bad ones already.
pub fn send(page: &mut [u8]) -> Option<u32> {
    if page.len() < LIST || !is_record(page) || skipped(page) > 0 {
        return None;
    }
    seal(page, SENT);
    Some(get_u32(page, 20) - get_u32(page, 24))
}

/// Whether the chip holds a volume that a programmer has written: a mount that does not look for a
/// record finds nothing there. `ram` is a page. Two reads.
///
/// # Errors
/// [`Error::Driver`], [`Error::RamTooSmall`].
pub fn is_transferred<N: Nand>(nand: &mut N, ram: &mut [u8]) -> Result<bool, Error<N::Error>> {
    let geo = nand.geometry();
    let page = page_of(ram, &geo)?;
    let mut good = 0;
    for block in (0..geo.blocks()).map(BlockAddr) {
        if good == RECORDS {
            break;
        }
        if nand.is_bad(block).map_err(Error::Driver)? {
            continue;
        }
        good += 1;
        let read = nand.read(geo.page(block, 0), 0, page, &mut []);
        if read.map_err(Error::Driver)?.is_readable() && get_u32(page, 4) == TRANSFER {
            return Ok(true);
        }
    }
    Ok(false)
}

impl<'r, N: Nand> Transferred<'r, N> {
    /// Begins an image: writes the record for a chip of this shape of which up to `slack` blocks
    /// may be bad, and of whose spare bytes the volume uses the first `spare`. It is made on a
    /// chip without bad blocks. The volume is then formatted on what this returns. `ram` is a
    /// page. Two erases and two programs.
    ///
    /// # Errors
    /// [`Error::Geometry`]: too few blocks are left, or more slack than a page can list.
    /// [`Error::TooManyBad`] when the chip has bad blocks, [`Error::RamTooSmall`].
    pub fn begin(
        mut nand: N,
        ram: &'r mut [u8],
        slack: u32,
        spare: u32,
    ) -> Result<Self, Error<N::Error>> {
        let geo = nand.geometry();
        let record = page_of(ram, &geo)?;
        let listable = (record.len() - LIST) / 2;
        if slack as usize > listable || geo.blocks() > 1 << 16 || spare > geo.spare_size() {
            return Err(Error::Geometry);
        }
        record.fill(0);
        put_u32(record, 4, TRANSFER);
        put_u16(record, 8, VERSION);
        let fields = [
            geo.page_size(),
            geo.pages_per_block(),
            geo.blocks(),
            slack,
            spare,
        ];
        for (i, v) in fields.into_iter().enumerate() {
            put_u32(record, 12 + 4 * i, v);
        }
        let (_, shape) = shapes(record).ok_or(Error::Geometry)?;
        for block in 0..geo.blocks() {
            if nand.is_bad(BlockAddr(block)).map_err(Error::Driver)? {
                return Err(Error::TooManyBad(1));
            }
        }
        let mut chip = Transferred {
            nand,
            shape: Some(shape),
            record,
            kept: 0,
            both: false,
        };
        seal(chip.record, SETTLED);
        let done = [chip.put(0, SETTLED)?, chip.put(1, SETTLED)?];
        if done == [false; 2] {
            let at = chip.chip_page_of(0, 0);
            return Err(Error::Corrupt(at, Damaged::Transfer));
        }
        chip.kept = u32::from(!done[0]);
        chip.both = done[0] && done[1];
        Ok(chip)
    }

    /// A chip without a record: nothing is looked for.
    pub fn never(nand: N) -> Self {
        Transferred {
            nand,
            shape: None,
            record: &mut [],
            kept: 0,
            both: false,
        }
    }

    /// Looks for a record. `ram` is a page. One read on a chip with a volume of its own, two
    /// for a record, and up to 64 on a chip that is erased; until it is placed, every block
    /// is asked whether it is bad.
    ///
    /// # Errors
    /// [`Error::Geometry`]: made for another chip. [`Error::TooManyBad`]: more blocks are bad than
    /// the image was made for. [`Error::RamTooSmall`].
    pub fn open(mut nand: N, ram: &'r mut [u8]) -> Result<Self, Error<N::Error>> {
        let geo = nand.geometry();
        let record = page_of(ram, &geo)?;
        let found = find(&mut nand, record)?;
        let mut chip = Transferred {
            nand,
            shape: None,
            record,
            kept: 0,
            both: false,
        };
        let Some((kept, both)) = found else {
            return Ok(chip);
        };
        let (made_for, shape) = shapes(chip.record).ok_or(Error::Geometry)?;
        let fits = made_for.page_size() == geo.page_size()
            && made_for.pages_per_block() == geo.pages_per_block()
            && made_for.blocks() == geo.blocks()
            && made_for.spare_size() <= geo.spare_size();
        if !fits {
            return Err(Error::Geometry);
        }
        if stage(chip.record) == SENT {
            chip.list()?;
        }
        chip.shape = Some(shape);
        (chip.kept, chip.both) = (kept, both);
        Ok(chip)
    }

    /// Lists the blocks that are bad.
    fn list(&mut self) -> Result<(), Error<N::Error>> {
        let (blocks, slack) = (self.nand.geometry().blocks(), get_u32(self.record, 24));
        let room = (self.record.len() - LIST) / 2;
        let mut n = 0;
        for block in 0..blocks {
            if self.nand.is_bad(BlockAddr(block)).map_err(Error::Driver)? {
                if n < room {
                    put_u16(self.record, LIST + 2 * n, block as u16);
                }
                n += 1;
            }
        }
        if n > room || n as u32 > slack {
            return Err(Error::TooManyBad(n as u32));
        }
        put_u32(self.record, 32, n as u32);
        Ok(())
    }

    /// Makes it durable which blocks were passed over, before anything else is written. To be
    /// called before a volume is mounted to be changed. `true`: that mount must be one [after a
    /// transfer](Config::after_transfer), and [`Transferred::settle`] follow it. An erase and two
    /// programs the first time; later none, or one of each for a copy of the record that cannot
    /// be read.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn place(&mut self) -> Result<bool, Error<N::Error>> {
        if self.shape.is_none() {
            return Ok(false);
        }
        match stage(self.record) {
            SENT => _ = self.change(PLACED)?,
            SETTLED if !self.both => self.both = self.put(1 - self.kept, SETTLED)?,
            _ => {}
        }
        Ok(stage(self.record) != SETTLED)
    }

    /// Ends the transfer, once a mount after it has succeeded. Two erases and three programs.
    ///
    /// When a copy of the record cannot be written, the stage stays, and each mount is one after
    /// the transfer: the last copy is never erased.
    ///
    /// # Errors
    /// As [`Transferred::place`].
    pub fn settle(&mut self) -> Result<(), Error<N::Error>> {
        if self.shape.is_some() && stage(self.record) == PLACED && self.change(SETTLED)? {
            self.both = self.put(1 - self.kept, SETTLED)?;
        }
        Ok(())
    }

    /// Writes the other copy, which counts from then on. `false`: it fails.
    fn change(&mut self, new: u16) -> Result<bool, Error<N::Error>> {
        let done = self.put(1 - self.kept, new)?;
        if done {
            self.kept = 1 - self.kept;
            self.both = false;
            seal(self.record, new);
        }
        Ok(done)
    }

    /// Writes a copy, of this stage. `false`: its block fails.
    fn put(&mut self, copy: u32, new: u16) -> Result<bool, Error<N::Error>> {
        let (counts, at) = (stage(self.record), self.chip_page_of(copy, 0));
        let block = self.nand.geometry().block_of(at);
        if self.nand.is_bad(block).map_err(Error::Driver)? {
            return Ok(false);
        }
        let len = seal(self.record, new);
        // One that is like the copy that counts need not count.
        let pages = 1 + u32::from(new != counts);
        let mut done = self.nand.erase(block).map_err(Error::Driver)? == OpStatus::Done;
        for page in (at.0..at.0 + pages).map(PageAddr) {
            let program = |nand: &mut N| nand.program(page, &self.record[..len], &[]);
            done = done && program(&mut self.nand).map_err(Error::Driver)? == OpStatus::Done;
        }
        seal(self.record, counts);
        if !done && counts != SENT {
            self.nand.mark_bad(block).map_err(Error::Driver)?;
        }
        self.nand.flush().map_err(Error::Driver)?;
        Ok(done)
    }

    /// Whether the volume came with a transfer record.
    pub fn is_transferred(&self) -> bool {
        self.shape.is_some()
    }

    /// Whether the record is settled: no mount after the transfer is due.
    pub fn is_settled(&self) -> bool {
        self.shape.is_none() || stage(self.record) == SETTLED
    }

    /// Blocks that were bad when the image came, passed over for good.
    pub fn skipped(&self) -> impl Iterator<Item = u32> + '_ {
        let n = self.shape.map_or(0, |_| skipped(self.record));
        (0..n).map(|i| listed(self.record, i))
    }

    /// Blocks that may have been bad.
    pub fn slack(&self) -> u32 {
        self.shape.map_or(0, |_| get_u32(self.record, 24))
    }

    /// The chip's page of a page of the volume.
    pub fn chip_page(&self, page: PageAddr) -> PageAddr {
        if self.shape.is_none() {
            return page;
        }
        let pages = self.nand.geometry().pages_per_block();
        self.chip_page_of(page.0 / pages + RECORDS, page.0 % pages)
    }

    /// The chip's block of a block of the volume.
    pub fn chip_block(&self, block: BlockAddr) -> BlockAddr {
        let geo = self.nand.geometry();
        geo.block_of(self.chip_page(PageAddr(block.0 * geo.pages_per_block())))
    }

    /// The chip's page of a page of a block of the image.
    fn chip_page_of(&self, block: u32, index: u32) -> PageAddr {
        let block = BlockAddr(block_of(self.record, block));
        self.nand.geometry().page(block, index)
    }

    /// The chip.
    pub fn inner(&self) -> &N {
        &self.nand
    }

    /// The chip, for what does not change its contents.
    pub fn inner_mut(&mut self) -> &mut N {
        &mut self.nand
    }

    /// The chip.
    pub fn into_inner(self) -> N {
        self.nand
    }
}

fn page_of<'r, E>(ram: &'r mut [u8], geo: &Geometry) -> Result<&'r mut [u8], Error<E>> {
    let needed = geo.page_size() as usize;
    ram.get_mut(..needed).ok_or(Error::RamTooSmall(needed))
}

/// The copy of the record that counts, and whether the other is there and of the same stage. That
/// copy is in `page` afterwards. A FlashLight root page in its place says that there is none.
fn find<N: Nand>(nand: &mut N, page: &mut [u8]) -> Result<Option<(u32, bool)>, Error<N::Error>> {
    let geo = nand.geometry();
    let mut copies: [Option<(u16, PageAddr)>; 2] = [None; 2];
    let (mut good, mut others) = (0, 0);
    let mut held = PageAddr::NONE;
    for block in (0..geo.blocks().min(ROOT_BLOCKS)).map(BlockAddr) {
        if copies.iter().all(Option::is_some) || others == 2 {
            break;
        }
        if nand.is_bad(block).map_err(Error::Driver)? {
            continue;
        }
        good += 1;
        held = geo.page(block, 0);
        let status = nand.read(held, 0, page, &mut []).map_err(Error::Driver)?;
        if !status.is_readable() {
            continue;
        }
        if let Some(i) = copy(page, block, good - 1) {
            copies[i as usize] = Some((stage(page), held));
        } else if header::parse(page, held).is_ok_and(|h| h.kind == Kind::Root) {
            break;
        } else if !is_blank(page) {
            others += 1;
        }
    }
    let mut read = |at, page: &mut [u8]| {
        let status = nand.read(at, 0, page, &mut []).map_err(Error::Driver)?;
        Ok((status.is_readable() && is_record(page)).then(|| stage(page)))
    };
    let (kept, both) = match copies {
        [None, None] => return Ok(None),
        [Some((a, first)), Some((b, second))] if a != b => {
            let (high, at) = if a > b { (0, first) } else { (1, second) };
            held = PageAddr(at.0 + 1);
            let is_whole = read(held, page)? == Some(a.max(b));
            (if is_whole { high } else { 1 - high }, false)
        }
        [first, second] => (
            u32::from(second.is_some()),
            first.is_some() && second.is_some(),
        ),
    };
    if let Some((expected, at)) = copies[kept as usize]
        && at != held
        && read(at, page)? != Some(expected)
    {
        // It could be read before, and rots.
        return Err(Error::Corrupt(at, Damaged::Transfer));
    }
    Ok(Some((kept, both)))
}

impl<N: Nand> Nand for Transferred<'_, N> {
    type Error = N::Error;

    fn geometry(&self) -> Geometry {
        self.shape.unwrap_or_else(|| self.nand.geometry())
    }

    fn correctable_bits(&self) -> u32 {
        self.nand.correctable_bits()
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, N::Error> {
        self.nand.read(self.chip_page(page), offset, data, spare)
    }

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, N::Error> {
        let page = self.chip_page(page);
        self.nand.read_used(page, data, head, used)
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, N::Error> {
        self.nand.program(self.chip_page(page), data, spare)
    }

    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        self.nand.copies(self.chip_page(from), self.chip_page(to))
    }

    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, N::Error> {
        let (from, to) = (self.chip_page(from), self.chip_page(to));
        self.nand.copy(from, to, spare, page)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, N::Error> {
        self.nand.erase(self.chip_block(block))
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, N::Error> {
        self.nand.is_bad(self.chip_block(block))
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), N::Error> {
        if !self.is_settled() {
            // As long as a copy that says *sent* may be believed, a mark could move everything
            // behind it. The volume knows its bad blocks, and marks them at a later mount.
            let other = self.chip_page_of(1 - self.kept, 0);
            let other = self.nand.geometry().block_of(other);
            if stage(self.record) == SENT || !self.nand.is_bad(other)? {
                return Ok(());
            }
        }
        self.nand.mark_bad(self.chip_block(block))
    }

    fn flush(&mut self) -> Result<(), N::Error> {
        self.nand.flush()
    }
}

impl<'r, N: Nand> FlashLight<'r, Transferred<'r, N>> {
    /// Mounts what a programmer may have written, or any other volume: what a board calls that is
    /// flashed in production. `page` is a page of RAM beside that of the volume. The first mount
    /// that may write costs what one after a power cut does, and three erases and five programs;
    /// later ones one read, or two, more than [`FlashLight::mount`].
    ///
    /// # Errors
    /// As [`Transferred::open`] and [`FlashLight::mount`].
    pub fn mount_transferred(
        nand: N,
        page: &'r mut [u8],
        ram: &'r mut [u8],
        config: Config,
    ) -> Result<Self, Error<N::Error>> {
        let mut chip = Transferred::open(nand, page)?;
        let after_transfer = !config.read_only && chip.place()?;
        let config = Config {
            after_transfer,
            ..config
        };
        let mut mounted = FlashLight::mount(chip, ram, config);
        if after_transfer
            && let Ok(fs) = &mut mounted
            && let Err(e) = fs.nand_mut().settle()
        {
            mounted = Err(e);
        }
        mounted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashkit_sim::{ChipSpec, Rng, SimNand, preset};

    /// Whatever a record says that passes for one: each block of the volume is one of the chip,
    /// none twice and none that was passed over.
    #[test]
    fn every_intact_record_is_safe() {
        let timing = ChipSpec::from(preset("slc-256m").unwrap()).timing();
        let geo = Geometry::new(1024, 24, 16, 96).unwrap();
        let mut opened = 0;
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let mut page = [0; 1024];
            let near = |rng: &mut Rng, v: u32| match rng.below(12) {
                0 => rng.next_u64() as u32,
                1 => v.wrapping_add(rng.below(5) as u32).wrapping_sub(2),
                _ => v,
            };
            put_u32(&mut page, 4, TRANSFER);
            put_u16(&mut page, 8, VERSION);
            let n = rng.below(6) as u32;
            for (i, v) in [1024, 16, 96, 6, 24, n].into_iter().enumerate() {
                let v = near(&mut rng, v);
                put_u32(&mut page, 12 + 4 * i, v);
            }
            let mut last = 0;
            for i in 0..n as usize {
                last += rng.below(24) as u16;
                put_u16(&mut page, LIST + 2 * i, last);
            }
            let listed = skipped(&page).min((page.len() - LIST) / 2);
            put_u16(&mut page, 10, near(&mut rng, 2) as u16);
            let crc = crc32c(&page[4..LIST + 2 * listed], &[]);
            put_u32(&mut page, 0, crc);
            let mut chip = SimNand::new(ChipSpec::new(geo, timing));
            chip.erase(BlockAddr(0)).unwrap();
            chip.program(PageAddr(0), &page, &[]).unwrap();
            let mut ram = [0; 1024];
            let Ok(chip) = Transferred::open(chip, &mut ram) else {
                continue;
            };
            let Some(shape) = chip.shape else { continue };
            opened += 1;
            let mut before = None;
            for block in (0..shape.blocks()).map(BlockAddr) {
                let at = chip.chip_block(block).0;
                assert!(
                    at < 96 && before < Some(at),
                    "seed {seed}: {block:?} is {at}"
                );
                assert!(chip.skipped().all(|s| s != at), "seed {seed}: {at}");
                before = Some(at);
            }
        }
        assert!(opened > 1_000, "{opened}");
    }
}
