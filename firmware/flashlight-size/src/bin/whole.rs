//! Every call of a volume, on a chip that a programmer may have written. Not among them: `inspect`,
//! which reads records without a volume, on the host.

#![no_std]
#![no_main]

use core::hint::black_box;

use flashkit_flashlight::transfer::Transferred;
use flashkit_flashlight::{
    Area, Config, FileRef, FlashLight, New, Node, Page, ROOT_DIR, SetAttr, SetXattr, Special, Time,
    Visitor, ram_for_table, ram_to_level, ram_useful,
};
use flashkit_nand::{Nand, PageAddr};
use flashlight_size::{Chip, keep, ram, stop};

type Volume = FlashLight<'static, Transferred<'static, Chip>>;

struct Look;

impl Visitor for Look {
    fn page(&mut self, page: Page) {
        black_box(page);
    }

    fn problem(&mut self, page: PageAddr, ino: u32, what: &'static str) {
        black_box((page, ino, what));
    }
}

fn in_use(ino: u32) -> bool {
    black_box(ino) == 0
}

fn names(fs: &mut Volume, name: &[u8], now: Time) -> FileRef {
    let new: New = black_box(New::default());
    let node = keep(fs.create(ROOT_DIR, name, &new));
    keep(fs.create_special(ROOT_DIR, name, Special::Char(black_box(1)), &new));
    keep(fs.symlink(ROOT_DIR, name, name, &new));
    keep(fs.mkdir(ROOT_DIR, name, &new));
    keep(fs.lookup(ROOT_DIR, name));
    keep(fs.resolve(name));
    keep(fs.parent(black_box(ROOT_DIR)));
    keep(fs.rename(
        ROOT_DIR,
        name,
        ROOT_DIR,
        name,
        black_box(true),
        &in_use,
        now,
    ));
    keep(fs.exchange((ROOT_DIR, name), (ROOT_DIR, name), now));
    keep(fs.readdir(ROOT_DIR, black_box(0), &mut |entry| {
        black_box(entry).cookie == 0
    }));
    keep(fs.unlink(ROOT_DIR, name, &in_use, now));
    keep(fs.rmdir(ROOT_DIR, name, now));
    let Node::File(file) = node else { stop() };
    keep(fs.link(file, ROOT_DIR, name, now));
    keep(fs.reap(file));
    file
}

fn contents(fs: &mut Volume, file: FileRef, now: Time) {
    let mut bytes = black_box([0; 100]);
    keep(fs.write(file, black_box(0), &bytes, now));
    keep(fs.read(file, black_box(0), &mut bytes));
    keep(fs.readlink(file, &mut bytes));
    keep(fs.truncate(file, black_box(0), now));
    keep(fs.punch(file, black_box(0), black_box(0), now));
    keep(fs.next_data(file, black_box(0)));
    keep(fs.next_hole(file, black_box(0)));
    black_box(fs.file_size_max());
}

fn attributes(fs: &mut Volume, node: Node, name: &[u8], now: Time) {
    let mut bytes = black_box([0; 100]);
    let set: SetAttr = black_box(SetAttr::default());
    keep(fs.getattr(node));
    keep(fs.setattr(node, &set));
    keep(fs.set_xattr(node, name, &bytes, black_box(SetXattr::Any), now));
    keep(fs.xattr(node, name, &mut bytes));
    keep(fs.xattrs(node, &mut |name| {
        black_box(name);
    }));
    keep(fs.remove_xattr(node, name, now));
}

fn volume(fs: &mut Volume, node: Node) {
    keep(fs.fsync(node));
    keep(fs.sync());
    keep(fs.gc(black_box(16)));
    keep(fs.scrub(black_box(16)));
    keep(fs.walk(&mut Look));
    keep(fs.repair());
    keep(fs.repair_counts(&|page| (black_box(page).0 == 0).then_some(Area::Data)));
    black_box(fs.block_state(black_box(0)));
    black_box(fs.listed_valid(PageAddr(black_box(0))));
    black_box((
        fs.dirty_blocks(),
        fs.ram_use(),
        fs.live_pages(),
        fs.statfs(),
    ));
    black_box((fs.lost_change(), fs.pages_before_cleaning()));
    black_box((
        fs.is_recovered(),
        fs.recovery_lasts(),
        fs.volume(),
        fs.written(),
    ));
    black_box((fs.nand().geometry(), fs.nand_mut().correctable_bits()));
    keep(fs.close());
}

#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let now: Time = black_box(Time::default());
    let name: &[u8] = black_box(b"name");
    let geometry = black_box(Chip.geometry());
    black_box([ram_for_table, ram_to_level, ram_useful].map(|ram| ram(&geometry)));
    let (memory, record) = ram();
    let config: Config = black_box(Config::default());
    let image = keep(Transferred::begin(
        Chip,
        record,
        black_box(8),
        black_box(24),
    ));
    let root: New = black_box(New::default());
    keep(FlashLight::format_with(
        image,
        memory,
        black_box(1),
        &root,
        config,
    ));
    let (memory, record) = ram();
    let mut fs = keep(FlashLight::mount_transferred(Chip, record, memory, config));
    let file = names(&mut fs, name, now);
    contents(&mut fs, file, now);
    attributes(&mut fs, Node::File(file), name, now);
    volume(&mut fs, Node::File(file));
    keep(fs.unmount());
    stop()
}
