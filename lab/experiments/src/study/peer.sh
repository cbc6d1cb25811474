# Puts a file system on a fresh simulated chip, replays a trace over it, and takes it away again.

# measure NUMBER SYSTEM BLOCKS RESERVE OPTIONS-OF-REPLAY...
#
# NUMBER.trace.gz is the trace, NUMBER.json the result, NUMBER.err what went wrong.
# RESERVE is what UBI keeps for blocks that go bad, in 1,024th of the chip; 0 is its
# default. $ram is that of FlashLight.
measure() {
    number=$1 system=$2 blocks=$3 reserve=$4
    shift 4
    up >$number.err 2>&1 &&
        flashkit replay --dir /mnt --monitor --json "$@" $number.trace.gz \
            >$number.part 2>>$number.err && mv $number.part $number.json
    down >/dev/null 2>&1
}

up() {
    # 256 MiB: 2,048 blocks of 64 pages of 2,048 + 64 bytes.
    modprobe nandsim id_bytes=0x98,0xaa,0x00,0x15 parts=$blocks || return
    case $system in
    flashlight-mtd)
        modprobe fuse && flashkit mkfs /dev/mtd0 && flashkit mount --daemon --ram $ram /dev/mtd0 /mnt
        ;;
    ubifs)
        modprobe ubi mtd=0,0,$reserve && ubimkvol /dev/ubi0 -N peer -m &&
            modprobe ubifs && mount -t ubifs -o compr=none ubi0:peer /mnt
        ;;
    f2fs-jftl)
        modprobe fuse && modprobe loop && modprobe crc32_generic && modprobe f2fs && mkdir -p /disk || return
        # What it says of itself is no complaint.
        flashkit attach --ftl jftl /dev/mtd0 /disk >/dev/null &
        for _ in $(seq 100); do
            [ -e /disk/disk ] && break || usleep 100000
        done
        losetup /dev/loop0 /disk/disk && mkfs.f2fs -q -f /dev/loop0 && mount -t f2fs /dev/loop0 /mnt
        ;;
    jffs2)
        modprobe mtdblock && modprobe jffs2 &&
            mount -t jffs2 -o compr=none /dev/mtdblock0 /mnt
        ;;
    esac
}

down() {
    umount /mnt
    losetup -d /dev/loop0
    umount /disk
    # The chip is in use until FlashLight has been unmounted as well.
    for _ in $(seq 100); do
        pidof flashkit && usleep 100000 || break
    done
    ubidetach -m 0
    for module in ubifs ubi jffs2 mtdblock nandsim; do
        rmmod $module
    done
}
