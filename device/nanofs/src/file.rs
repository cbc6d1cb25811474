//! What a program does with files.

use flashkit_block::BlockDevice;

use crate::block::{BLOCK, NODE_DATA, NUMBER, bytes, clear};
use crate::header::{
    BLOCKS, COUNT, EPOCH, FILE, FILES, FLAGS, FORMAT_VERSION, ID, KEY, MAGIC, NAFS, NAME, NAME_LEN,
    NAME_MAX, NEXT, OPEN, SALT, TRASH_COUNT, TRASH_HEAD, TRASH_NEXT, TRASH_TOP, UID, USED, VERSION,
};
use crate::map::TO_RESERVED;
use crate::store::HEADER;
use crate::{Error, HANDLES, NONE, NanoFs, Open, Result, SEEK_END};

/// An open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub u32);

/// A file in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its size in bytes.
    pub size: u32,
    /// A number that no other file has at the same time.
    pub id: u32,
}

impl<D: BlockDevice, const N: usize> NanoFs<D, N> {
    /// What a handle stands for. `BadHandle` if it is not in use.
    #[inline(never)]
    fn handle(&mut self, handle: Handle) -> &mut Open {
        let i = handle.0.min(HANDLES as u32) as usize;
        if self.open[i].slot == 0 {
            self.fail(Error::BadHandle);
        }
        &mut self.open[i]
    }

    /// Makes the file of a handle the one in RAM; gives the handle's position, and the file's size.
    #[inline(never)]
    fn load_handle(&mut self, handle: Handle) -> (u32, u32) {
        let Open { pos, slot, .. } = *self.handle(handle);
        self.load(slot.into());
        (pos, self.file_size())
    }

    /// Bytes in the file in RAM.
    #[inline(always)]
    fn file_size(&self) -> u32 {
        self.get(COUNT)
            .wrapping_mul(NODE_DATA)
            .wrapping_add(self.get(USED))
    }

    #[inline(always)]
    fn name(&self) -> &[u8] {
        let bytes: &[u8] = bytemuck::cast_slice(&self.mem[HEADER]);
        let n = self.get(NAME_LEN).min(NAME_MAX as u32) as usize;
        bytes.get(NAME..NAME + n).unwrap_or_default()
    }

    /// Whether that is its name.
    #[inline(always)]
    fn is_named(&self, name: &[u8]) -> bool {
        let held = self.name();
        let mut i = 0;
        while i < name.len() && held.get(i) == name.get(i) {
            i += 1;
        }
        i == held.len() && i == name.len()
    }

    #[inline(never)]
    fn set_name(&mut self, name: &[u8]) {
        let bytes = bytes(&mut self.mem[HEADER]);
        for (i, byte) in name.iter().enumerate() {
            bytes[(NAME + i) % BLOCK] = *byte;
        }
        self.set(NAME_LEN, name.len() as u32);
    }

    /// Looks for a name: gives its slot, or 0. One of both is `refused`: `NotFound` or `Exists`.
    /// `free` becomes a slot with a header that is free, or 0. The file in RAM is left.
    #[inline(never)]
    fn find(&mut self, name: &[u8], refused: Error) -> u32 {
        if name.is_empty() {
            self.fail(Error::BadName);
        }
        if name.len() > NAME_MAX {
            self.fail(Error::NameTooLong);
        }
        if !self.ok() {
            return 0;
        }
        self.evict();
        self.free = 0;
        let mut slot = 0;
        loop {
            slot += 1;
            if slot >= self.end {
                slot = 0;
                break;
            }
            if slot != self.spare {
                self.fetch_slot(slot);
                if self.get(FLAGS) & FILE != 0 {
                    if self.is_named(name) {
                        break;
                    }
                } else if !self.has_trash() {
                    self.free = slot as u16;
                }
            }
        }
        if (slot == 0) == (refused == Error::NotFound) {
            self.fail(refused);
        }
        slot
    }

    /// A handle that is not in use. `TooManyOpen`.
    #[inline(never)]
    fn free_handle(&mut self) -> usize {
        let i = self.handle_of(0);
        if i == HANDLES {
            self.fail(Error::TooManyOpen);
        }
        i
    }

    /// Opens the file of a slot.
    #[inline(never)]
    fn give_handle(&mut self, slot: u32) -> Result<Handle> {
        let i = self.free_handle();
        let left = self.left_by(slot) as u16;
        let slot = slot as u16;
        if self.ok() {
            self.open[i % HANDLES] = Open { pos: 0, slot, left };
        }
        self.value(i as u32).map(Handle)
    }

    /// Opens a file; the position is its start. Costs a read for each header that is looked at.
    ///
    /// # Errors
    /// `NotFound`, `NameTooLong`, `BadName`, `TooManyOpen`.
    pub fn open(&mut self, name: &[u8]) -> Result<Handle> {
        let slot = self.find(name, Error::NotFound);
        self.give_handle(slot)
    }

    /// Makes an empty file and opens it. It is durable when the call returns. Costs a read for
    /// each header and one write.
    ///
    /// # Errors
    /// `Exists`, `NameTooLong`, `BadName`, `TooManyOpen`; `TooManyFiles`, perhaps because of
    /// deleted ones that are not cleaned yet.
    pub fn create(&mut self, name: &[u8]) -> Result<Handle> {
        self.find(name, Error::Exists);
        self.free_handle();
        let mut slot = self.free.into();
        if slot == 0 {
            slot = self.end;
            if slot > self.files + 1 {
                self.fail(Error::TooManyFiles);
            }
        }
        if self.ok() {
            if self.free != 0 {
                // Its id goes on.
                self.fetch_slot(slot);
            } else {
                // The ids in use are as many as the headers: one less than the slots.
                self.set(ID, slot.wrapping_sub(2));
                self.end = slot + 1;
            }
            self.new_header();
            self.set(FLAGS, FILE);
            let uid = self.seq.wrapping_add(1);
            self.set(UID, uid);
            self.set(EPOCH, 1);
            self.set_name(name);
            self.slot = slot;
            self.write_header();
        }
        self.give_handle(self.slot)
    }

    /// A header of the volume that says nothing yet but its id.
    #[inline(never)]
    pub(crate) fn new_header(&mut self) {
        let id = self.number(HEADER, ID);
        clear(&mut self.mem[HEADER]);
        self.set(ID, id);
        self.set(MAGIC, NAFS);
        self.set(VERSION, FORMAT_VERSION);
        self.set(KEY, self.key);
        self.set(BLOCKS, self.blocks);
        self.set(FILES, self.files);
        self.set(SALT, self.salt);
    }

    #[inline(always)]
    fn is_open(&self, slot: u32) -> bool {
        self.handle_of(slot) < HANDLES
    }

    /// Closes a file. After the last close of a file that was written its header is exact, so that
    /// the next mount need not look further: at most a node, a block of the bitmap, a tail and a
    /// header are written.
    ///
    /// # Errors
    /// `BadHandle`. After an error of the medium the handle is closed, and the data as after a
    /// power cut.
    pub fn close(&mut self, handle: Handle) -> Result<()> {
        self.load_handle(handle);
        self.handle(handle).slot = 0;
        if self.ok() && self.get(FLAGS) & OPEN != 0 && !self.is_open(self.slot) {
            self.save();
            self.write_closed();
        }
        self.end()
    }

    /// Writes a header that is exact; nothing waits in the buffer.
    #[inline(never)]
    pub(crate) fn write_closed(&mut self) {
        self.map_store();
        self.set(FLAGS, self.get(FLAGS) & !OPEN);
        self.write_header();
    }

    /// Bytes in the file.
    pub fn size(&mut self, handle: Handle) -> Result<u32> {
        let (_, size) = self.load_handle(handle);
        self.value(size)
    }

    /// Sets the position of the next read or write; [`SEEK_END`] is the end of the file at that
    /// time; to find it costs what bringing the file to RAM costs.
    ///
    /// # Errors
    /// `BadHandle`. A position beyond the end is reported by the write that follows.
    pub fn seek(&mut self, handle: Handle, mut pos: u32) -> Result<()> {
        if pos == SEEK_END {
            (_, pos) = self.load_handle(handle);
        }
        if self.ok() {
            self.handle(handle).pos = pos;
        }
        self.end()
    }

    /// The position of the next read or write.
    pub fn position(&mut self, handle: Handle) -> Result<u32> {
        let pos = self.handle(handle).pos;
        self.value(pos)
    }

    /// Reads from the position on; gives how many bytes, which are fewer than asked for only at
    /// the end of the file. Costs one read a node in order, and at most 45 for any other place.
    ///
    /// # Errors
    /// `BadNode`: what was to be read is damaged; never wrong data.
    pub fn read(&mut self, handle: Handle, out: &mut [u8]) -> Result<u32> {
        let mut done = 0;
        loop {
            let (pos, size) = self.load_handle(handle);
            if done >= out.len() || pos >= size || !self.ok() {
                break;
            }
            let index = (pos / NODE_DATA).min(self.get(COUNT));
            let mut end = NODE_DATA;
            if index == self.get(COUNT) {
                self.load_tail();
                end = self.get(USED);
            } else {
                self.find_node(index);
            }
            if !self.ok() {
                break;
            }
            let mut pos = pos;
            let mut at = pos - index * NODE_DATA;
            while at < end && done < out.len() {
                out[done] = self.byte(at);
                at += 1;
                pos += 1;
                done += 1;
            }
            self.handle(handle).pos = pos;
        }
        self.value(done as u32)
    }

    /// Writes at the position, which may be at most the end of the file.
    ///
    /// Bytes behind the last whole node cost one write a node, and two more for 512 nodes. Bytes of
    /// whole nodes are overwritten by new nodes and one header: 10,000 bytes or fewer are one
    /// atomic step, with what they change of the tail. Each node so overwritten is written once
    /// more, in [`NanoFs::clean`] or when 21 of the file's nodes have been overwritten.
    ///
    /// # Errors
    /// `BeyondEnd`; `Full`: the position tells how much was written.
    pub fn write(&mut self, handle: Handle, mut data: &[u8]) -> Result<()> {
        // Bytes that were left when it was cleaned last: it may make room again for others.
        let mut cleaned = usize::MAX;
        while !data.is_empty() && self.ok() {
            let (pos, size) = self.load_handle(handle);
            let mut rest = data;
            if pos > size {
                self.fail(Error::BeyondEnd);
            }
            self.write_some(pos, &mut rest);
            if self.ok() {
                self.handle(handle).pos = pos + (data.len() - rest.len()) as u32;
                data = rest;
            } else if data.len() < cleaned && self.forgive(Error::Full) {
                cleaned = data.len();
                self.clean_some(NONE);
            }
        }
        self.end()
    }

    /// Writes at the end of the file.
    pub fn append(&mut self, handle: Handle, data: &[u8]) -> Result<()> {
        self.seek(handle, SEEK_END)?;
        self.write(handle, data)
    }

    /// Writes the tail, makes it a node if it is full, or overwrites nodes.
    #[inline(always)]
    fn write_some(&mut self, pos: u32, data: &mut &[u8]) {
        self.touch();
        let offset = pos.wrapping_sub(self.get(COUNT).wrapping_mul(NODE_DATA));
        if offset <= NODE_DATA {
            self.load_tail();
        }
        if !self.ok() {
            return;
        }
        if offset > NODE_DATA {
            self.rewrite(pos, data);
        } else if offset == NODE_DATA {
            self.push();
        } else {
            let used = offset + self.patch(offset, NODE_DATA, data);
            self.set(USED, self.get(USED).max(used));
            self.tail_changed = true;
        }
    }

    /// Before the file in RAM is changed: its header says that it may be.
    #[inline(never)]
    fn touch(&mut self) {
        let flags = self.get(FLAGS);
        if flags & OPEN == 0 && self.ok() {
            self.set(FLAGS, flags | OPEN);
            self.write_header();
        }
    }

    /// Cuts the file to `size` bytes, in one atomic step. Costs two reads a level of the list, a
    /// tail and a header, at most a block of the bitmap, and what is left of an earlier cut. The
    /// nodes cut off are given up later, by [`NanoFs::clean`].
    ///
    /// # Errors
    /// `BeyondEnd`: the file is shorter.
    pub fn truncate(&mut self, handle: Handle, size: u32) -> Result<()> {
        let (_, held) = self.load_handle(handle);
        if size > held {
            self.fail(Error::BeyondEnd);
        }
        self.touch();
        self.load_tail();
        if self.ok() {
            let start = self.get(COUNT) * NODE_DATA;
            if size >= start {
                self.set(USED, size - start);
                self.tail_changed = true;
            } else {
                self.settle(NONE);
                self.put_away();
                self.cut(size / NODE_DATA, size % NODE_DATA);
            }
        }
        self.end()
    }

    /// Cuts nodes off, from `index` on; `used` bytes of the first of them are the new tail.
    fn cut(&mut self, index: u32, used: u32) {
        self.trash(index + 1);
        if index > 0 {
            self.walk(index - 1, true);
        }
        self.find_node(index);
        // The last node that stays points to this block, so the next one goes there again.
        let next = self.node_block();
        self.move_to_front();
        // The tail is valid with the header that comes last.
        self.set(NEXT, next);
        self.set(COUNT, index);
        self.set(USED, used);
        self.begin_epoch();
        self.write_tail();
        self.forget_buffer();
        self.write_header();
        self.mark(next, TO_RESERVED);
    }

    /// Nodes from `index` on are to be given up, and the block that was promised.
    #[inline(never)]
    fn trash(&mut self, index: u32) {
        self.set(TRASH_HEAD, self.newest());
        self.set(TRASH_TOP, self.get(COUNT));
        self.set(TRASH_COUNT, self.get(COUNT).saturating_sub(index));
        self.set(TRASH_NEXT, self.get(NEXT));
        self.set(NEXT, 0);
    }

    /// Deletes a file, in one atomic step. Costs a read for each header that is looked at, what
    /// is left of an earlier cut, at most a block of the bitmap, and one write; the blocks are
    /// given up later, by [`NanoFs::clean`].
    ///
    /// # Errors
    /// `NotFound`, `Busy`.
    pub fn delete(&mut self, name: &[u8]) -> Result<()> {
        let slot = self.find(name, Error::NotFound);
        if self.is_open(slot) {
            self.fail(Error::Busy);
        }
        if self.ok() {
            self.load(slot);
            self.settle(NONE);
            self.trash(0);
            self.set(FLAGS, 0);
            self.write_closed();
            self.forget();
        }
        self.end()
    }

    /// Gives a file another name, in one atomic step.
    ///
    /// # Errors
    /// `NotFound`; `Exists`: nothing is replaced.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        self.find(to, Error::Exists);
        let slot = self.find(from, Error::NotFound);
        if self.ok() {
            self.load(slot);
            self.set_name(to);
            self.write_header();
        }
        self.end()
    }

    /// Goes on to the file behind the cursor, which starts at 0 and becomes 0 behind the last one.
    /// [`NanoFs::entry`] tells of it. Files that are made or written meanwhile may be missed or
    /// come twice. Behind any number that is no cursor there is no file. Costs what bringing its
    /// header to RAM costs.
    pub fn next_file(&mut self, mut cursor: u32) -> Result<u32> {
        self.evict();
        loop {
            if cursor >= self.end.wrapping_sub(1) {
                return self.value(0);
            }
            cursor += 1;
            if cursor != self.spare {
                self.load(cursor);
                // What leaving it would do later: its header may move to a
                // slot that is still to come.
                self.shorten();
                if !self.forgive(Error::NotFound) && self.slot <= cursor {
                    return self.value(cursor);
                }
                self.forget();
            }
        }
    }

    /// The file that [`NanoFs::next_file`] has found, as long as nothing else was called.
    #[inline]
    pub fn entry(&self) -> Entry<'_> {
        Entry {
            name: self.name(),
            size: self.file_size(),
            id: self.number(HEADER, ID) & NUMBER,
        }
    }
}
