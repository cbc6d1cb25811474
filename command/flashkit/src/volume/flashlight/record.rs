//! The fields of each kind of record, as JSON.

use flashkit_flashlight::inspect::{
    Checkpoint, Dir, EntryState, File, FileEntry, FileName, InodeFields, NameEntry, Record,
    Reserved, Snapshot, Target,
};
use flashkit_flashlight::{BlockState, Time};
use flashkit_nand::{Geometry, PageAddr};
use serde_json::{Value, json};

/// What a record holds, but for its header. Entries are arrays of objects.
pub fn fields(record: &Record<'_>, geometry: &Geometry) -> Value {
    match record {
        Record::Root(root) => json!({
            "page_size": root.page_size,
            "spare_size": root.spare_size,
            "pages_per_block": root.pages_per_block,
            "blocks": root.blocks,
            "second_level_block": root.second,
            "last_root": root.last_root,
            "round": root.round,
            "good_blocks": root.good,
        }),
        Record::Second { leaf } => json!({ "leaf_block": leaf }),
        Record::Checkpoint(checkpoint) => of_checkpoint(checkpoint),
        Record::Alloc(alloc) => json!({ "taken": alloc.blocks().map(taken).collect::<Value>() }),
        Record::Snapshot(snapshot) => of_snapshot(snapshot, geometry),
        Record::Table(page) => json!({
            "number": page.number(),
            "entries": runs(page.states().zip(0..).map(|(state, entry)| (entry, state))),
        }),
        Record::Validity(page) => json!({
            "blocks": page
                .blocks()
                .map(|(block, valid)| json!({ "block": block, "valid_at_most": valid }))
                .collect::<Value>(),
        }),
        Record::DirMap(map) => json!({
            "directories": map.dirs().map(place).collect::<Value>(),
        }),
        Record::Places(places) => json!({
            "pages": places.dirs().map(place).collect::<Value>(),
        }),
        Record::Dir(dir) => of_dir(dir),
        Record::File(file) => of_file(file),
        Record::HashMap(map) => {
            let mut told = of_map(map.owner(), map.range());
            told["entries"] = map.names().map(|e| name_entry(&e)).collect();
            told
        }
        Record::ExtentMap(map) => {
            let mut told = of_map(map.owner(), map.range());
            told["entries"] = map.extents().map(file_entry).collect();
            told
        }
        Record::HashIndex(map) => {
            let mut told = of_map(map.owner(), map.range());
            told["pointers"] = pointers("hash", map.pointers());
            told
        }
        Record::ExtentIndex(map) => {
            let mut told = of_map(map.owner(), map.range());
            told["pointers"] = pointers("index", map.pointers());
            told["waiting"] = map.waiting().map(file_entry).collect();
            told
        }
        Record::Names(map) => {
            let (ino, dir, hash) = map.owner();
            let names = map.file_names().map(file_name).collect::<Value>();
            json!({ "ino": ino, "dir": dir, "hash": hash, "names": names })
        }
        Record::Attributes(map) => {
            let (ino, dir, hash) = map.owner();
            let attributes = map.attributes().map(attribute).collect::<Value>();
            json!({ "ino": ino, "dir": dir, "hash": hash, "attributes": attributes })
        }
    }
}

fn of_dir(dir: &Dir<'_>) -> Value {
    let mut told = of_inode(&dir.fields());
    told["pointers"] = pointers("hash", dir.pointers());
    told["entries"] = dir.entries().map(|e| name_entry(&e)).collect();
    told
}

fn of_file(file: &File<'_>) -> Value {
    let mut told = of_inode(&file.fields());
    let mut names = file.names().map(file_name).peekable();
    if names.peek().is_some() {
        told["names"] = names.collect();
    }
    if let Some((index, offset, bytes)) = file.fragment() {
        told["fragment"] = json!({ "index": index, "offset": offset, "bytes": bytes.len() });
    }
    told["pointers"] = pointers("index", file.pointers());
    told["entries"] = file.entries().map(file_entry).collect();
    told
}

fn place((number, page): (u32, PageAddr)) -> Value {
    json!({ "position": number, "page": page.0 })
}

fn attribute((name, value): (&[u8], &[u8])) -> Value {
    json!({ "name": String::from_utf8_lossy(name), "bytes": value.len() })
}

fn taken(reserved: Reserved) -> Value {
    json!({ "block": reserved.block, "area": reserved.area })
}

fn of_checkpoint(checkpoint: &Checkpoint<'_>) -> Value {
    let (root, second) = (checkpoint.root(), checkpoint.second());
    json!({
        "clean": checkpoint.is_clean(),
        "confirmed": checkpoint.is_confirmed(),
        "wide_directory_map": checkpoint.is_wide(),
        "copy_of": checkpoint.copy_of(),
        "root_round": root.0,
        "root_pages": root.1,
        "second_level_block": second.0,
        "second_level_pages": second.1,
        "next_leaves": checkpoint.next_leaves().collect::<Vec<_>>(),
        "directory_copies": checkpoint.dir_copies().map(|page| page.0).collect::<Vec<_>>(),
        "failing_blocks": checkpoint.failing().collect::<Vec<_>>(),
        "next_file": checkpoint.next_file(),
        "next_directory": checkpoint.next_dir(),
        "live_pages": checkpoint.live_pages(),
        "orphans": checkpoint.orphans(),
        "cursor": checkpoint.cursor(),
        "snapshot_pages": checkpoint.snapshot_pages().map(|page| page.0).collect::<Vec<_>>(),
        "table_pages": checkpoint
            .table_pages()
            .map(|(number, page)| json!({ "number": number, "page": page.0 }))
            .collect::<Value>(),
        "table_changes": runs(checkpoint.table_changes()),
        "bitmap_blocks": checkpoint.bitmap_blocks().collect::<Vec<_>>(),
        "heads": checkpoint
            .heads()
            .map(|h| json!({ "area": h.area, "block": h.block, "next_page": h.next }))
            .collect::<Value>(),
        "reserved": checkpoint.reserved().map(taken).collect::<Value>(),
        "dirty_list": checkpoint
            .dirty_list()
            .map(|(block, valid)| json!({ "block": block, "valid_pages": valid }))
            .collect::<Value>(),
    })
}

/// Runs of blocks in one state.
fn runs(states: impl Iterator<Item = (u32, BlockState)>) -> Value {
    let mut runs: Vec<(u32, u32, BlockState)> = Vec::new();
    for (block, state) in states {
        match runs.last_mut() {
            Some(run) if run.2 == state && run.1 + 1 == block => run.1 = block,
            _ => runs.push((block, block, state)),
        }
    }
    let run = |(first, last, state): (u32, u32, BlockState)| {
        let mut told = json!({ "first": first, "last": last });
        let (name, valid) = match state {
            BlockState::Meta(valid) => ("meta", Some(valid)),
            BlockState::Data(valid) => ("data", Some(valid)),
            BlockState::System => ("system", None),
            BlockState::Bad => ("bad", None),
            BlockState::Dead => ("dead", None),
            BlockState::Free => ("free", None),
            BlockState::Clean => ("free and erased", None),
        };
        told["state"] = name.into();
        if let Some(valid) = valid {
            told["valid_pages"] = valid.into();
        }
        told
    };
    runs.into_iter().map(run).collect()
}

fn of_snapshot(snapshot: &Snapshot<'_>, geometry: &Geometry) -> Value {
    let partial = snapshot
        .partial_blocks()
        .filter(|(block, _)| *block < geometry.blocks());
    json!({
        "first_byte": snapshot.from(),
        "coded": snapshot.is_coded(),
        "blocks": runs(snapshot.states()),
        "map_pages": snapshot
            .map_pages()
            .map(|(number, page)| json!({ "number": number, "page": page.0 }))
            .collect::<Value>(),
        "unfinished_blocks": partial
            .map(|(block, next)| json!({ "block": block, "next_page": next }))
            .collect::<Value>(),
        "deferred_changes": snapshot
            .deferred()
            .map(|(directory, records)| json!({ "directory": directory, "records": records }))
            .collect::<Value>(),
    })
}

fn of_inode(inode: &InodeFields<'_>) -> Value {
    let time = |t: Time| json!(t.secs as f64 + f64::from(t.nanos) / 1e9);
    let mut told = json!({
        "ino": inode.ino,
        "parent": inode.parent,
        "name": String::from_utf8_lossy(inode.name),
        "mode": format!("{:o}", inode.mode),
        "uid": inode.uid,
        "gid": inode.gid,
        "nlink": inode.nlink,
        "size": inode.size,
        "atime": time(inode.atime),
        "mtime": time(inode.mtime),
        "ctime": time(inode.ctime),
    });
    for (name, set) in [
        ("indirect", inode.indirect),
        ("orphan", inode.orphan),
        ("kept", inode.kept),
    ] {
        if set {
            told[name] = true.into();
        }
    }
    if let Some((dir, hash)) = inode.moved_from {
        told["moved_from"] = json!({ "dir": dir, "hash": hash });
    }
    if let Some((kind, pointer)) = inode.replaced {
        told["ends_life_of"] = target(kind, pointer);
    }
    if let Some(page) = inode.attributes {
        told["attributes"] = page.0.into();
    }
    if inode.levels > 0 {
        told["levels"] = inode.levels.into();
    }
    told
}

fn of_map(owner: (u32, u32, u32), range: (u32, u32)) -> Value {
    let (ino, dir, hash) = owner;
    let end = (range.1 != u32::MAX).then_some(range.1);
    json!({ "ino": ino, "dir": dir, "hash": hash, "first_key": range.0, "end_key": end })
}

fn pointers(key: &str, pointers: impl Iterator<Item = (u32, PageAddr)>) -> Value {
    pointers
        .map(|(first, page)| json!({ key: first, "page": page.0 }))
        .collect()
}

fn target(kind: Target, pointer: u32) -> Value {
    match kind {
        Target::File => json!({ "file_page": pointer }),
        Target::Dir => json!({ "directory": pointer }),
        Target::Indirect => json!({ "file": pointer }),
        Target::Orphan => json!({ "nameless_page": pointer }),
    }
}

fn name_entry(entry: &NameEntry) -> Value {
    let state = match entry.state {
        EntryState::New => "new",
        EntryState::Update => "update",
        EntryState::Delete => "delete",
        EntryState::Freed => "freed",
        EntryState::Gone => "gone",
    };
    let mut told = json!({ "state": state });
    if entry.state != EntryState::Freed {
        told["hash"] = entry.hash.into();
    }
    if let (Value::Object(told), Value::Object(of)) =
        (&mut told, target(entry.target, entry.pointer))
    {
        told.extend(of);
    }
    told
}

fn file_name(name: FileName<'_>) -> Value {
    match name {
        FileName::Name { dir, name } => {
            json!({ "parent": dir, "name": String::from_utf8_lossy(name) })
        }
        FileName::Page(page) => json!({ "page": page.0 }),
    }
}

fn file_entry(entry: FileEntry) -> Value {
    match entry {
        FileEntry::Extent {
            index,
            page,
            count,
            masks,
            covers,
        } => {
            let mut entry = json!({ "index": index, "page": page.0, "count": count });
            for (flag, set) in [("masks", masks), ("covers", covers)] {
                if set {
                    entry[flag] = true.into();
                }
            }
            entry
        }
        FileEntry::FreedRun { page, count } => json!({ "freed_page": page.0, "count": count }),
        FileEntry::FreedMap { page } => json!({ "freed_map": page.0 }),
        FileEntry::Removed { page } => json!({ "removed": page.0 }),
        FileEntry::ReplacedMap {
            old,
            new,
            with_page,
        } => {
            let mut entry = json!({ "replaced_map": old.0, "by_map": new.0 });
            if with_page {
                entry["freed_page"] = old.0.into();
            }
            entry
        }
    }
}
