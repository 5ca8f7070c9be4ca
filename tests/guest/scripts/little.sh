# little.sh MIB FILES: runs a recorder in a cgroup with this memory limit, while each of these files is written and read.
. /work/lib.sh

group=/sys/fs/cgroup/little
mkdir /mnt/nfs/many $group
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
echo "$1M" >$group/memory.max
echo $$ >$group/cgroup.procs
start_recorder --levels wire,app,block --requests --app-latency --dir /mnt/nfs/many --granularity 10s,1m
echo $$ >/sys/fs/cgroup/cgroup.procs
snapshot before
python3 - "$2" <<'P'
import os, sys
for number in range(int(sys.argv[1])):
    file = os.open(f"/mnt/nfs/many/{number}", os.O_RDWR | os.O_CREAT)
    os.write(file, b"1" * (1 + number % 100))
    os.close(file)
P
snapshot after
kill -0 "$RECORDER"
stop_recorder INT
cat $group/memory.peak >"$OUT/peak" 2>/dev/null || true
cp $group/memory.events "$OUT/events"
keep_store
