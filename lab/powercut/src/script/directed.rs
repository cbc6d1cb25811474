//! Sequences for one mechanism or weakness each; many showed a fault once.

use super::{Chip, Group, Script, parse};

const SCRIPTS: [(&str, &str); 39] = [
    (
        "create",
        "create a; write a 0 100; fsync a; create b; write b 0 5000; fsync b;
         create c; write c 0 3000; create d; create e; fsync e; sync; create f",
    ),
    // More directories than are in RAM: what changes in them is gathered.
    (
        "directories",
        "mkdir d; mkdir e; mkdir f; mkdir g; create d/a; write d/a 0 100; fsync d/a; create e/a; fsync e/a; create f/a; write f/a 0 3000; fsync f/a;
         create g/a; fsync g/a; unlink d/a; create e/b; fsync e/b; unlink f/a; create d/c; fsync d/c; unlink g/a; unlink e/a; sync;
         create g/b; fsync g/b; create f/b; fsync f/b; unlink d/c; create d/b; fsync d/b; unlink e/b; chmod f 700; create e/d; fsync e/d; fsync g;
         unlink f/b; rmdir f; mkdir f; create f/z; fsync f/z; remount; create d/e; fsync d/e; unlink g/b; create e/f; fsync e/f; unlink f/z; rmdir f",
    ),
    (
        "settings",
        "mkdir d; mkdir e; mkdir f; create d/a; write d/a 0 700; fsync d/a; create e/a; write e/a 0 700; fsync e/a; create f/a; write f/a 0 700; fsync f/a; sync;
         create d/t; write d/t 0 900; fsync d/t; rename d/t d/a; create e/t; write e/t 0 900; fsync e/t; rename e/t e/a; create f/t; write f/t 0 2900; fsync f/t; rename f/t f/a;
         create e/t; write e/t 0 100; fsync e/t; rename e/t e/a; create d/t; write d/t 0 100; fsync d/t; rename d/t e/a; rename e/a f/a; sync; rename f/a d/a;
         create f/t; fsync f/t; rename f/t f/a; create e/a; fsync e/a; unlink e/a; rename f/a e/a; remount; rename e/a f/a; rename d/a e/a; rename e d/x; create d/x/t; fsync d/x/t; rename d/x/t d/x/a",
    ),
    (
        "directories-cleaned",
        "mkdir d; mkdir e; mkdir f; create d/a; write d/a 0 20000; fsync d/a; create e/a; write e/a 0 20000; fsync e/a; create f/a; write f/a 0 9000; fsync f/a;
         create d/b; fsync d/b; create e/b; fsync e/b; create f/b; fsync f/b; write d/a 0 9000; fsync d/a; write e/a 5000 9000; fsync e/a; gc; link d/b e/c; gc; unlink f/b; gc;
         write f/a 0 3000; fsync f/a; create d/g; fsync d/g; unlink e/b; gc; sync; write d/a 3000 9000; fsync d/a; gc; create e/g; fsync e/g; gc; unlink d/g; create f/g; fsync f/g; gc; unlink e/c; remount; gc; unlink d/b; gc",
    ),
    (
        "append",
        "create a; write a 0 100; fsync a; write a 100 100; fsync a; write a 200 2500; fsync a;
         write a 2700 50; write a 2750 7000; fsync a; sync; write a 9750 10; fsync a",
    ),
    (
        "overwrite",
        "create a; write a 0 9000; fsync a; write a 2048 2048; fsync a; write a 100 4000; fsync a;
         write a 0 9000; write a 0 9000; fsync a; write a 5 10; fsync a; sync; write a 4096 4096; fsync a",
    ),
    (
        "updates",
        "create a; write a 0 20000; fsync a; write a 2048 2048; fsync a; write a 4096 4096; fsync a;
         write a 2048 6144; write a 0 2048; fsync a; write a 8192 2048; write a 100 50; fsync a; write a 0 2048; fsync a;
         sync; write a 2048 2048; fsync a; write a 2048 2048; fsync a; remount; write a 0 4096; fsync a; write a 0 4096; fsync a",
    ),
    (
        "updates-of-two-files",
        "create a; create b; write a 0 8192; write b 0 8192; fsync a; fsync b; write a 0 2048; write b 2048 4096; fsync b;
         fsync a; write a 4096 2048; write b 0 2048; fsync b; create c; write c 0 4096; fsync c; write c 0 2048; fsync c;
         write a 0 2048; fsync a; write a 0 2048; fsync a; unlink b; write c 2048 2048; fsync c",
    ),
    (
        "updates-and-names",
        "create a; write a 0 8192; fsync a; write a 0 2048; fsync a; rename a b; write b 2048 2048; fsync b; write b 0 2048; fsync b;
         link b c; fsync b; write c 0 4096; fsync c; write b 4096 2048; fsync b; unlink b; fsync c; write c 0 2048; fsync c;
         create d; write d 0 4096; fsync d; write d 0 2048; fsync d; rename d c; write c 0 2048; fsync c; write c 2048 2048; fsync c;
         truncate c 3000; write c 0 2048; fsync c; write c 0 2048; fsync c; punch c 0 2048; fsync c; write c 0 2048; fsync c",
    ),
    (
        "tails",
        "create a; write a 0 700; fsync a; write a 700 700; fsync a; write a 1400 600; fsync a; write a 2000 48; fsync a; write a 2048 900; fsync a;
         write a 2948 900; fsync a; write a 3848 100; fsync a; write a 3948 300; fsync a; sync; write a 4248 1500; fsync a; write a 5748 300; fsync a;
         write a 6048 96; fsync a; write a 6144 2048; fsync a; remount; write a 8192 2000; fsync a; write a 10192 48; fsync a; write a 10240 4096; fsync a;
         write a 4096 2048; fsync a; write a 14336 1900; write a 16236 100; fsync a; write a 16336 40; fsync a; write a 16376 8; fsync a",
    ),
    (
        "tails-of-two-files",
        "create a; create b; write a 0 900; write b 0 2000; fsync a; fsync b; write b 2000 40; write a 900 1000; fsync b; fsync a; write a 1900 140;
         write b 2040 8; fsync b; write b 2048 1900; fsync b; truncate b 2048; fsync b; write b 2048 1900; fsync b; truncate b 5000; fsync b; write b 5000 900; fsync b;
         rename b c; write c 5900 200; fsync c; link c d; fsync c; write c 6100 40; fsync c; write a 2040 8; fsync a; write a 2048 1950; fsync a; unlink a;
         write d 6140 4; fsync d; punch d 6000 100; fsync d; write d 6144 1990; fsync d; write d 0 2048; fsync d; write d 8134 58; fsync d; write d 8192 6144; fsync d",
    ),
    (
        "two-files",
        "create a; create b; write a 0 3000; write b 0 3000; write a 3000 3000; fsync b; write b 0 9000;
         create c; write c 0 100; write a 0 100; fsync c; write b 100 100; fsync a; fsync b",
    ),
    (
        "truncate",
        "create a; write a 0 9000; fsync a; truncate a 5000; fsync a; truncate a 20000; fsync a;
         write a 15000 10; fsync a; truncate a 14000; truncate a 16000; fsync a; truncate a 0; fsync a;
         write a 100 100; fsync a; truncate a 150; truncate a 300; fsync a; write a 250 5000; truncate a 2048; fsync a",
    ),
    (
        "unlink",
        "create a; write a 0 5000; fsync a; unlink a; create b; write b 0 100; fsync b; unlink b;
         create b; write b 0 200; fsync b; unlink b; create a; fsync a; unlink a; sync;
         mkdir d; create d/x; write d/x 0 3000; fsync d/x; unlink d/x; create d/x; fsync d/x; fsync d;
         unlink d/x; fsync d; create d/x; create d/y; fsync d",
    ),
    (
        "unlink-before-new",
        "create a; write a 0 5000; fsync a; create b; write b 0 100; fsync b; create c; fsync c; unlink a; unlink b; create d; fsync d;
         unlink c; create a; write a 0 100; fsync a; write a 100 3000; fsync a; unlink a; create a; fsync a; unlink d; rename a b; create c; fsync c;
         open c; unlink b; unlink c; create b; fsync b; close; create f; write f 0 9000; fsync f; write f 0 2048; fsync f; unlink f; create g; fsync g;
         link g h; unlink g; unlink b; create b; fsync b; unlink h; create f; symlink s 20; fsync s; sync; unlink f; unlink s; create s; fsync s;
         mkdir x; create x/a; fsync x/a; unlink x/a; create x/b; fsync x/b; rename x/b b; rmdir x; mkdir x; create x/a; fsync x/a; unlink x/a; create x/c; fsync x; unlink x/c; remount; create d; fsync d",
    ),
    (
        "unlink-other-dirs",
        "mkdir d; mkdir e; mkdir f; create d/a; write d/a 0 100; fsync d/a; unlink d/a; create e/a; fsync e/a;
         unlink e/a; create f/a; fsync f/a; create d/a; fsync d/a; unlink f/a; create e/b; fsync e/b;
         create f/b; fsync f/b; unlink d/a; create e/c; create f/c; fsync e/c; create d/c; fsync d/c",
    ),
    (
        "unlink-open",
        "create a; write a 0 5000; fsync a; open a; unlink a; create a; write a 0 100; fsync a; close;
         open a; unlink a; create b; fsync b; sync; create c; fsync c; close; create d; fsync d;
         open b; rename c b; create e; fsync e; close; sync; create f; fsync f",
    ),
    (
        "unlink-open-many",
        "create a; create b; create c; write a 0 5000; write b 0 100; open a; open b; open c; unlink a; unlink b; unlink c;
         create a; create b; write a 0 4000; fsync b; close; fsync a; close; close; unlink a; unlink b; sync",
    ),
    (
        "rename",
        "create a; write a 0 5000; fsync a; rename a b; create a; write a 0 100; fsync a; rename a b;
         create a; write a 0 3000; rename a b; write b 0 10; fsync b; rename b c; rename c b; create c; fsync c; rename c b;
         sync; rename b a; rename a b; sync; create t; write t 0 4000; fsync t; rename t b; unlink b; create b; fsync b",
    ),
    (
        "rename-across",
        "mkdir d; mkdir e; create d/a; write d/a 0 5000; fsync d/a; rename d/a e/a; create d/a; write d/a 0 100; fsync d/a;
         rename d/a e/a; create d/a; fsync d/a; rename e/a d/a; mkdir f; rename d/a f/b; create e/a; write e/a 0 10;
         rename e/a f/b; unlink f/b; create f/b; fsync f/b; sync; rename f/b d/z; rename d/z e/z; unlink e/z; create e/y; fsync e/y",
    ),
    (
        "rename-open",
        "create a; write a 0 100; fsync a; create b; write b 0 5000; fsync b; open b; rename a b; close; open b;
         create c; write c 0 3000; rename c b; create d; fsync d; sync; close; mkdir e; create e/a; fsync e/a; open b; rename e/a b; sync; close",
    ),
    (
        "mkdir",
        "mkdir a; mkdir a/b; mkdir a/b/c; create a/b/c/f; write a/b/c/f 0 100; fsync a/b/c/f; unlink a/b/c/f; rmdir a/b/c;
         mkdir a/b/c; create a/b/c/f; fsync a/b/c/f; sync; unlink a/b/c/f; rmdir a/b/c; rmdir a/b; rmdir a; mkdir a; mkdir b;
         rmdir a; create a; fsync a; rmdir b; mkdir b; create b/x; fsync b/x",
    ),
    (
        "rename-dirs",
        "mkdir a; create a/f; write a/f 0 3000; fsync a/f; rename a b; create b/g; fsync b/g; mkdir c; rename b c/b;
         mkdir d; rename c/b d; create c/x; fsync c/x; mkdir e; unlink c/x; rename e c/e; rename c/e e; rename e c;
         rename d/f c/f; rename d c/d; sync; rename c/d d; rename d/g g; rmdir d; rename c/f f; rmdir c",
    ),
    (
        "symlinks",
        "symlink a 20; fsync a; symlink b 3000; fsync b; rename a b; create f; write f 0 100; fsync f; rename b f; unlink f; symlink f 10; fsync f; sync",
    ),
    (
        "link",
        "create a; write a 0 100; fsync a; link a b; link b c; write c 50 100; fsync b; unlink a; unlink c; unlink b;
         create a; write a 0 5000; link a b; write a 0 10; fsync b; unlink a; create a; fsync a; link b c; sync; unlink b; unlink c;
         create d; link d e; link d f; sync; unlink d; link e d; rename e g; rename g f; unlink f; fsync d",
    ),
    (
        "link-across",
        "mkdir d; mkdir e; create d/a; write d/a 0 3000; fsync d/a; link d/a e/a; unlink d/a; link e/a d/b; create d/c; link d/c e/c;
         unlink e/c; link d/c e/d; rename d e/x; link e/x/b f; unlink e/x/b; rename f e/x/b; link e/a f; sync; rename e/x g; unlink f; unlink g/b",
    ),
    (
        "link-over",
        "create a; write a 0 100; fsync a; link a b; link a c; create x; write x 0 3000; fsync x; rename x b; create x; write x 0 10; rename x c;
         unlink c; link b c; rename c a; rename a x; link x y; mkdir d; rename y d/y; create z; rename z d/y; rename b d/y; sync; create q; rename q x; fsync d/y",
    ),
    (
        "link-open",
        "create a; write a 0 100; fsync a; link a b; open a; unlink a; unlink b; create c; fsync c; close; create d; link d e; open d; create f; write f 0 20;
         rename f d; rename c e; sync; close; create g; link g h; open g; unlink g; close; unlink h; symlink s 20; link s t; unlink s; rename t u; fsync u",
    ),
    (
        "link-removals",
        "create a; fsync a; create b; fsync b; unlink a; link b a; create c; link b d; unlink b; create e; unlink a; create a; fsync a;
         mkdir x; create x/a; create y; link y x/b; create z; unlink x/a; link z x/a; unlink y; unlink x/b; unlink x/a; rmdir x; link d x; fsync x",
    ),
    (
        "exchange",
        "create a; write a 0 5000; fsync a; create b; write b 0 100; exchange a b; write a 100 100; fsync a; exchange a b; exchange b a;
         unlink a; create a; write a 0 3000; exchange a b; rename a b; create a; fsync a; exchange b a; sync; mkdir d; create d/x; exchange d a;
         exchange a/x d; create a/q; exchange a b; exchange a b; unlink a/x; unlink a/q; rmdir a; mkdir a; exchange a b; link d e; exchange d b; unlink e; sync; unlink a",
    ),
    (
        "exchange-across",
        "mkdir d; mkdir e; mkdir f; mkdir d/s; mkdir e/t; create d/s/x; create e/t/y; write e/t/y 0 3000; fsync e/t/y; exchange d/s e/t; create d/t;
         exchange d/s/y f; create d/s/y/z; fsync d/s/y/z; exchange d/s/y e/t/x; unlink e/t/x/z; exchange d e/t; sync; symlink l 20; exchange l e/t;
         link f g; exchange f e; exchange g f/t; rename f d/x; exchange l d; unlink e; create e; fsync e; exchange e g; exchange g e",
    ),
    (
        "evicted",
        "mkdir a; mkdir b; mkdir c; mkdir d; create a/x; create b/x; create c/x; create d/x; write a/x 0 100; write b/x 0 100;
         unlink c/x; create d/y; fsync d/y; create a/y; unlink a/x; create b/y; create c/y; create d/z; fsync a/y;
         rename b/x c/x; unlink c/x; create a/z; create b/z; fsync b/z; create c/z; fsync c/z; rename c/z d/q; unlink d/q;
         create a/q; create b/q; create d/q; fsync d/q; rename d/q a/q; unlink a/q; create a/r; fsync a/r",
    ),
    (
        "session",
        "create a; write a 0 100; remount; create b; fsync b; remount; write b 0 5000; fsync b; remount; remount; unlink a;
         create c; fsync c; remount; open b; unlink b; remount; mkdir d",
    ),
    (
        "open-block",
        "mkdir d1; create d; write d 0 1960; rename d c",
    ),
    (
        "cut-twice",
        "create a; fsync a",
    ),
    (
        "sync-first",
        "create a; write a 0 100; sync",
    ),
    (
        "sync-after-unlink",
        "create a; remount; unlink a; sync",
    ),
    (
        "over-indirect",
        "mkdir d0; create d0/c; write d0/c 0 3919; rename d0/c c; create d0/b; write d0/b 0 4849;
         rename d0 d1; rename d1/b c",
    ),
    (
        // The second record of the session looks erased, and the next block of the log fails.
        "log-fails-at-once",
        "create a; write a 0 3000; sync; remount; fail-program 1 1; fail-erase 1 41; create b; fsync b;
         write b 0 3000; fsync b; write a 1000 2000; fsync a; sync; mkdir d; sync",
    ),
];

pub(super) fn scripts() -> Vec<Script> {
    let mut all = Vec::new();
    let chips = [
        Chip::new(2048, 40, 16, 96),
        Chip::new(2048, 0, 16, 96),
        Chip::new(2048, 40, 16, 96).table(24),
    ];
    for chip in chips {
        for (name, text) in SCRIPTS {
            all.push(Script::new(
                Group::Directed,
                name,
                chip.clone(),
                parse(text),
            ));
        }
    }
    all
}
