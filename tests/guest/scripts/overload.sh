# A recorder that is stopped while requests continue, and one that is killed: its report for each second and tenant.
. /work/lib.sh

# tenant NAME UID: a cgroup, and a user who works in it.
tenant() {
    mkdir -p "/sys/fs/cgroup/$1"
    truncate -s 1M "/mnt/nfs/$1.bin"
    chown "$2" "/mnt/nfs/$1.bin"
}

# work NAME UID KIND: in bursts, until /run/stop.
work() {
    local name=$1 uid=$2 kind=$3
    (
        echo $BASHPID >"/sys/fs/cgroup/$name/cgroup.procs"
        exec setpriv --reuid "$uid" --regid "$uid" --clear-groups \
            python3 /work/bursts.py "$kind" "/mnt/nfs/$name.bin" /run/stop "/run/results/$name"
    ) &
    WORKERS+=($!)
}

# begin_work, end_work PHASE
begin_work() {
    WORKERS=()
    work ann 1001 read
    work bob 1002 write
    work cleo 1003 buffered
}
end_work() {
    touch /run/stop
    wait "${WORKERS[@]}"
    rm /run/stop
    for name in ann bob cleo; do mv "/run/results/$name" "$OUT/$1.$name"; done
}

# in_second FRACTION: waits until this part of a second, such as its middle.
in_second() {
    python3 -c 'import sys, time; now = time.time(); time.sleep((float(sys.argv[1]) - now) % 1)' "$1"
}

echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir -m 1777 /run/results
chmod 755 /mnt/nfs
tenant ann 1001
tenant bob 1002
tenant cleo 1003
list_files /mnt/nfs

# --- stopped for 30 s, with rings for a second or so ---------------------------------------------
start_recorder --ring-memory 64KiB
snapshot before
kill -STOP "$RECORDER"
begin_work
sleep 30
end_work stopped
kill -CONT "$RECORDER"
snapshot after
sleep 2
stop_recorder
keep_store

# --- stopped with more files and windows than the sums have room for -------------------------------
STORE=/var/tmp/many
crowd() {
    fio --name=many --directory=/mnt/nfs --size=256k --bs=4k --direct=1 --ioengine=psync --thread --numjobs=64 "$@" >/dev/null
}
crowd --rw=write
start_recorder --ring-memory 64KiB --granularity 100ms,1s
snapshot many.before
kill -STOP "$RECORDER"
# About one request a window for each file, at any speed of the host: 64 times 360 of them, with room for 16,384.
crowd --rw=randrw --rate_iops=6,6 --io_size=1440k
kill -CONT "$RECORDER"
snapshot many.after
sleep 2
stop_recorder
cp -a "$STORE" "$OUT/many.store"
tail -n 1 "$OUT/record.err" >"$OUT/many.said"

# --- killed in the middle of a second, and started again -----------------------------------------
STORE=/var/tmp/killed
start_recorder
begin_work
sleep 5
in_second 0.5
date +%s >"$OUT/killed"
kill -KILL "$RECORDER"
wait "$RECORDER" || true
sleep 3
start_recorder
date +%s >"$OUT/restarted"
sleep 5
end_work killed
sleep 2
stop_recorder
cp -a "$STORE" "$OUT/killed.store"
