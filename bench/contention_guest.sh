# Profiles the load under each contender: CPUS SECONDS CONTENDER...
. /work/lib.sh

cpus=$1 seconds=$2
shift 2

# A breakpoint on the begin of each function that waits for a spinlock. BPF's own maps and rings use `resilient` locks since Linux 6.15,
# which allow no other probe. There are four debug registers.
breakpoints() {
    grep -wE '(native|resilient)_queued_spin_lock_slowpath|queued_(read|write)_lock_slowpath' /proc/kallsyms |
        sed -E 's|^([0-9a-f]+) .*|--event\nmem:0x\1/8:x|'
}

# The load of tests/guest/scripts/crowd.sh, for longer.
load() {
    local way
    for way in read write; do
        fio --name=crowd --directory=/mnt/nfs --size=256k --bs=4k --direct=1 --ioengine=psync --thread --numjobs=64 \
            --time_based --runtime="$1" --rw="$way" --group_reporting --output-format=json --output="/tmp/load.$way"
    done
}
export -f load

# Every event takes the lock of one entry of one map, far more often than NFS completes requests.
control() {
    bpftrace -e 'BEGIN { printf("ready\n") } rawtracepoint:sched_switch, rawtracepoint:sched_wakeup { @last[0] = nsecs }' \
        >/tmp/control &
    RECORDER=$!
    wait_for 60 grep -q ready /tmp/control
}

mapfile -t waits < <(breakpoints)
load 1 # makes the files
number=0
for contender; do
    RECORDER=
    case $contender in
        none) ;;
        control) control ;;
        *) start_recorder --engine "$contender" ;;
    esac
    # `--freq` would also thin out the breakpoints, but each of their events counts.
    # shellcheck disable=SC2068 # words
    perf record --output /tmp/profile --all-cpus --call-graph fp --event cpu-clock/freq=999/ ${waits[@]} \
        -- bash -c "load $seconds" >/tmp/perf 2>&1 || { cat /tmp/perf >&2; exit 1; }
    [ -z "$RECORDER" ] || stop_recorder
    perf script --input /tmp/profile --fields event,ip,sym 2>/dev/null >/tmp/samples
    python3 /work/contention.py "$(uname -r)" "$cpus" "$contender" /tmp/samples /tmp/load.read /tmp/load.write |
        tee "$OUT/row.$number"
    number=$((number + 1))
done
