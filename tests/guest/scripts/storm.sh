# storm.sh SECONDS KIND...: every kind of I/O on file systems of these kinds, tmpfs, an overlay and NFS, on a machine with little memory and
# holes in it. Meanwhile recorders with all kinds of flags come and go, a CPU goes offline and online, and modules are unloaded.
#
# The recorder `steady` sees frozen file systems when it starts and stops, so its sums must equal the kernel's. In each round, NFS is
# loaded, mounted, recorded by `wire`, unmounted and unloaded.
. /work/lib.sh
. /work/storm_load.sh

seconds=$1
# Under emulation, the verifier of Linux 5.10 takes minutes beside 64 threads.
READY_SECONDS=900
panics=$(cat /proc/sys/kernel/panic_on_oops /proc/sys/kernel/panic_on_warn)
[ "$panics" = $'1\n1' ] || { echo "error: the kernel does not panic on warnings" >&2; exit 1; }

LOCAL=("${@:2}")
STORES=/mnt/stores
mkdir -p /run/recorders /run/count /sys/fs/cgroup/storm

# phase SECONDS NAME: the next step must end within this time, or three times as long on a busy host.
phase() {
    echo "storm: at $SECONDS s: $2" >&2
    echo "$((SECONDS + 3 * $1)) $2" >/run/phase.next
    mv /run/phase.next /run/phase
}

# Ends the storm if a phase does not end, and reports the phase and the waiting threads.
watch_phases() {
    local until name task
    while sleep 1; do
        read -r until name </run/phase
        ((SECONDS >= until)) || continue
        echo "error: the phase \"$name\" did not end in time; tasks that wait:" >&2
        cat /proc/loadavg >&2
        for task in $(grep -ls '^State:.D' /proc/[0-9]*/task/*/status); do
            task=${task%/status}
            { echo "${task#/proc/} $(<"$task/comm")" && cat "$task/stack"; } >&2 2>/dev/null || true
        done
        kill -TERM -- "-$$"
    done
}

# count NAME: increments a counter.
count() { echo >>"/run/count/$1"; }

# record NAME [FLAG...]: a recorder with a store of this name; samples its memory.
record() {
    begin_recording "$STORES/$1" "$OUT/$1.err" "${@:2}"
    echo "$BEGUN" >"/run/recorders/$1"
    count recorders
}

# ended NAME SIGNAL: a recorder that is not killed must end well.
ended() {
    local recorder status=0
    read -r recorder <"/run/recorders/$1"
    rm "/run/recorders/$1"
    kill -"$2" "$recorder"
    wait "$recorder" || status=$?
    [ "$2" = KILL ] || [ $status = 0 ] || { echo "error: $1 ended with status $status" >&2; return 1; }
}

sample_memory() {
    local began=$SECONDS file recorder
    while sleep 2; do
        for file in /run/recorders/*; do
            { read -r recorder <"$file" && awk -v name="${file##*/}" -v at=$((SECONDS - began)) \
                '/^VmRSS/ { print at, name, $2 }' "/proc/$recorder/status"; } 2>/dev/null || true
        done
    done >"$OUT/memory"
}

# Functions can be traced since Linux 5.15.
functions=
library=$(ldd "$(command -v python3)" | grep -o '/[^ ]*/libc[.]so[.]6')
[[ $(uname -r) == 5.10* ]] || functions="--user $library:fsync --user $library:rename"
WITH_NFS=(
    "--levels wire,app,block,cache --requests --app-latency $functions"
    "--levels wire,app --requests --app-latency --uid 0 --ops read,write"
    "--levels wire --engine tracepoint --requests"
    "--levels wire,app,block,cache --mount /mnt/nfs --mount /mnt/${LOCAL[-1]} --app-latency"
    "--levels wire,app --cgroup storm --no-latency-parts"
)
WITHOUT_NFS=(
    "--levels app,block,cache --requests --dir /mnt/ext4 --file /mnt/${LOCAL[-1]}/sparse"
    "--levels block,cache --ring-memory 64KiB --requests"
    "--levels app,block,cache --no-ops --app-latency --requests $functions"
)
SIGNALS=(INT TERM KILL)
comers=0

# come_and_go FLAGS
come_and_go() {
    local name=comer$((comers % 12))
    # Flags are words.
    # shellcheck disable=SC2086
    record "$name" --no-live $1
    sleep 3
    ended "$name" "${SIGNALS[comers % 3]}"
    comers=$((comers + 1))
}

# round NUMBER: from loading the NFS modules to unloading them.
round() {
    phase 120 "load NFS"
    modprobe nfs
    phase $READY_SECONDS "start the recorder of the wire"
    record wire --no-live --granularity 1s,1m --requests --requests-size 64MiB --app-latency
    mount -t nfs -o vers=4.2 127.0.0.1:/exp /mnt/nfs
    (echo "$BASHPID" >/sys/fs/cgroup/storm/cgroup.procs && load_nfs "$1" 15) &
    local load=$!
    phase $READY_SECONDS "a recorder comes and goes"
    come_and_go "${WITH_NFS[$1 % ${#WITH_NFS[@]}]}"
    phase 180 "the load on NFS ends"
    wait "$load"
    phase 180 "unmount and unload NFS"
    sync -f /mnt/nfs
    sleep 0.5
    cp /proc/self/mountstats "$OUT/mountstats.$1"
    umount /mnt/nfs
    ended wire INT
    wait_for 60 modprobe -r nfsv4 nfs
    count nfs
    # Where the verifier is slow, a round takes minutes.
    ((SECONDS < end)) || return 0
    phase $READY_SECONDS "a recorder comes and goes without NFS"
    come_and_go "${WITHOUT_NFS[$1 % ${#WITHOUT_NFS[@]}]}"
}

frozen() {
    for kind in "${LOCAL[@]}"; do fsfreeze "$1" "/mnt/$kind"; done
}

statistics() {
    for kind in "${LOCAL[@]}"; do
        cat "/sys/block/${devices[$kind]##*/}/stat" >"$OUT/stat.$kind.$1"
    done
}

phase 300 "make file systems"
watch_phases &
umount /mnt/nfs
modprobe -r nfsv3 nfsv4 nfs
disks
for kind in "${LOCAL[@]}"; do echo "${devices[$kind]}" >"$OUT/device.$kind"; done
sync
frozen --freeze
sleep 1
phase $READY_SECONDS "start the recorder of the whole storm"
record steady --levels "app,block,cache" --requests --requests-size 64MiB --app-latency --granularity 1s,1m
statistics before
frozen --unfreeze

grep -E '^(pgsteal_kswapd|pgsteal_direct|pswpout) ' /proc/vmstat >"$OUT/vmstat.before"
set -m # each of them ends with what it has started
for what in sample_memory offline_and_online unload_and_load compact_and_shrink; do
    $what &
    beside+=($!)
done
load_local "$seconds"
set +m
end=$((SECONDS + seconds))
for ((number = 0; SECONDS < end; number++)); do
    round $number
done
echo "$number rounds"
phase $((300 + seconds / 2)) "the load ends"
wait "${loads[@]}"
kill -- "${beside[@]/#/-}"
wait "${beside[@]}" || true
echo 1 >/sys/devices/system/cpu/cpu1/online
grep -E '^(pgsteal_kswapd|pgsteal_direct|pswpout) ' /proc/vmstat >"$OUT/vmstat.after"

phase $((300 + seconds / 4)) "write what is dirty, and freeze"
sync
frozen --freeze
sleep 1
statistics after
sleep 1
phase 180 "the recorder of the whole storm ends"
ended steady INT
frozen --unfreeze
phase 600 "check the stores"
for store in "$STORES"/*/; do
    [ -e "$store/catalog.db" ] || continue # lost+found
    expect "check.$(basename "$store")" trackiops store check --store "$store"
done
(cd /run/count && wc -l -- *) >"$OUT/counts"
ls -d /sys/devices/system/memory/memory[0-9]* >"$OUT/sections"
cp /sys/kernel/debug/kfence/stats "$OUT/kfence" 2>/dev/null || true
uname -r >"$OUT/kernel"
for store in steady wire; do cp -a "$STORES/$store" "$OUT/$store"; done
