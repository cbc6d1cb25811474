# A disk of JFTL on the kernel's own MTD layer with F2FS on it: a job for a guest, over a
# simulated chip of 64 MiB.
#   flashkit lab guest run "$(cat lab/guest/disk.sh)"
# A tree is copied, compared after the disk was taken away and came back, and a device with
# something else on it is left alone.
set -e
fail() { echo "FAILED: $*"; exit 1; }
device=/dev/mtd0 disk=/tmp/disk point=/mnt/tree
mkdir -p $disk $point
for module in fuse loop crc32_generic f2fs; do modprobe $module; done
# 2,048+64 bytes a page, 64 pages a block; block 9 is bad.
modprobe nandsim id_bytes=0x20,0xa2,0x00,0x15 badblocks=9

attach() {
    flashkit attach --ftl jftl $device $disk &
    for _ in $(seq 300); do
        [ -e $disk/disk ] && break || usleep 100000
    done
    losetup /dev/loop0 $disk/disk
}

detach() {
    umount $point
    losetup -d /dev/loop0
    umount $disk
    wait
}

attach
mkfs.f2fs -q -f /dev/loop0
mount -t f2fs /dev/loop0 $point
cp -a /lib $point/tree
detach
attach
mount -t f2fs /dev/loop0 $point
diff -r /lib $point/tree || fail "the tree after a remount"
detach
flashkit mkfs --force $device
flashkit attach --ftl jftl $device $disk && fail "a volume was overwritten"
flashkit fsck $device || fail "the volume is damaged"
flashkit attach --ftl logdisk $device $disk && fail "logdisk on NAND"
echo passed
