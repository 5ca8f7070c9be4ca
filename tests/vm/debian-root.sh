#!/usr/bin/env bash
# Prints the path of an ext4 image of a Debian with systemd, an NFS server and client, and rpm, made in the cache when it is not there yet.
# The image is named by the content of this script and the further packages; packages are those of the day it was made. Copy it before
# you write to it.
#
#   debian-root.sh [SUITE [PACKAGE...]]     bookworm unless told otherwise
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin

suite=${1:-bookworm}
further=${*:2}
mirror=${TRACKIOPS_DEBIAN_MIRROR:-http://deb.debian.org/debian}
packages=systemd-sysv,dbus,udev,kmod,iproute2,procps,nfs-kernel-server,nfs-common,fio,rpm,python3,passwd,e2fsprogs${further:+,${further// /,}}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/trackiops/systems
image=$cache/$suite-$(cat "$0" - <<<"$further" | sha256sum | cut -c1-16).ext4
if [ ! -e "$image" ]; then
    command -v mmdebstrap >/dev/null || "$(dirname "$0")/../../scripts/install.sh" mmdebstrap
    echo "vm: making a Debian $suite with systemd (some minutes)" >&2
    mkdir -p "$cache"
    tree=$(mktemp -d)
    trap 'rm -rf "$tree" "$image.new"' EXIT
    mmdebstrap --quiet --variant=minbase --include="$packages" --dpkgopt='path-exclude=/usr/share/locale/*' "$suite" "$tree/root" "$mirror" >&2
    echo '/exp *(rw,no_root_squash,insecure,no_subtree_check,fsid=1)' >"$tree/root/etc/exports"
    printf '[nfsd]\ngrace-time=10\nlease-time=10\n' >"$tree/root/etc/nfs.conf"
    mkdir "$tree/root/exp" "$tree/root/mnt/nfs"
    rm -f "$image.new"
    truncate --size=3G "$image.new"
    mke2fs -q -t ext4 -d "$tree/root" "$image.new"
    mv "$image.new" "$image"
fi
echo "$image"
