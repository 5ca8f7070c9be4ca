# Sourced by the guest scripts: starting and stopping the recorder, snapshots of the ground truth.
set -euo pipefail

STORE=${STORE:-/var/tmp/store}
# Under emulation, a busy recorder exceeds the default overhead limit, and would shed details that tests need.
export TRACKIOPS_RECORD_MAX_OVERHEAD=${TRACKIOPS_RECORD_MAX_OVERHEAD-100%}
# And sealing at the end takes longer than allowed without a service manager.
export NOTIFY_SOCKET=${NOTIFY_SOCKET-/run/not-listening}

# A pipe to which no process writes.
[ -p /run/never ] || mkfifo -m 666 /run/never

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
    local left=$(($1 * 10))
    shift
    until "$@"; do
        ((left-- > 0)) || { echo "gave up waiting for: $*" >&2; return 1; }
        # Starts no process: under emulation, ten times a second, that takes a good part of a CPU.
        # Its status is above 128 after that time, and 1 where there is no pipe.
        read -rt 0.1 <>/run/never || (($? > 128)) || sleep 0.1
    done
}

# start_recorder [FLAG...]: returns once every probe is attached.
start_recorder() {
    begin_recording "$STORE" "$OUT/record.err" "$@" || return
    RECORDER=$BEGUN
}

# start_beside [FLAG...]: another recorder beside it, with a separate store, for comparison.
start_beside() {
    begin_recording "$STORE-beside" "$OUT/beside.err" --no-live "$@"
    BESIDE=$BEGUN
}

# counts_calls FLAGS: whether a recorder counts calls of applications. If that needs probes, only tests of calls enable it.
counts_calls() {
    case "$(uname -r) $1" in
    7.* | *tracepoint*) echo false ;;
    *--levels*wire*) echo true ;;
    *--levels*) echo false ;;
    *) echo true ;;
    esac
}

begin_recording() {
    local store=$1 said=$2
    shift 2
    rm -f /run/trackiops.ready # of a recorder that was killed
    TRACKIOPS_RECORD_APP_VIEW=$(counts_calls "$*") \
        trackiops record --store "$store" --ready-file /run/trackiops.ready "$@" 2>>"$said" &
    BEGUN=$!
    wait_for "${READY_SECONDS:-180}" test -s /run/trackiops.ready || { cat "$said" >&2; return 1; }
}

# stop_recorder [SIGNAL]: returns the recorder's exit status.
stop_recorder() {
    kill -"${1:-INT}" "$RECORDER" ${BESIDE:-}
    wait "$RECORDER" ${BESIDE:-}
}

# snapshot NAME: the kernel's own statistics, with nothing in flight.
snapshot() {
    sync
    sleep 0.5
    cp /proc/self/mountstats "$OUT/mountstats.$1"
}

# list_files: fileid, size and path of every file on NFS, for the checks on the host.
list_files() {
    find "$@" -type f -printf '%i\t%s\t%p\n' >"$OUT/files"
}

keep_store() {
    mkdir -p "$OUT/store"
    cp -a "$STORE/." "$OUT/store/"
    [ -z "${BESIDE:-}" ] || cp -a "$STORE-beside" "$OUT/beside"
}

drop_caches() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

# expect NAME COMMAND...: keeps status and messages of a command for the checks on the host.
expect() {
    local name=$1 status=0
    shift
    timeout 60 "$@" >"$OUT/$name.out" 2>"$OUT/$name.err" || status=$?
    echo "$status" >"$OUT/$name.status"
}

# rdma_server: the server at $RDMA, port 20049, over software RoCE on a device that is not connected.
RDMA=10.9.0.1
rdma_server() {
    ! grep -q rdma /proc/fs/nfsd/portlist || return 0
    modprobe -a dummy rdma_rxe rpcrdma
    ip link add roce type dummy
    ip addr add "$RDMA/24" dev roce
    ip link set roce up
    rdma link add rxe0 type rxe netdev roce
    echo "rdma 20049" >/proc/fs/nfsd/portlist
}

[ ! -d /run/systemd/system ] || . /work/service.sh
