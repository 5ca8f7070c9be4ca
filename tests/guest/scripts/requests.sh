# Every request kept one by one: a small known pattern, then direct and buffered I/O by fio.
. /work/lib.sh

start_recorder --granularity 1s --rotate 20s --requests
snapshot before

file=/mnt/nfs/pattern.bin
dd if=/dev/zero of=$file bs=4096 seek=5 count=3 oflag=direct conv=notrunc
dd if=/dev/zero of=$file bs=65536 seek=1 count=1 oflag=direct conv=notrunc
dd if=$file of=/dev/null bs=8192 skip=1 count=2 iflag=direct

fio --name=direct --directory=/mnt/nfs --rw=randrw --bs=4k --size=4m --numjobs=4 --direct=1 --ioengine=psync \
    --output-format=json --output="$OUT/direct.json"
fio --name=buffered --directory=/mnt/nfs --rw=write --bs=64k --size=32m --ioengine=psync --end_fsync=1 \
    --output-format=json --output="$OUT/buffered.json"
drop_caches
cat /mnt/nfs/buffered.0.0 >/dev/null
# Does the last I/O just after a rotation, long before the next one.
sleep $(((21 - $(date +%s) % 20) % 20))
cat $file >/dev/null

snapshot after
list_files /mnt/nfs
# Wait until the window has closed.
sleep 2
# Rows that were written but not sealed survive the end of the recorder.
kill -KILL "$RECORDER"
wait "$RECORDER" || true
ls /var/tmp/store/journal >"$OUT/journals"
start_recorder --granularity 1s --rotate 20s
stop_recorder INT
keep_store
