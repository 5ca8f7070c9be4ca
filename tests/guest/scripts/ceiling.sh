# More calls than a low ceiling allows, then none, then requests and opens at full speed.
. /work/lib.sh

head -c 4000000 /dev/urandom >/mnt/nfs/cached.bin
head -c 4000000 /dev/urandom >/var/tmp/local.bin
sync
start_recorder --levels "${1:-wire,app,block,cache}" --requests --app-latency --app-view --max-overhead 10%
snapshot before
status() { trackiops status --json >"$OUT/status.$1" || true; }
sleep 2
status quiet

# busy SECONDS COMMAND...: on each CPU.
busy() {
    local seconds=$1 cpu
    shift
    for cpu in $(seq "$(nproc)"); do timeout "$seconds" "$@" & done
    # Each job ends after its time.
    for job in $(jobs -p); do [ "$job" = "$RECORDER" ] || wait "$job" || true; done
}

cat >/work/preads.py <<'PY'
import os, sys
files = [os.open(path, os.O_RDONLY) for path in sys.argv[1:]]
while True:
    for file in files:
        for block in range(500):
            os.pread(file, 4096, 4096 * block)
PY
(sleep 5 && status calls) &
LOOKS=$!
busy 7 python3 /work/preads.py /mnt/nfs/cached.bin /var/tmp/local.bin
wait "$LOOKS"
# Details come back after some quiet seconds.
sleep 10
status calm

cat >/work/requests.py <<'PY'
import mmap, os, sys
page = mmap.mmap(-1, 4096)
while True:
    file = os.open("/mnt/nfs/cached.bin", os.O_RDONLY | os.O_DIRECT)
    for block in range(20):
        os.preadv(file, [page], 4096 * block)
    os.close(file)
PY
busy 6 python3 /work/requests.py
status requests
snapshot after
stop_recorder INT
trackiops query --store "$STORE" --step all --columns path,app_read_calls,read_requests --csv >"$OUT/noted.csv" 2>"$OUT/noted.err"
trackiops query --store "$STORE" --step all --json >"$OUT/rows.json" 2>"$OUT/rows.err"
trackiops export --store "$STORE" --dataset health --granularity 1s --output "$OUT/health.csv"
