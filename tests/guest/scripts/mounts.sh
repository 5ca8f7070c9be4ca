# Files on mounts of every origin: mounts.sh VERSION...
. /work/lib.sh

# put MOUNT PATH FILE COUNT: COUNT WRITE requests for a file, expected under this mount and path.
put() {
    dd if=/dev/zero of="$3" bs=4k count="$4" oflag=direct status=none
    stat -c "$4	%Hd:%Ld	%i	$1	$2" "$3" >>"$LIST"
}

# put_at MOUNT FILE COUNT: like `put`; the path is the file's own.
put_at() {
    put "$1" "$2" "$2" "$3"
}

# attach EXPORT DIR
attach() {
    mkdir -p "$2"
    mount -t nfs -o "vers=$VERSION,nolock" "$SERVER:$1" "$2"
}

# export_dir DIR FSID [OPTION]: a separate file system.
export_dir() {
    mountpoint -q "$1" || { mkdir -p "$1"; mount -t tmpfs none "$1"; }
    exportfs -o "rw,no_root_squash,insecure,fsid=$2${3:+,$3}" "*:$1"
}

# turn LETTER PATH: mounts an export where others were mounted before and will be later.
turn() {
    attach "/exp-$1" /mnt/turns
    stat -c %d /mnt/turns >>"$OUT/devices.$VERSION"
    put "$SERVER:/exp-$1" "$2" "/mnt/turns/$1" 3
}

# Mounts in a private namespace. The recorder looks for each one when the window of its use ends, so it lasts longer.
in_another_namespace() {
    attach /exp-c /mnt/inside
    put_at "$SERVER:/exp-c" /mnt/inside/f 5
    attach /exp-f /mnt/inside-too
    put_at "$SERVER:/exp-f" /mnt/inside-too/f 6
    sleep 1.5
    umount /mnt/inside-too
    attach /exp-g /mnt/inside-too
    put_at "$SERVER:/exp-g" /mnt/inside-too/f 7
    sleep 1.5
}

export SERVER=127.0.0.1
export -f put put_at attach in_another_namespace
umount /mnt/nfs
export_dir /exp/sub 2 nohide
for letter in {a..g}; do
    export_dir "/exp-$letter" "$((36#$letter))"
    mkdir -p "/exp-$letter/dir"
done

for VERSION in "$@"; do
    export VERSION LIST=$OUT/list.$VERSION
    STORE=/var/tmp/store-$VERSION
    start_recorder --granularity 1s,1m

    # Two exports of one server; a mount within another one; a part of an export at a second place.
    attach /exp-a /mnt/a
    attach /exp-b /mnt/b
    put_at "$SERVER:/exp-a" /mnt/a/f 2
    put_at "$SERVER:/exp-b" /mnt/b/f 3
    attach /exp /mnt/nest
    put_at "$SERVER:/exp" "/mnt/nest/top-$VERSION" 2
    put_at "$SERVER:/exp/sub" "/mnt/nest/sub/inside-$VERSION" 4
    mkdir -p /mnt/bound
    mount --bind /mnt/a/dir /mnt/bound
    put "$SERVER:/exp-a/dir" /mnt/bound/f /mnt/bound/f 3
    # The same export, and the same superblock, twice.
    attach /exp-a /mnt/again
    put "$SERVER:/exp-a" /mnt/a/f /mnt/again/f 5
    # Wait until the window of its use closes.
    sleep 1.2
    # Only the part remains, and it is still the same file system.
    umount /mnt/a /mnt/again
    sleep 0.3
    put "$SERVER:/exp-a/dir" /mnt/bound/f /mnt/bound/f 2
    put "$SERVER:/exp-a/dir" /mnt/bound/g /mnt/bound/g 4
    umount /mnt/bound

    # Device numbers are reused: with a look in between, without one, and without one during the mount.
    for export in c d d; do
        turn "$export" "/mnt/turns/$export"
        sleep 1.2
        umount /mnt/turns
    done
    turn e /mnt/turns/e
    sleep 0.3
    kill -STOP "$RECORDER"
    put_at "$SERVER:/exp-e" /mnt/turns/e 2
    umount /mnt/turns
    turn f /mnt/turns/f
    kill -CONT "$RECORDER"
    sleep 0.3
    kill -STOP "$RECORDER"
    umount /mnt/turns
    turn g -
    umount /mnt/turns
    kill -CONT "$RECORDER"

    unshare -m bash -euc in_another_namespace

    attach /exp-d /mnt/d
    put_at "$SERVER:/exp-d" /mnt/d/f 2
    sleep 0.5
    mount -o remount,ro /mnt/d
    sleep 0.5
    mount -o remount,rw /mnt/d
    sleep 0.5
    put_at "$SERVER:/exp-d" /mnt/d/f 3

    stop_recorder
    cp -a "$STORE" "$OUT/store-$VERSION"
    umount -R /mnt/b /mnt/d /mnt/nest
done
