# skipped.sh THREADS REQUESTS [blind | rdma]: THREADS threads read and write their own files, and create others. Meanwhile a process spins
# on every CPU, so programs are interrupted in the middle of a request.
. /work/lib.sh

threads=$1 requests=$2

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
start_recorder --granularity 1s
[ "${3:-}" != blind ] || python3 /work/skipped.py blind
# Requests from before all programs were attached are over.
sleep 1
snapshot before
spinning=()
for ((i = 0; i < $(nproc); i++)); do
    while :; do :; done &
    spinning+=($!)
done
working=()
for ((i = 0; i < 8; i++)); do
    metadata "$i" &
    working+=($!)
done
job --rw=randrw --norandommap --io_size=$((requests / threads * 4096))
wait "${working[@]}"
kill "${spinning[@]}"
snapshot after
python3 /work/skipped.py >"$OUT/skipped"
stop_recorder
keep_store
