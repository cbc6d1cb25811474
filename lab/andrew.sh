#!/usr/bin/env bash
# An Andrew-like benchmark on a real ext2 on an attached logdisk, after J. H. Howard et al. (ACM TOCS
# 6(1), 1988) as A. Kawaguchi, S. Nishioka and H. Motoda ran it (USENIX Winter 1995, 3.5, Table 8):
# 60 runs, each in a directory of its own, the oldest removed once KEEP are there. A run makes
# directories, copies a source tree, lists it, reads it and compiles it, and leaves about 560 KB.
#
#   lab/andrew.sh FLASHKIT KEEP [OPTION of flashkit attach ...]
#
# KEEP 13 and 22 come nearest to the paper's 52-56 % and 92-96 % (14 and 24 there). Prints what attach
# says at the end: sectors written, blocks copied, segments erased. Needs root, /dev/fuse, loop
# devices, e2fsprogs and cc.
set -euo pipefail
flashkit=$(realpath "$1")
keep=$2
shift 2
work=$(mktemp -d)
cd "$work"
device=
cleanup() {
    if mountpoint -q "$work/ext2"; then umount "$work/ext2"; fi
    if [ -n "$device" ]; then losetup -d "$device"; fi
    if mountpoint -q "$work/nor"; then umount "$work/nor"; fi
    cd / && rm -rf "$work"
}
trap cleanup EXIT
trap "exit 1" INT TERM HUP

# The source: 70 files in 5 directories, compiled as one unit each, about 220 KB, always the same.
for d in 0 1 2 3 4; do
    mkdir -p "tree/d$d"
    for f in $(seq 0 13); do
        name=d${d}_$f
        {
            echo "/* $name */"
            for i in $(seq 0 31); do
                echo "int ${name}_value_$i(int x) { int y = x * $((i + d + f)); while (y > $i) y -= x + 7; return y ^ x; }"
            done
        } >"tree/d$d/$name.h"
        echo "#include \"$name.h\"" >>"tree/d$d/all.c"
    done
done

"$flashkit" attach --ftl logdisk "$@" nor.img nor >attach.txt &
attached=$!
for _ in $(seq 100); do
    if mountpoint -q nor; then break; fi
    sleep 0.1
done
device=$(losetup --find --show nor/disk)
mke2fs -q -t ext2 -b 1024 -m 0 "$device"
mkdir ext2
mount "$device" ext2
mountpoint -q "$work/ext2"
low=100 high=0
for run in $(seq 60); do
    if [ "$run" -gt "$keep" ]; then rm -r "ext2/run$((run - keep))"; fi
    at=ext2/run$run
    mkdir -p "$at" && (cd tree && find . -type d -exec mkdir -p "$work/$at/{}" \;)
    cp -r tree/. "$at"
    ls -lR "$at" >/dev/null
    grep -rl value_24 "$at" >/dev/null
    for d in 0 1 2 3 4; do
        cc -O0 -c "$at/d$d/all.c" -o "$at/d$d/all.o"
        ar rc "$at/lib$d.a" "$at/d$d/all.o"
        rm "$at/d$d/all.o"
    done
    sync -f "$at"
    if [ "$run" -gt "$keep" ]; then
        used=$(df --output=pcent ext2 | tail -1 | tr -dc 0-9)
        low=$((used < low ? used : low)) high=$((used > high ? used : high))
    fi
done
echo "a run leaves $(du -s --apparent-size ext2/run60 | cut -f1) KB; ext2 is $low to $high % full"
umount ext2
losetup -d "$device"
device=
umount nor
wait "$attached"
tail -1 attach.txt
