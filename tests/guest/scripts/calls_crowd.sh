# Sixteen threads read and write cached data on two processors, where the kernel may skip the programs that count calls.
. /work/lib.sh

start_recorder --granularity 1s,10s,1m --rotate 10s --app-view
snapshot before
fio --name=crowd --directory=/mnt/nfs --rw=randrw --bs=4k --size=1m --numjobs=16 --thread --ioengine=psync --invalidate=0 \
    --time_based --runtime=8 --output-format=json --output="$OUT/crowd.json"
snapshot after
# Wait until the last looks are certain.
sleep 3
stop_recorder INT
keep_store
