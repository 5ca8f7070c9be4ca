# Sixteen threads read and write what is cached, on two processors, where the kernel may skip the programs that count them.
. /work/lib.sh

start_recorder --granularity 1s,10s,1m --rotate 10s --app-view
snapshot before
fio --name=crowd --directory=/mnt/nfs --rw=randrw --bs=4k --size=1m --numjobs=16 --thread --ioengine=psync --invalidate=0 \
    --time_based --runtime=8 --output-format=json --output="$OUT/crowd.json"
snapshot after
# So that the last looks are not in doubt.
sleep 3
stop_recorder INT
keep_store
