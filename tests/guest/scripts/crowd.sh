# 64 threads; each reads its own file from begin to end, then writes it again. Argument: number of listeners.
. /work/lib.sh

job() {
    fio --name=crowd --directory=/mnt/nfs --size=256k --bs=4k --direct=1 --ioengine=psync --thread --numjobs=64 "$@" >/dev/null
}

# listen COUNT: that many listeners. The last one sends unexpected data, the one before reconnects all the time, and the one before that
# does not read.
listen() {
    local i
    for ((i = 4; i <= $1; i++)); do
        trackiops watch --csv --by mount >"$OUT/heard-$i" 2>/dev/null &
    done
    python3 - <<'EOF' &
import signal, socket
path = "/run/trackiops/live.sock"
deaf, loud = (socket.socket(socket.AF_UNIX) for _ in range(2))
deaf.connect(path)
loud.connect(path)
for _ in range(1000):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
    try:
        loud.send(b"garbage" * 1000, socket.MSG_DONTWAIT)
    except OSError:
        pass
open("/run/listening", "w").close()
signal.pause()
EOF
    wait_for 120 test -e /run/listening
    # The listening socket, and a connection for each listener.
    wait_for 120 sh -c "[ \$(grep -c /live.sock /proc/net/unix) -ge $(($1 - 1)) ]"
}

job --rw=write
start_recorder
[ "${1:-0}" -eq 0 ] || listen "$1"
snapshot before
job --rw=read
job --rw=write
snapshot after
grep VmHWM "/proc/$RECORDER/status" >"$OUT/memory"
stop_recorder
wait_for 60 sh -c "! grep -q /live.sock /proc/net/unix"
keep_store
