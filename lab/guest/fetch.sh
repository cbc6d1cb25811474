#!/bin/sh
# Fetches what the guest is made of from Debian's archive: kernel, busybox, mtd-utils, f2fs-tools
# and their libraries. Nothing is installed, and nothing outside of the one folder is written.
#
# usage: fetch.sh FOLDER
#
# FOLDER/root     the unpacked files, no more than the guest needs
# FOLDER/packages name, version and size of each package, one a line
#
# The host's own list of archives is used (/etc/apt), read-only; its package lists are not, so that
# neither root nor a recent `apt-get update` is needed.
set -eu
folder=$1
release=${FLASHKIT_GUEST_RELEASE:-bookworm}
need_kib=300000

say() { echo "guest: $*"; }
fail() { echo "$*" >&2; exit 1; }

for tool in apt-get apt-cache dpkg-deb; do
    command -v "$tool" >/dev/null 2>&1 ||
        fail "$tool is not here: the guest is made of Debian's packages"
done

mkdir -p "$folder" || fail "$folder: cannot be made"
folder=$(cd "$folder" && pwd)
work=$folder/fetching.$$
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/debs/partial" "$work/lists/partial" "$work/root" || fail "$folder: not writable"
free_kib=$(df -Pk "$work" | awk 'NR == 2 { print $4 }')
[ "$free_kib" -ge "$need_kib" ] ||
    fail "$folder: $((free_kib / 1024)) MiB free, $((need_kib / 1024)) MiB are needed"

apt() {
    tool=$1
    shift
    "$tool" --quiet=2 -o APT::Sandbox::User= -o Debug::NoLocking=true \
        -o APT::Architecture=amd64 -o APT::Architectures::=amd64 \
        -o APT::Default-Release="$release*" \
        -o Dir::State="$work" -o Dir::State::status=/dev/null -o Dir::Cache="$work" \
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=30 "$@"
}

say 'package lists of the archives in /etc/apt'
# An archive that does not answer is no reason to stop as long as another has the packages.
apt apt-get update >"$work/log" 2>&1 || [ -n "$(ls "$work/lists" | grep _Packages)" ] ||
    fail "package lists: $(tail -n 1 "$work/log")"

kernel=$(apt apt-cache depends linux-image-amd64 2>/dev/null |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -n 1)
[ -n "$kernel" ] || fail "no kernel package: the archives in /etc/apt have no linux-image-amd64"

: >"$work/packages"
for package in "$kernel" busybox-static mtd-utils libc6 \
    f2fs-tools libblkid1 libuuid1 libselinux1 libpcre2-8-0; do
    (cd "$work/debs" && apt apt-get download "$package" >"$work/log" 2>&1) ||
        fail "$package: $(tail -n 1 "$work/log")"
    for deb in "$work/debs"/*.deb; do
        version=$(dpkg-deb --field "$deb" Version)
        size=$(($(stat --format %s "$deb") / 1024))
        say "$package $version, $size KiB"
        echo "$package $version $size" >>"$work/packages"
        case $package in
        linux-image-*)
            # Everything else of a kernel is drivers for hardware that the guest has not.
            dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/root" --wildcards --no-anchored \
                'vmlinuz-*' '*/modules.*' '*/kernel/drivers/mtd' '*/kernel/drivers/virtio' \
                '*/kernel/drivers/block/loop.ko' \
                '*/kernel/fs' '*/kernel/net/9p' '*/kernel/lib' '*/kernel/crypto'
            ;;
        *) dpkg-deb --extract "$deb" "$work/root" ;;
        esac || fail "$package: cannot be unpacked (is there space in $folder?)"
        rm -f "$deb"
    done
done

version=$(basename "$work"/root/lib/modules/*)
"$work/root/bin/busybox" depmod -b "$work/root" "$version" || fail "modules: depmod failed"

rm -rf "$folder/root"
mv "$work/root" "$folder/root"
mv "$work/packages" "$folder/packages"
say "ready in $folder"
