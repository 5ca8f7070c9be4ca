# A recorder rereads its configuration on SIGHUP: retention changes, and nothing else.
. /work/lib.sh

CONFIG=/etc/trackiops/trackiops.toml
mkdir -p /etc/trackiops/conf.d
printf '[record]\nretain = "1s=2d,1m=forever"\n' >$CONFIG
printf '[record]\ngranularity = "1s,1m"\nrotate = "4s"\n' >/etc/trackiops/conf.d/windows.toml
expect check trackiops config check
expect show trackiops config show

write_for() {
    local until=$((SECONDS + $1))
    while ((SECONDS < until)); do
        dd if=/dev/zero of=/mnt/nfs/some.bin bs=64k count=4 oflag=direct conv=notrunc 2>/dev/null
        sleep 0.2
    done
}

# oldest GRANULARITY: begin of its first segment, from the name. A merged segment keeps that time.
oldest() {
    find "$STORE/rollup/granularity=$1" -name '*.parquet' | grep -o '[0-9]*T[0-9]*Z' | sort | head -n 1
}

fine_have_expired() {
    [ "$(oldest 1s)" != "$(cat "$OUT/oldest.1s")" ]
}

# Stands in for systemd.
python3 - "$OUT/notified" <<'EOF' &
import socket, sys
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind("\0manager")
with open(sys.argv[1], "w", buffering=1) as told:
    while "STOPPING=1" not in (words := manager.recv(65536).decode()):
        told.write(words.replace("\n", " ") + "\n")
    told.write(words.replace("\n", " ") + "\n")
EOF
wait_for 60 test -e "$OUT/notified"
export NOTIFY_SOCKET=@manager WATCHDOG_USEC=1000000
start_recorder
unset NOTIFY_SOCKET WATCHDOG_USEC
snapshot before
write_for 16
for granularity in 1s 1m; do
    oldest $granularity >"$OUT/oldest.$granularity"
done
# Wait for two more rotations.
sleep 8
! fine_have_expired || { echo "expired before SIGHUP" >&2; exit 1; }
# Now also with a filter, which cannot change.
printf '[record]\nretain = "1s=5s,1m=forever"\nuid = [4242]\n' >$CONFIG
kill -HUP "$RECORDER"
write_for 5
wait_for 60 fine_have_expired
oldest 1m >"$OUT/oldest.1m.after"
expect status trackiops status --json
# A mistake changes nothing.
printf '[record]\nretian = "1s=1d"\n' >$CONFIG
kill -HUP "$RECORDER"
write_for 5
expect again trackiops status --json
snapshot after
sleep 2
stop_recorder
keep_store
