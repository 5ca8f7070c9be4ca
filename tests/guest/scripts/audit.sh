# Mounts of every kind while a recorder audits itself, and programs that the kernel skips: audit.sh
. /work/lib.sh

# put FILE COUNT: COUNT WRITE requests, and as many READs.
put() {
    dd if=/dev/zero of="$1" bs=4k count="$2" oflag=direct status=none
    dd if="$1" of=/dev/null bs=4k count="$2" iflag=direct status=none
}

# attach EXPORT DIR [OPTION]
attach() {
    mkdir -p "$2"
    mount -t nfs -o "vers=4.2${3:+,$3}" "127.0.0.1:$1" "$2"
}

export_dir() {
    mkdir -p "$1"
    mount -t tmpfs none "$1"
    exportfs -o "rw,no_root_squash,insecure,fsid=$2" "*:$1"
}

elsewhere() {
    attach /exp-c /mnt/inside
    put /mnt/inside/f 30
    # The recorder looks up the device when it meets the file, and its counters at one of the next looks.
    sleep 4
    put /mnt/inside/f 10
    sleep 2
    cp "/proc/$$/mountstats" "$OUT/mountstats.inside"
}

export OUT
export -f put attach elsewhere
for letter in a b c; do export_dir "/exp-$letter" "$((36#$letter))"; done

# --- mounts that share a superblock, that do not, that come, go and change ------------------------
attach /exp-a /mnt/a
put /mnt/a/before 20
start_recorder --granularity 1s,1m
snapshot before
put /mnt/nfs/f 40
# Ages are in seconds: mounts from here on are certainly younger than the recorder.
sleep 4
attach /exp /mnt/own nosharecache
put /mnt/own/g 50
mkdir -p /mnt/bound
mount --bind /mnt/a /mnt/bound
put /mnt/bound/f 10
put /mnt/a/f 10
mount -o remount,ro /mnt/a
mount -o remount,rw /mnt/a
put /mnt/a/f 10
for _ in 1 2; do
    attach /exp-b /mnt/turns
    put /mnt/turns/f 25
    sleep 3
    umount /mnt/turns
    sleep 0.5
done
attach /exp-b /mnt/turns
put /mnt/turns/f 25
unshare -m bash -euc elsewhere
umount -l /mnt/bound
sleep 2
snapshot after
stop_recorder
keep_store

# --- with a filter: the audit includes requests that the filter excludes --------------------------
STORE=/var/tmp/filtered
snapshot filtered.before
start_recorder --uid 4711
# Requests that the filter excludes before the first comparison are uncertain, and the audit omits them.
sleep 2
put /mnt/nfs/f 10
snapshot filtered.after
stop_recorder
cp -a "$STORE" "$OUT/filtered"

# --- programs that the kernel skips ---------------------------------------------------------------
# Their engine does not know how often, so the difference raises an alarm.
STORE=/var/tmp/skipped
start_recorder --engine tracepoint
snapshot skipped.before
hammers=()
for _ in 1 2; do
    python3 /work/hammer.py &
    hammers+=($!)
done
fio --name=crowd --directory=/mnt/nfs --size=256k --bs=4k --direct=1 --ioengine=psync --thread --numjobs=64 --rw=write >/dev/null
fio --name=crowd --directory=/mnt/nfs --size=256k --bs=4k --direct=1 --ioengine=psync --thread --numjobs=64 --rw=read >/dev/null
snapshot skipped.after
stop_recorder
cp -a "$STORE" "$OUT/skipped"
# The same if a filter excludes all requests.
STORE=/var/tmp/skipped_filtered
start_recorder --engine tracepoint --uid 4711
fio --name=crowd --directory=/mnt/nfs --size=256k --bs=4k --direct=1 --ioengine=psync --thread --numjobs=64 --rw=read >/dev/null
stop_recorder
kill "${hammers[@]}"
cp -a "$STORE" "$OUT/skipped_filtered"
