# The NFS client's modules come and go: the recorder waits for them, and lets go of them when it stops.
. /work/lib.sh

unload() { rmmod nfsv4 nfs; }
mount_and_write() {
    mount -t nfs -o vers=4.2 127.0.0.1:/exp /mnt/nfs
    dd if=/dev/zero of=/mnt/nfs/file bs=64k count="$1" oflag=direct conv=notrunc 2>/dev/null
}

umount /mnt/nfs
modprobe -r nfsv3 2>/dev/null || true
unload

# Not loaded: the recorder says so, or waits.
expect not_loaded trackiops record --levels wire --store "$STORE" --duration 1s
expect unused timeout --preserve-status 5 trackiops record --store /var/tmp/unused --wait
cat /proc/modules >"$OUT/modules"

# The rules at the time of the first request apply, not the rules at the start.
tenants() { printf '[[rule]]\ntenant = "%s"\n' "$1" >/run/tenants.toml; }
tenants early
trackiops record --store "$STORE" --wait --tenants /run/tenants.toml --ready-file /run/trackiops.ready 2>"$OUT/wait.err" &
RECORDER=$!
# The message means that signals are handled: before, SIGHUP would end it.
wait_for 60 grep -q waiting "$OUT/wait.err"
test ! -e /run/trackiops.ready
tenants late
kill -HUP $RECORDER
wait_for 60 grep -q reloaded "$OUT/wait.err"
modprobe nfs
wait_for 60 test -s /run/trackiops.ready
mount_and_write 16
snapshot first
umount /mnt/nfs
# While it records, the module stays: the kernel refuses to unload it, and nothing hangs.
rmmod nfsv4
! rmmod nfs 2>"$OUT/in_use.err"
stop_recorder TERM
rmmod nfs
touch "$OUT/released.stopped"

# Stopped under load, then killed.
modprobe nfs
for how in TERM KILL; do
    start_recorder
    mount_and_write 16
    snapshot "before.$how"
    fio --name=load --directory=/mnt/nfs --rw=randrw --bs=4k --size=1m --numjobs=4 --direct=1 --ioengine=psync \
        --time_based --runtime=3 >/dev/null &
    load=$!
    sleep 1
    kill -"$how" "$RECORDER"
    wait "$RECORDER" || true
    wait "$load"
    umount /mnt/nfs
    # The kernel closes descriptors of a killed process some time later.
    if [ "$how" = KILL ]; then wait_for 60 rmmod nfsv4 && wait_for 60 rmmod nfs; else unload; fi
    touch "$OUT/released.$how"
    modprobe nfs
done
keep_store
