# ops.sh FILES: metadata of every kind over every version of NFS, one mount after the other. Then over several connections, and over two
# mounts of one server, which share an RPC client. Each with a recording and two snapshots. At last without operations.
. /work/lib.sh

FILES=$1
umount /mnt/nfs
mkdir -p /exp2 /mnt/nfs2
mount -t tmpfs -o size=64m tmpfs /exp2
exportfs -o rw,no_root_squash,insecure,fsid=2 '*:/exp2'

# record NAME DIRECTORY...: works in the directories concurrently.
record() {
    local name=$1 directory workers=()
    shift
    STORE=/var/tmp/$name
    # Leases are renewed every few seconds, even without work. The outer snapshots give the upper bound.
    snapshot "$name.earliest"
    start_recorder --granularity 1s,10s --rotate 10s
    snapshot "$name.before"
    for directory; do
        python3 /work/metadata.py "$directory" "$FILES" &
        workers+=($!)
    done
    for worker in "${workers[@]}"; do wait "$worker"; done
    if [ -n "${told:-}" ]; then
        python3 /work/told.py "$1" "$told" >"$OUT/$name.told.json"
    fi
    # The kernel returns delegations and closes files some time later.
    sleep 2
    # While it records: rows that are not sealed yet.
    trackiops query --store "$STORE" --by op --step all --format json >"$OUT/$name.live.json"
    snapshot "$name.after"
    stop_recorder INT
    snapshot "$name.latest"
    cp -a "$STORE" "$OUT/$name"
}

for version in 3 4.0 4.1 4.2; do
    mount -t nfs -o "vers=$version" 127.0.0.1:/exp /mnt/nfs
    told=$version record "v$version" /mnt/nfs
    umount /mnt/nfs
    rm -r /exp/told
done

mount -t nfs -o vers=4.2,nconnect=3 127.0.0.1:/exp /mnt/nfs
record nconnect /mnt/nfs
umount /mnt/nfs

mount -t nfs -o vers=4.2 127.0.0.1:/exp /mnt/nfs
mount -t nfs -o vers=4.2 127.0.0.1:/exp2 /mnt/nfs2
record two /mnt/nfs /mnt/nfs2
find /sys/fs/nfs -maxdepth 2 -ls >"$OUT/sysfs.txt" 2>&1 || true
umount /mnt/nfs2

# programs NAME: number of BPF programs that the recorder holds.
programs() {
    # A descriptor may be closed meanwhile.
    { grep -h ^prog_id: "/proc/$RECORDER/fdinfo/"* || true; } | sort -u | wc -l >"$OUT/$1.programs"
}

STORE=/var/tmp/left-out
start_recorder --granularity 1s,10s --rotate 10s
programs with
stop_recorder INT
start_recorder --granularity 1s,10s --rotate 10s --no-ops
programs without
python3 /work/metadata.py /mnt/nfs "$FILES"
stop_recorder INT
cp -a "$STORE" "$OUT/left-out"
