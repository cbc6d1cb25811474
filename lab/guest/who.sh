# Who reads, programs and erases: a trace over UBIFS, then over JFFS2, watched by the monitor. A job
# for a guest, over a simulated chip of 256 MiB. The trace is in the folder that is shared:
#   cp lab/workload/traces/randupd75.trace.gz /tmp/share/
#   flashkit lab guest run --skip-idle --share /tmp/share "$(cat lab/guest/who.sh)"
set -e
mkdir -p /mnt
for system in ubifs jffs2; do
    modprobe nandsim id_bytes=0x98,0xaa,0x00,0x15
    rm -f seen
    flashkit monitor --interval 3600 >seen &
    monitor=$!
    until [ -s seen ]; do usleep 50000; done
    case $system in
    ubifs)
        modprobe ubi mtd=0
        ubimkvol /dev/ubi0 -N who -m >/dev/null
        modprobe ubifs
        mount -t ubifs -o compr=none ubi0:who /mnt
        ;;
    jffs2)
        modprobe mtdblock
        modprobe jffs2
        mount -t jffs2 -o compr=none /dev/mtdblock0 /mnt
        ;;
    esac
    flashkit replay --fsync --dir /mnt randupd75.trace.gz >/dev/null
    umount /mnt
    kill -INT $monitor
    wait $monitor
    echo "== $system"
    cat seen
    case $system in
    ubifs)
        ubidetach -m 0
        rmmod ubifs ubi
        ;;
    jffs2)
        rmmod jffs2 mtdblock
        ;;
    esac
    rmmod nandsim
done
