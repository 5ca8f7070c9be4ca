# One cell of the matrix after the other: a fresh mount, one kind of I/O, the kernel's own count before and after.
# One recorder records all cells. Arguments: four words per cell: name, version, kind and mount options.
. /work/lib.sh

MOUNT=/mnt/nfs

idle() {
    ! cat /sys/kernel/debug/sunrpc/rpc_clnt/*/tasks 2>/dev/null | grep -q .
}

# count FILE: the kernel's statistics, with nothing in flight.
count() {
    sync -f "$MOUNT"
    wait_for 60 idle
    cp /proc/self/mountstats "$1"
}

# Asynchronous and direct I/O: written, then read back. fio does not lay out files beforehand, so it counts every request.
run_fio() {
    fio --directory="$MOUNT" --filename=data --bs=16k --size=2m --direct=1 --fallocate=none --create_on_open=1 --ioengine="$1" --iodepth="$2" \
        --name=write --rw=randwrite --name=read --stonewall --rw=randread --output-format=json --output="$3"
}

run_kind() {
    case $1 in
        direct) run_fio psync 1 "$2" ;;
        aio) run_fio libaio 8 "$2" ;;
        io_uring) run_fio io_uring 8 "$2" ;;
        *) python3 -IS /work/matrix_io.py "$1" "$MOUNT" >"$2" ;;
    esac
}
export -f run_kind run_fio
export MOUNT

# A failure ends the cell, not the run.
cell() {
    local name=$1 version=$2 kind=$3 options=$4 kept=$OUT/cells/$1
    set -e
    mkdir "/exp/$name"
    mount -t nfs -o "vers=$version,$options" "127.0.0.1:/exp/$name" "$MOUNT"
    count "$kept/before"
    timeout -k 5 60 bash -euo pipefail -c 'run_kind "$@"' - "$kind" "$kept/report"
    count "$kept/after"
    (cd "$MOUNT" && find . -type f -printf '%i\t%P\n') >"$kept/files"
    umount "$MOUNT"
}

uname -rv >"$OUT/kernel"
# A new mount reuses the connections of an existing mount of the same server, including its nconnect.
umount "$MOUNT"
start_recorder --engine direct --granularity 1s,10s,1m --rotate 20s
start_beside --engine tracepoint --granularity 1s,10s,1m --rotate 20s
while (($#)); do
    mkdir -p "$OUT/cells/$1"
    set +e
    (cell "$1" "$2" "$3" "$4") >"$OUT/cells/$1/log" 2>&1
    status=$?
    set -e
    echo "$status" >"$OUT/cells/$1/status"
    # Left mounted by a cell that failed.
    ! mountpoint -q "$MOUNT" || umount -f -l "$MOUNT"
    shift 4
done
stop_recorder INT
keep_store
