# Every kind of I/O on two mounts whose files have equal inode numbers, between two snapshots.
. /work/lib.sh

mkdir -p /exp2 /mnt/nfs2
mount -t tmpfs -o size=256m tmpfs /exp2
exportfs -o rw,no_root_squash,insecure,fsid=2 '*:/exp2'
mount -t nfs -o vers=4.2 127.0.0.1:/exp2 /mnt/nfs2

start_recorder --granularity 1s,10s,1m --rotate 10s
# Listeners that read, and listeners that do not: none costs a request.
trackiops watch --json >"$OUT/watch.json" 2>"$OUT/watch.err" &
trackiops watch --csv --by mount --step 10s >"$OUT/watch.csv" 2>"$OUT/watch.csv.err" &
trackiops watch --by op,file >"$OUT/watch.txt" 2>"$OUT/watch.txt.err" &
trackiops watch >/dev/null 2>&1 &
kill -STOP $!
for door in watch "top --once" status; do
    # Split its words.
    # shellcheck disable=SC2086
    expect "other-${door%% *}" setpriv --reuid 1000 --regid 1000 --clear-groups trackiops $door
done
snapshot before

# Buffered: written, then read back over the wire; the last page is partial.
head -c 16779000 /dev/urandom >/mnt/nfs/buffered.bin
drop_caches
cat /mnt/nfs/buffered.bin >/dev/null

# A hole, which READ_PLUS sends as a hole.
truncate -s 4M /mnt/nfs/sparse.bin
drop_caches
cat /mnt/nfs/sparse.bin >/dev/null

fio --name=direct --directory=/mnt/nfs --rw=randrw --bs=4k --size=4m --io_size=4m --numjobs=4 --direct=1 \
    --ioengine=psync --output-format=json --output="$OUT/direct.json"
drop_caches
fio --name=mapped --directory=/mnt/nfs --rw=randrw --bs=4k --size=8m --ioengine=mmap --fsync=64 --end_fsync=1 \
    --output-format=json --output="$OUT/mapped.json"

# Moves no data over the wire.
cp /mnt/nfs/buffered.bin /mnt/nfs/copied.bin

# Two exports: the same inode number, different contents.
head -c 1048576 /dev/urandom >/mnt/nfs2/twin.bin
drop_caches
cat /mnt/nfs2/twin.bin >/dev/null

# No requests for a while: windows without a row, but covered.
sleep 3

snapshot after
list_files /mnt/nfs /mnt/nfs2
stat -c %d /mnt/nfs /mnt/nfs2 >"$OUT/devices"
stop_recorder INT
wait_for 60 grep -q "has ended" "$OUT/watch.json" "$OUT/watch.err"
pkill -KILL -f 'trackiops watch'
keep_store
