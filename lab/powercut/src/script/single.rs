//! Each operation of the interface by itself.

use super::{BARE_CHIP, Group, SMALL_CHIP, Script, parse};

/// A tree with one of each: files whose data is in the inode, in pages, and found by their number;
/// a symbolic link, an empty directory.
pub(super) const TREE: &str = "mkdir d; mkdir e; mkdir d/s; mkdir e/s;
    create d/a; write d/a 0 2600; create d/b; write d/b 0 100; create e/a; write e/a 0 1500;
    create e/i; write e/i 0 2600; fsync e/i; rename e/i d/i; symlink d/l 30; sync";

/// Name, operations, what an fsync after them is asked for. A file that was read is in RAM: its
/// fsync lets what follows be an update.
const SINGLES: [(&str, &str, &str); 93] = [
    ("create", "create d/n", "d/n"),
    ("create-in-root", "create n", "n"),
    ("write-new", "create d/n; write d/n 0 700", "d/n"),
    ("write-new-large", "create d/n; write d/n 0 4000", "d/n"),
    ("mkdir", "mkdir d/t", "d"),
    ("mkdir-below", "mkdir d/s/t", "d/s"),
    ("symlink", "symlink d/n 20", "d/n"),
    ("symlink-long", "symlink d/n 3000", "d/n"),
    ("mknod", "mknod d/n 258", "d/n"),
    ("link-special", "mknod d/n 263; link d/n e/n", "d/n"),
    ("rename-special-over", "mknod d/n 4; rename d/n d/a", "d/a"),
    ("append", "write d/b 100 100", "d/b"),
    ("append-pages", "write d/a 2600 2000", "d/a"),
    ("overwrite-part", "write d/a 300 200", "d/a"),
    ("overwrite-page", "write d/a 1024 1024", "d/a"),
    ("update", "read d/a; fsync d/a; write d/a 1024 1024", "d/a"),
    (
        "update-twice",
        "read d/a; fsync d/a; write d/a 0 2048; write d/a 1024 1024; fsync d/a; write d/a 0 1024",
        "d/a",
    ),
    (
        "update-indirect",
        "read d/i; fsync d/i; write d/i 0 2048",
        "d/i",
    ),
    (
        "update-and-rename",
        "read d/a; fsync d/a; write d/a 0 2048; fsync d/a; rename d/a d/n; write d/n 0 1024",
        "d/n",
    ),
    ("tail", "read d/a; fsync d/a; write d/a 2600 300", "d/a"),
    (
        "tail-twice",
        "read d/a; fsync d/a; write d/a 2600 300; write d/a 2900 100; fsync d/a; write d/a 3000 72; fsync d/a; write d/a 3072 900",
        "d/a",
    ),
    (
        "tail-indirect",
        "read d/i; fsync d/i; write d/i 2600 472",
        "d/i",
    ),
    (
        "tail-and-truncate",
        "read d/a; fsync d/a; write d/a 2600 300; fsync d/a; truncate d/a 2700; fsync d/a; write d/a 2700 250; write d/a 0 1024",
        "d/a",
    ),
    (
        "tail-and-rename",
        "read d/b; fsync d/b; write d/b 100 900; fsync d/b; write d/b 1000 20; rename d/b d/a; fsync d/a; write d/a 1020 2",
        "d/a",
    ),
    (
        "update-at-the-end",
        "truncate d/a 2048; fsync d/a; write d/a 2048 2048; fsync d/a; write d/a 3072 3072; fsync d/a; write d/a 6144 1000",
        "d/a",
    ),
    ("overwrite-all", "write d/a 0 2600", "d/a"),
    ("overwrite-small", "write d/b 10 50", "d/b"),
    ("write-indirect", "write d/i 1000 100", "d/i"),
    ("write-behind-a-hole", "write d/a 9000 500", "d/a"),
    ("truncate-to-nothing", "truncate d/a 0", "d/a"),
    ("truncate-in-a-page", "truncate d/a 1500", "d/a"),
    ("truncate-at-a-page", "truncate d/a 1024", "d/a"),
    ("truncate-small", "truncate d/b 40", "d/b"),
    ("punch-part", "punch d/a 300 200", "d/a"),
    ("punch-page", "punch d/a 1024 1024", "d/a"),
    ("punch-across", "punch d/a 900 1500", "d/a"),
    ("punch-all", "punch d/a 0 9000", "d/a"),
    ("punch-small", "punch d/b 10 50", "d/b"),
    (
        "punch-and-write",
        "punch d/a 0 2600; write d/a 500 1000",
        "d/a",
    ),
    ("extend", "truncate d/a 6000", "d/a"),
    ("link", "link d/a d/n", "d/n"),
    ("link-dir", "link d/b e/n", "e/n"),
    ("link-indirect", "link d/i e/n", "e/n"),
    ("unlink-linked", "link d/a e/n; unlink d/a", "d"),
    ("rename-over-linked", "link d/a e/n; rename d/b d/a", "d/a"),
    ("unlink", "unlink d/a", "d"),
    ("unlink-small", "unlink d/b", "d"),
    ("unlink-indirect", "unlink d/i", "d"),
    ("unlink-symlink", "unlink d/l", "d"),
    ("unlink-open", "open d/a; unlink d/a; close", "d"),
    ("unlink-open-indirect", "open d/i; unlink d/i; close", "d"),
    ("rmdir", "rmdir d/s", "d"),
    ("rename", "rename d/a d/n", "d/n"),
    ("rename-small", "rename d/b d/n", "d/n"),
    ("rename-indirect", "rename d/i d/n", "d/n"),
    ("rename-symlink", "rename d/l d/n", "d/n"),
    ("rename-across", "rename d/a e/n", "e/n"),
    ("rename-over", "rename d/a d/b", "d/b"),
    ("rename-over-across", "rename d/b e/a", "e/a"),
    ("rename-over-indirect", "rename d/b d/i", "d/i"),
    ("rename-over-open", "open d/b; rename d/a d/b; close", "d/b"),
    (
        "rename-new-over",
        "create d/n; write d/n 0 1500; rename d/n d/a",
        "d/a",
    ),
    ("rename-to-itself", "rename d/a d/a", "d/a"),
    ("rename-dir", "rename d/s d/t", "d"),
    ("rename-dir-across", "rename d/s e/t", "e"),
    ("rename-dir-over", "rename d/s e/s", "e"),
    ("rename-full-dir", "rename d f", "f"),
    ("exchange", "exchange d/a d/b", "d/b"),
    ("exchange-small", "exchange d/b d/a", "d/a"),
    ("exchange-across", "exchange d/a e/a", "e/a"),
    ("exchange-indirect", "exchange d/i e/a", "e/a"),
    ("exchange-dirs", "exchange d/s e/s", "e"),
    ("exchange-file-and-dir", "exchange d/a e/s", "e"),
    ("exchange-dir-and-file", "exchange d/s e/a", "e/a"),
    (
        "exchange-linked",
        "link d/a e/n; link d/i e/m; exchange d/a e/m",
        "e/m",
    ),
    (
        "exchange-new",
        "create d/n; write d/n 0 1500; create e/n; exchange d/n e/n",
        "e/n",
    ),
    ("exchange-open", "open e/a; exchange d/l e/a; close", "d/l"),
    ("chmod", "chmod d/a 640", "d/a"),
    ("chown", "chown d/a 7 8", "d/a"),
    ("utimes", "utimes d/a 5 6", "d/a"),
    ("chmod-dir", "chmod d 700", "d"),
    ("utimes-dir", "utimes d/s 5 6", "d/s"),
    ("chmod-indirect", "chmod d/i 600", "d/i"),
    ("setxattr", "setxattr d/a user.x 20", "d/a"),
    ("setxattr-dir", "setxattr d user.x 20", "d"),
    (
        "setxattr-again",
        "setxattr d/i user.x 20; setxattr d/i user.y 900; setxattr d/i user.x 5",
        "d/i",
    ),
    (
        "rmxattr",
        "setxattr d/b user.x 20; setxattr d/b user.y 9; rmxattr d/b user.x; rmxattr d/b user.y",
        "d/b",
    ),
    (
        "rename-xattr",
        "setxattr d/b user.x 20; rename d/b e/n; setxattr e/n user.y 7",
        "e/n",
    ),
    (
        "link-xattr",
        "setxattr d/b user.x 20; link d/b e/n; unlink d/b",
        "e/n",
    ),
    (
        "rmdir-xattr",
        "setxattr d/s user.x 20; setxattr d/l trusted.x 30; rmdir d/s; unlink d/l",
        "d",
    ),
    ("reads", "read d/a; read d/l; list d; list /", "d/a"),
    ("gc", "write d/a 0 2600; gc", "d/a"),
    ("remount", "write d/b 0 50; remount", "d/b"),
];

/// Each alone, with an fsync behind it, and with a sync behind it.
pub(super) fn scripts() -> Vec<Script> {
    let mut all = Vec::new();
    for chip in [SMALL_CHIP, BARE_CHIP] {
        for (name, ops, target) in SINGLES {
            let endings = [
                ("", String::new()),
                ("-fsync", format!("; fsync {target}")),
                ("-sync", "; sync".to_owned()),
            ];
            for (ending, more) in endings {
                let name = format!("single-{name}{ending}");
                let ops = parse(&format!("{TREE}; {ops}{more}"));
                let from = parse(TREE).len();
                all.push(Script {
                    from,
                    ..Script::new(Group::Single, name, chip.clone(), ops)
                });
            }
        }
    }
    all
}
