# Faults on real traffic. Arguments: NFS versions.
. /work/lib.sh

FIRST=$1
LAST=${*: -1}

# mount_version VERSION SERVER:/PATH MOUNT_POINT [OPTIONS]
mount_version() {
    local tcp=proto=tcp
    # mount.nfs also asks v3's portmapper about UDP, but it knows only one port, not the ports of the proxies.
    [[ $1 = 3 ]] && tcp+=,mountproto=tcp
    mkdir -p "$3"
    mount -t nfs -o "vers=$1,$tcp${4:+,$4}" "$2" "$3"
}

# export_more: a file system with a separate server device, so that its mounts have separate RPC clients.
export_more() {
    mkdir -p /exp2
    mount -t tmpfs -o size=64m tmpfs /exp2
    exportfs -o rw,no_root_squash,insecure,fsid=2 '*:/exp2'
}

# --- one fault per file, through a proxy ------------------------------------------------------------
proxied() {
    local version ports=()
    for version in "$@"; do
        ports+=($((3000 + ${version/./})))
    done
    python3 /work/nfsproxy.py "$OUT/injected" /run/nfsproxy "${ports[@]}" &
    wait_for 60 test -S /run/nfsproxy
    for version in "$@"; do
        mkdir "/exp/proxied-$version"
        mount_version "$version" "127.0.0.1:/exp/proxied-$version" "/mnt/$version" \
            "port=$((3000 + ${version/./})),rsize=65536,wsize=65536,timeo=20,retrans=5"
    done
    snapshot proxied.before
    python3 /work/faults.py /run/nfsproxy "$OUT/cases" "$@"
    snapshot proxied.after
    python3 /work/bpfmaps.py >"$OUT/maps.proxied"
    for version in "$@"; do umount "/mnt/$version"; done
}

# --- task ids: more than 65,536 requests while one is in flight; two mounts in step ------------------
task_ids() {
    export_more
    mkdir /exp/wrapped /exp2/slow /exp2/fast
    truncate -s 4M /exp/wrapped/many /exp2/slow/slow /exp2/fast/fast
    truncate -s 64K /exp/wrapped/held
    # Traffic to and from 127.0.0.2 takes 10 ms.
    modprobe -a sch_prio sch_netem cls_u32
    tc qdisc add dev lo root handle 1: prio bands 4
    tc qdisc add dev lo parent 1:4 handle 40: netem delay 10ms
    tc filter add dev lo parent 1: protocol ip u32 match ip dst 127.0.0.2 flowid 1:4
    tc filter add dev lo parent 1: protocol ip u32 match ip src 127.0.0.2 flowid 1:4
    mount_version 3 127.0.0.1:/exp/wrapped /mnt/wrapped
    mount_version "$FIRST" 127.0.0.2:/exp2/slow /mnt/slow
    mount_version "$LAST" 127.0.0.1:/exp2/fast /mnt/fast
    snapshot ids.before
    python3 /work/leased.py /exp/wrapped/held /mnt/wrapped/held /run/held /run/release "$OUT/held" &
    wait_for 60 test -e /run/held
    python3 /work/bpfmaps.py >"$OUT/maps.held"
    python3 /work/aligned.py /mnt/slow/slow /mnt/fast/fast 300 "$OUT/aligned" &
    fio --name=many --filename=/mnt/wrapped/many --rw=randrw --bs=4k --size=4m --io_size=66m --numjobs=4 --direct=1 \
        --ioengine=libaio --iodepth=16 --norandommap --output-format=json --output="$OUT/many.json"
    touch /run/release
    wait %?leased %?aligned
    snapshot ids.after
    python3 /work/bpfmaps.py >"$OUT/maps.ids"
    tc qdisc del dev lo root
    umount /mnt/wrapped /mnt/slow /mnt/fast
}

# --- the server goes and comes back while every version reads and writes -----------------------------
restarted() {
    local version
    for version in "$@"; do
        mkdir "/exp/restarted-$version"
        mount_version "$version" "127.0.0.1:/exp/restarted-$version" "/mnt/$version" rsize=65536,wsize=65536
    done
    snapshot restarted.before
    python3 /work/steady.py /run/steady /run/stop "$OUT/restarted" "${@/#//mnt/}" &
    wait_for 60 test -e /run/steady
    rpc.nfsd 0
    sleep 2
    rpc.nfsd -G 10 -L 10 8
    sleep 3
    touch /run/stop
    wait %?steady
    snapshot restarted.after
    python3 /work/bpfmaps.py >"$OUT/maps.restarted"
    for version in "$@"; do umount "/mnt/$version"; done
}

# watch_bpf_calls: traces every bpf(2) of the recorder's threads.
watch_bpf_calls() {
    local instance=/sys/kernel/tracing/instances/bpf
    mkdir "$instance"
    echo 1 >"$instance/options/event-fork"
    ls "/proc/$RECORDER/task" >"$instance/set_event_pid"
    echo 1 >"$instance/events/syscalls/sys_enter_bpf/enable"
}

umount /mnt/nfs
# Only the tracepoint engine has links between events; the other engine must give the same results.
start_recorder --engine tracepoint
start_beside --engine direct
watch_bpf_calls
for phase in proxied task_ids restarted; do
    "$phase" "$@"
done
list_files /exp
# Calls on elements of maps, single or in batches, keep programs away (`bpf_disable_instrumentation`, kernel/bpf/syscall.c). The recorder
# reads run times of programs without such calls.
grep -E 'sys_bpf[(]cmd: ([1-4]|15|18|19|1a|1b),' /sys/kernel/tracing/instances/bpf/trace >"$OUT/bpf_calls" || true
stop_recorder INT
keep_store
