# Requests to two servers: packets of one take 20 ms each way, the disk of the other takes 100 ms for each read.
. /work/lib.sh

# note NAME: a time at which nothing moves.
note() {
    sleep 2
    printf '%s\t%s\n' "$1" "$(date -u +%FT%TZ)" >>"$OUT/times"
    sleep 1
}

umount /mnt/nfs
modprobe -a sch_prio sch_netem cls_u32 loop dm-delay
tc qdisc add dev lo root handle 1: prio bands 4
tc qdisc add dev lo parent 1:4 handle 40: netem delay 20ms
tc filter add dev lo parent 1: protocol ip u32 match ip dst 127.0.0.2 flowid 1:4
tc filter add dev lo parent 1: protocol ip u32 match ip src 127.0.0.2 flowid 1:4

truncate -s 256M /var/tmp/image
DEVICE=$(losetup -f --show /var/tmp/image)
SECTORS=$(blockdev --getsz "$DEVICE")
dmsetup create slow --noudevsync --table "0 $SECTORS linear $DEVICE 0"
mkfs.ext4 -q /dev/dm-0
mkdir /var/tmp/slow /mnt/far /mnt/slow
mount -t ext4 /dev/dm-0 /var/tmp/slow
head -c 1M /dev/zero >/exp/read
head -c 64M /dev/zero >/var/tmp/slow/read
exportfs -o rw,no_root_squash,insecure,fsid=2 "*:/var/tmp/slow"
V3=vers=3,nolock,mountproto=tcp,mountport=$(rpcinfo -p | awk '$1 == 100005 && $3 == "tcp" { print $4; exit }')
timeout 60 mount -t nfs -o "$V3" 127.0.0.2:/exp /mnt/far
# Attributes come from the server each time, which answers from its memory.
timeout 60 mount -t nfs -o "$V3,noac" 127.0.0.3:/var/tmp/slow /mnt/slow
drop_caches
stat /mnt/slow/read >/dev/null
dmsetup load slow --table "0 $SECTORS delay $DEVICE 0 100"
dmsetup suspend --nolockfs slow
dmsetup resume --noudevsync slow

start_recorder --granularity 1s,1m
note began
timeout 60 dd if=/mnt/far/read of=/dev/null bs=4k count=100 iflag=direct status=none
note far
# Starts no processes, which take long under emulation.
while [ -s /mnt/slow/read ]; do read -rt 0.02 <>/run/never || true; done &
ASKS=$!
# Each is beyond what the server has read ahead.
for at in {1..50}; do
    timeout 60 dd if=/mnt/slow/read of=/dev/null bs=4k count=1 skip=$((at * 256)) iflag=direct status=none
done
kill "$ASKS"
wait "$ASKS" || true
note slow
stop_recorder
keep_store
