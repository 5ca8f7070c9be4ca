# What TCP knows of two connections whose packets take 20 ms each way: one of the recorder's network namespace, one of another. Packets of
# the first are lost for a while. At last the server starts again.
. /work/lib.sh

# note NAME: a time at which nothing moves, and what ss says of both connections.
note() {
    sleep 2
    printf '%s\t%s\n' "$1" "$(date -u +%FT%TZ)" >>"$OUT/times"
    ss -Htin 'dst 127.0.0.2 and dport = 2049' >"$OUT/ss.$1.own"
    ip netns exec one ss -Htin 'dst 10.9.9.9 and dport = 2049' >"$OUT/ss.$1.other"
    sleep 1
}

# near OPTION...: what happens to packets of the own namespace.
near() { tc qdisc replace dev lo parent 1:4 handle 40: netem "$@"; }

# work COUNT: requests over both connections at once.
work() {
    local mount workers=()
    for mount in own other; do
        timeout 60 dd if="/mnt/$mount/read" of=/dev/null bs=4k count="$1" iflag=direct status=none &
        workers+=($!)
    done
    for worker in "${workers[@]}"; do wait "$worker"; done
}

umount /mnt/nfs
modprobe -a veth sch_prio sch_netem cls_u32
tc qdisc add dev lo root handle 1: prio bands 4
near delay 20ms
tc filter add dev lo parent 1: protocol ip u32 match ip dst 127.0.0.2 flowid 1:4
tc filter add dev lo parent 1: protocol ip u32 match ip src 127.0.0.2 flowid 1:4
ip addr add 10.9.9.9/32 dev lo
ip netns add one
# More than the recorder follows, but without NFS.
for number in {1..20}; do ip netns add "empty$number"; done
ip link add one type veth peer name eth0 netns one
ip addr add 10.9.1.1/24 dev one
ip link set one up
ip -n one addr add 10.9.1.2/24 dev eth0
ip -n one link set eth0 up
ip -n one link set lo up
ip -n one route add 10.9.9.9 via 10.9.1.1
tc qdisc add dev one root netem delay 20ms
tc -n one qdisc add dev eth0 root netem delay 20ms

head -c 1M /dev/zero >/exp/read
mkdir /mnt/own /mnt/other
# Version 3 has no grace period when the server starts again.
V3=vers=3,nolock,mountproto=tcp,mountport=$(rpcinfo -p | awk '$1 == 100005 && $3 == "tcp" { print $4; exit }')
timeout 60 mount -t nfs -o "$V3" 127.0.0.2:/exp /mnt/own
# No process stays in the namespace.
timeout 60 nsenter --net=/run/netns/one mount -t nfs -o "$V3" 10.9.9.9:/exp /mnt/other

start_recorder --granularity 1s,1m
note began
work 60
note delayed
near delay 1ms loss 5%
timeout 60 dd if=/dev/zero of=/mnt/own/written bs=4k count=200 oflag=direct status=none
near delay 20ms
note lost
rpc.nfsd 0
rpc.nfsd 8
work 20
note again
stop_recorder
keep_store

# Without connections, the thread is not there.
STORE=/var/tmp/without
start_recorder --granularity 1s,1m --no-connections
cat /proc/"$RECORDER"/task/*/comm >"$OUT/threads"
stop_recorder
