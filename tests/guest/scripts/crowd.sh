# 64 threads that each read a file of their own from its begin to its end, then write it anew.
. /work/lib.sh

job() {
    fio --name=crowd --directory=/mnt/nfs --size=256k --bs=4k --direct=1 --ioengine=psync --thread --numjobs=64 "$@" >/dev/null
}

job --rw=write
start_recorder
snapshot before
job --rw=read
job --rw=write
snapshot after
stop_recorder
keep_store
