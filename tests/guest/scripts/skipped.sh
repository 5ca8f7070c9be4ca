# skipped.sh THREADS REQUESTS [blind REQUESTS | rdma]: THREADS threads read and write their own files, and create others. Meanwhile a
# process spins on every CPU, so programs are interrupted in the middle of a request. With `blind` once more, without recovery.
. /work/lib.sh

threads=$1

job() {
    fio --name=skipped --directory=/mnt/nfs --size=64k --bs=4k --direct=1 --ioengine=psync --thread --numjobs="$threads" "$@" >/dev/null
}

# Operations on many files: each OPEN, SETATTR and REMOVE may be skipped.
metadata() {
    local i
    for ((i = 0; i < 40; i++)); do
        touch "/mnt/nfs/$1.$i"
        chmod 600 "/mnt/nfs/$1.$i"
        rm "/mnt/nfs/$1.$i"
    done
}

if [ "${3:-}" = rdma ]; then
    umount /mnt/nfs
    rdma_server
    mount -t nfs -o vers=4.2,rdma,port=20049 "$RDMA:/exp" /mnt/nfs
fi
job --rw=write

# recorded REQUESTS [COMMAND...]: a recording of them; the command begins it.
recorded() {
    local i spinning=() working=()
    start_recorder --granularity 1s
    "${@:2}"
    # Requests from before all programs were attached are over.
    sleep 1
    snapshot before
    for ((i = 0; i < $(nproc); i++)); do
        while :; do :; done &
        spinning+=($!)
    done
    for ((i = 0; i < 8; i++)); do
        metadata "$i" &
        working+=($!)
    done
    job --rw=randrw --norandommap --io_size=$(($1 / threads * 4096))
    wait "${working[@]}"
    kill "${spinning[@]}"
    snapshot after
    python3 /work/skipped.py >"$OUT/skipped"
    stop_recorder
    keep_store
}

recorded "$2"
if [ "${3:-}" = blind ]; then
    OUT=$OUT/blind STORE=/var/tmp/blind
    mkdir "$OUT"
    recorded "$4" python3 /work/skipped.py blind
fi
