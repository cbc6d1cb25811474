#!/bin/sh
# Fetches YAFFS2's sources with its direct interface from Debian's source package of U-Boot, for the
# feature `yaffs2`. They are under the GPL: they stay on this machine, and so does a program that is
# built with them. Nothing is installed, and nothing outside of the one folder is written.
#
# usage: fetch.sh [FOLDER]
#
# FOLDER is flashkit/yaffs2 in the user's cache folder unless it is given; then the build has to be
# told of it as well: FLASHKIT_YAFFS2=FOLDER.
#
# FOLDER/source   the sources, as they are in the package
# FOLDER/version  the package's version
set -eu
folder=${1:-${FLASHKIT_YAFFS2:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/flashkit/yaffs2}}
release=${FLASHKIT_YAFFS2_RELEASE:-bookworm}
package=u-boot

say() { echo "yaffs2: $*"; }
fail() { echo "yaffs2: $*" >&2; exit 1; }

for tool in apt-get apt-cache tar xz; do
    command -v "$tool" >/dev/null 2>&1 || fail "$tool is not here: the sources are in a Debian package"
done

mkdir -p "$folder" || fail "$folder: cannot be made"
folder=$(cd "$folder" && pwd)
work=$folder/fetching.$$
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/archives/partial" "$work/lists/partial" "$work/source" || fail "$folder: not writable"

# The archives that this machine has its packages from, with their sources. Where they are Debian's
# the keys are in their usual place.
apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' "Codename: $release" |
    sort -u | while read -r archive component; do
        echo "deb-src $archive $release $component"
    done >"$work/sources"
[ -s "$work/sources" ] || echo "deb-src http://deb.debian.org/debian $release main" >"$work/sources"

apt() {
    tool=$1
    shift
    "$tool" --quiet=2 -o APT::Sandbox::User= -o Debug::NoLocking=true \
        -o Dir::Etc::SourceList="$work/sources" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State="$work" -o Dir::State::status=/dev/null -o Dir::Cache="$work" \
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=30 "$@"
}

cd "$work"
apt apt-get update >log 2>&1 || fail "package lists: $(tail -n 1 log)"
version=$(apt apt-cache showsrc --only-source "$package" | sed -n 's/^Version: //p' | sort -V | tail -n 1)
[ -n "$version" ] || fail "no source package $package: $(cat sources)"
say "$package $version"
# Debian's changes are looked at as well: they have none of YAFFS2, or this would be wrong.
apt apt-get source --download-only "$package=$version" >log 2>&1 || fail "$package: $(tail -n 1 log)"
if tar -xJOf "$package"_*.debian.tar.* debian/patches 2>/dev/null | grep -q '^+++ .*/fs/yaffs2/'; then
    fail "Debian changes fs/yaffs2 in $version, which this does not know of"
fi
tar -xJf "$package"_*.orig.tar.xz -C source --strip-components 3 --wildcards '*/fs/yaffs2/*' ||
    fail "$package: cannot be unpacked (is there space in $folder?)"
[ -e source/yaffsfs.c ] || fail "$package $version has no direct interface of YAFFS2"

rm -rf "$folder/source"
mv source "$folder/source"
# What is built is built anew when this changes, so it comes last.
echo "$package $version" >version
mv version "$folder/version"
say "ready in $folder"
