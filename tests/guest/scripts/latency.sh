# latency.sh SECONDS: fio's own completion latency beside the recorder's, then a slow and a fast server side by side, each for this time.
. /work/lib.sh

TIME=$1
start_recorder
start_beside --no-latency-parts
snapshot before
for jobs in 1 8 64; do
    fio --name="lat$jobs" --directory=/mnt/nfs --rw=randrw --bs=4k --size=1m --numjobs="$jobs" --direct=1 --thread \
        --ioengine=psync --time_based --runtime="$TIME" --group_reporting --output-format=json --output="$OUT/lat$jobs.json"
    snapshot "lat$jobs"
done

# A second route to the same machine, 20 ms away: all traffic to and from 127.0.0.2.
mkdir -p /exp2 /mnt/slow
mount -t tmpfs -o size=64m tmpfs /exp2
exportfs -o rw,no_root_squash,insecure,fsid=2 '*:/exp2'
modprobe -a sch_prio sch_netem cls_u32
tc qdisc add dev lo root handle 1: prio bands 4
tc qdisc add dev lo parent 1:4 handle 40: netem delay 10ms
tc filter add dev lo parent 1: protocol ip u32 match ip dst 127.0.0.2 flowid 1:4
tc filter add dev lo parent 1: protocol ip u32 match ip src 127.0.0.2 flowid 1:4
# With the same minor version, the client would detect the same server and use one connection.
mount -t nfs -o vers=4.1 127.0.0.2:/exp2 /mnt/slow

# Threads of one process; some alternate between the two files.
fio --ioengine=psync --direct=1 --bs=4k --rw=randrw --thread --time_based --runtime="$((TIME + 2))" --size=1m \
    --name=slow --numjobs=4 --filename=/mnt/slow/slow.bin \
    --name=fast --numjobs=4 --filename=/mnt/nfs/fast.bin \
    --name=both --numjobs=4 --filename=/mnt/slow/slow.bin:/mnt/nfs/fast.bin --file_service_type=roundrobin \
    --output-format=json --output="$OUT/mixed.json"
snapshot after
for file in /mnt/slow/alone.bin /mnt/nfs/alone.bin; do
    fio --name=alone --filename="$file" --rw=randrw --bs=4k --size=1m --direct=1 --ioengine=psync --time_based --runtime="$TIME" \
        --output=/dev/null
done
tc qdisc del dev lo root

# One writer, then 64 writers that share two RPC slots, the client's minimum.
sysctl -qw sunrpc.tcp_slot_table_entries=2 sunrpc.tcp_max_slot_table_entries=2
mkdir -p /exp3 /mnt/few
mount -t tmpfs -o size=128m tmpfs /exp3
exportfs -o rw,no_root_squash,insecure,fsid=3 '*:/exp3'
mount -t nfs -o vers=3,nolock 127.0.0.1:/exp3 /mnt/few
for jobs in 1 64; do
    fio --name="few$jobs" --directory=/mnt/few --rw=write --bs=4k --size=1m --numjobs="$jobs" --direct=1 --thread \
        --ioengine=psync --time_based --runtime="$TIME" --output=/dev/null
done
list_files /mnt/nfs /mnt/slow /mnt/few
stop_recorder TERM
keep_store
