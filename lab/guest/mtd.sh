# FlashLight on the kernel's own MTD layer: a job for a guest, over a simulated chip of 64 MiB.
#   flashkit lab guest run "$(cat lab/guest/mtd.sh)"
# Two blocks are bad, the second erase of two fails, and every program of some pages. A
# tree is copied, compared, the file system killed, the tree compared again. The first
# difference ends it with status 1.
set -e
fail() { echo "FAILED: $*"; exit 1; }
device=/dev/mtd0 point=/mnt/flash
mkdir -p $point
modprobe fuse
weak=$(for page in $(seq 1000 1000 32000); do printf '%s:0,' "$page"; done)
# 2,048+64 bytes a page, 64 pages a block.
modprobe nandsim id_bytes=0x20,0xa2,0x00,0x15 badblocks=1,77 weakblocks=100:1,101:1 weakpages=$weak

mount_it() {
    flashkit mount --daemon $device $point
    grep -q " $point " /proc/mounts || fail "not mounted"
}

for reads in new old; do
    # As on kernels that have no MEMREAD request.
    [ $reads = new ] || export FLASHKIT_MTD_OLD_READS=1
    echo "== $reads reads"
    flashkit mkfs --force $device
    mount_it
    cp -a /lib $point/tree
    mkdir $point/small
    for i in $(seq 200); do echo "file $i" >$point/small/$i; done
    umount $point
    flashkit fsck $device || fail "fsck after an unmount"
    mount_it
    diff -r /lib $point/tree || fail "the tree after a remount"
    # What is synced survives; what comes after need not.
    cp -a /lib/modules $point/synced
    flashkit sync $point
    for i in $(seq 100); do echo "more $i" >$point/small/more$i; done
    kill -9 "$(pidof flashkit)"
    umount -l $point
    sleep 1
    mount_it
    diff -r /lib $point/tree || fail "the tree after a kill"
    diff -r /lib/modules $point/synced || fail "what was synced before a kill"
    [ "$(cat $point/small/200)" = "file 200" ] || fail "a small file after a kill"
    rm -r $point/tree
    umount $point
    flashkit fsck $device || fail "fsck in the end"
done
bad=$(flashkit info $device | sed -n 's/^bad blocks *//p')
echo "bad blocks: $bad"
for block in 1 77 100 101; do
    echo " $bad " | grep -q " $block " || fail "block $block is not known as bad"
done
[ "$(echo "$bad" | wc -w)" -gt 4 ] || fail "no program has failed"
flashkit cat $device:/small/7
echo passed
