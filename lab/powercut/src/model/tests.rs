//! What the model allows and what it does not.

use std::collections::BTreeMap;

use super::{Entry, Model};
use crate::content::fill;
use crate::op::{Op, parse};
use crate::seen::{Seen, SeenDir, SeenFile};

const PAGE: usize = 1024;

/// A model after operations; the last one is still at work if `at_work`.
fn model(text: &str, at_work: bool) -> Model {
    let mut model = Model::new(PAGE);
    let ops: Vec<Op> = parse(text).unwrap();
    for (i, op) in ops.iter().enumerate() {
        assert!(model.begin(op), "{op}");
        if i + 1 < ops.len() || !at_work {
            model.finish(op);
        }
    }
    model
}

/// The tree that a volume shows which nothing happens to.
fn now(model: &Model) -> SeenDir {
    dir_now(model, 0)
}

fn dir_now(model: &Model, d: usize) -> SeenDir {
    let names = model.dirs[d].names.now().iter().map(|(name, entry)| {
        let seen = match *entry {
            Entry::Dir(d) => Seen::Dir(dir_now(model, d)),
            Entry::File(f) => Seen::File(SeenFile {
                ino: 100 + f as u64,
                what: model.files[f].what,
                attrs: model.files[f].states.now().attrs.clone(),
                content: model.files[f].content.clone(),
            }),
        };
        (name.clone(), seen)
    });
    SeenDir {
        attrs: model.dirs[d].attrs.now().clone(),
        names: names.collect::<BTreeMap<_, _>>(),
    }
}

fn file<'a>(tree: &'a mut SeenDir, name: &str) -> &'a mut SeenFile {
    match tree.names.get_mut(name) {
        Some(Seen::File(file)) => file,
        _ => panic!("no file {name}"),
    }
}

fn refused(model: &Model, tree: &SeenDir) -> String {
    model.allows(tree).unwrap_err()
}

const WRITTEN: &str = "create a; write a 0 2500";

#[test]
fn the_present_is_always_allowed() {
    for text in [
        WRITTEN,
        "mkdir d; create d/a; link d/a b; rename d/a c; chmod b 600; truncate c 7",
        "symlink s 3000; mkdir d; rename d e; rmdir e; unlink s; sync",
    ] {
        for at_work in [true, false] {
            let model = model(text, at_work);
            assert_eq!(model.allows(&now(&model)), Ok(()), "{text}");
        }
    }
}

#[test]
fn nothing_may_be_lost_that_is_durable() {
    let before = now(&model("sync", false));
    assert_eq!(model(WRITTEN, false).allows(&before), Ok(()));
    for durable in ["fsync a", "fsync /", "sync", "rename a b", "remount"] {
        let model = model(&format!("{WRITTEN}; {durable}"), false);
        assert!(refused(&model, &before).contains("file lost"), "{durable}");
    }
    let synced = model(&format!("{WRITTEN}; fsync a"), false);
    let old = now(&model("create a", false));
    assert!(refused(&synced, &old).contains("file is back at state 0"));
    let in_work = model(&format!("{WRITTEN}; fsync a"), true);
    assert_eq!(in_work.allows(&before), Ok(()));
}

#[test]
fn a_write_shows_whole_pages_in_their_order() {
    let model = model(WRITTEN, true);
    let mut tree = now(&model);
    let content = &mut file(&mut tree, "a").content;
    content.drop_pages(2);
    content.size = 2048;
    assert_eq!(model.allows(&tree), Ok(()));
    file(&mut tree, "a").content.size = 2000;
    assert!(refused(&model, &tree).contains("mixture"));
    let mut tree = now(&model);
    file(&mut tree, "a").content.set_page(0, &[0; PAGE]);
    assert!(refused(&model, &tree).contains("mixture"));
}

#[test]
fn bytes_of_others_are_told() {
    let model = model(
        "create a; write a 0 1024; create b; write b 0 1024; sync",
        false,
    );
    let mut tree = now(&model);
    file(&mut tree, "a").content.set_page(0, &fill(4, 0, PAGE));
    let said = refused(&model, &tree);
    assert!(
        said.contains("foreign bytes (page 0, of file Some(1)"),
        "{said}"
    );
}

#[test]
fn attributes_go_with_the_contents() {
    let model = model(
        "create a; fsync a; chmod a 600; write a 0 10; chown a 1 2",
        false,
    );
    let mut tree = now(&model);
    file(&mut tree, "a").attrs.mode = 0o777;
    assert!(refused(&model, &tree).contains("attributes"));
    let mut tree = now(&model);
    tree.attrs.uid = 9;
    assert!(refused(&model, &tree).contains("directory shows attributes"));
}

#[test]
fn names_come_and_go_in_their_order() {
    let model = model("create a; create b; unlink a", false);
    let all = now(&model);
    let mut only_a = now(&self::model("create a", false));
    assert_eq!(model.allows(&only_a), Ok(()));
    only_a.names.clear();
    assert_eq!(model.allows(&only_a), Ok(()));
    assert_eq!(model.allows(&all), Ok(()));
    let early = self::model("create a; create b", false);
    let mut only_b = all.clone();
    only_b.attrs = early.dirs[0].attrs.now().clone();
    assert!(refused(&early, &only_b).contains("file lost: /a"));
    let synced = self::model("create a; create b; unlink a; sync", false);
    let before = now(&early);
    assert!(refused(&synced, &before).contains("should not be there: /a"));
}

#[test]
fn a_rename_is_seen_everywhere_or_nowhere() {
    let text = "mkdir d; mkdir e; create d/a; write d/a 0 100; create e/a; sync";
    let model = model(&format!("{text}; rename d/a e/a"), true);
    let (old, new) = (now(&self::model(text, false)), now(&model));
    assert_eq!((model.allows(&old), model.allows(&new)), (Ok(()), Ok(())));
    let mixed = |from: &SeenDir, to: &SeenDir| {
        let mut tree = old.clone();
        for (name, of) in [("d", from), ("e", to)] {
            tree.names.insert(name.into(), of.names[name].clone());
        }
        tree
    };
    for tree in [mixed(&old, &new), mixed(&new, &old)] {
        refused(&model, &tree);
    }
}

#[test]
fn names_of_one_file_lead_to_one_file() {
    let model = model("create a; link a b; create c; sync", false);
    let mut tree = now(&model);
    file(&mut tree, "b").ino = 7;
    assert!(refused(&model, &tree).contains("the names of one file"));
    let mut tree = now(&model);
    file(&mut tree, "c").ino = 100;
    assert!(refused(&model, &tree).contains("the names of two files"));
}

#[test]
fn what_finds_no_space_changes_no_names() {
    let mut model = model("create a; write a 0 1024; sync; mkdir d", true);
    model.fail(&Op::Mkdir("d".into()), None).unwrap();
    let before = now(&self::model("create a; write a 0 1024; sync", false));
    assert_eq!(model.allows(&before), Ok(()));
    let after = now(&self::model(
        "create a; write a 0 1024; sync; mkdir d",
        false,
    ));
    refused(&model, &after);
}

#[test]
fn a_write_that_finds_no_space_leaves_whole_pages() {
    let op = Op::Write("a".into(), 1024, 3000);
    let mut model = model("create a; write a 0 1024; sync", false);
    assert!(model.begin(&op));
    let mut tree = now(&model);
    let found = file(&mut tree, "a");
    found.content.drop_pages(2);
    found.content.size = 2048;
    let found = found.clone();
    model.fail(&op, Some(&found)).unwrap();
    assert_eq!(model.allows(&tree), Ok(()));

    let mut torn = found;
    torn.content.size = 1500;
    assert!(model.begin(&op));
    assert!(model.fail(&op, Some(&torn)).is_err());
}

#[test]
fn attributes_that_were_found_stay_beside_new_ones() {
    let text = "mkdir d; setxattr d user.x 5; create a; setxattr a user.x 9";
    let mut model = model(text, false);
    let found = now(&model);
    model.rebase(&found);
    for op in parse("setxattr d user.y 7; setxattr a user.y 7").unwrap() {
        assert!(model.begin(&op));
        model.finish(&op);
    }
    for (path, entry) in [
        ("d", &now(&model).names["d"]),
        ("a", &now(&model).names["a"]),
    ] {
        let attrs = match entry {
            Seen::Dir(dir) => &dir.attrs,
            Seen::File(file) => &file.attrs,
        };
        assert_eq!(attrs.xattrs.len(), 2, "{path}");
    }
}

#[test]
fn what_finds_no_space_sets_no_attribute() {
    let mut model = model("create a; sync; setxattr a user.x 9", true);
    let op = Op::SetXattr("a".into(), "user.x".into(), 9);
    model.fail(&op, None).unwrap();
    assert!(model.begin(&Op::SetXattr("a".into(), "user.y".into(), 1)));
    let Seen::File(file) = &now(&model).names["a"] else {
        panic!("a is no file");
    };
    assert_eq!(file.attrs.xattrs.len(), 1);
}

#[test]
fn a_model_goes_on_from_what_was_found() {
    let text = "mkdir d; create d/a; write d/a 0 1500; link d/a b; symlink s 30";
    let mut model = model(text, false);
    let found = now(&model);
    model.rebase(&found);
    assert_eq!(model.allows(&found), Ok(()));
    for op in parse("write b 1000 100; fsync b").unwrap() {
        assert!(model.begin(&op));
        model.finish(&op);
    }
    assert!(refused(&model, &found).contains("file is back at state 0"));
}
