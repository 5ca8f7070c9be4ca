# CPU time of an idle recorder, by number of mounts. Argument: the number of mounts. With --icount, ns are instructions.
. /work/lib.sh

for ((i = 0; i < $1; i++)); do
    mkdir -p "/mnt/$i"
    mount -t nfs -o vers=4.2,nosharecache 127.0.0.1:/exp "/mnt/$i"
done
start_recorder --no-live
# CPU time of each thread: name, ns.
cpu() {
    local task
    for task in "/proc/$RECORDER/task/"*; do
        echo "$(cat "$task/comm") $(cut -d' ' -f1 "$task/schedstat")"
    done | sort >"$OUT/cpu.$1"
}
# Skip the first looks. Two more minutes have two looks at all mounts.
sleep 15
cpu before
sleep 120
cpu after
stop_recorder
keep_store
