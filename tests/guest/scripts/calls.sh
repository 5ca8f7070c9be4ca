# Calls of applications of every kind on two mounts, between two snapshots; and two tenants on shared files.
. /work/lib.sh

mkdir -p /exp3 /mnt/nfs3
mount -t tmpfs -o size=128m tmpfs /exp3
exportfs -o rw,no_root_squash,insecure,fsid=3 '*:/exp3'
mount -t nfs -o vers=3,nolock 127.0.0.1:/exp3 /mnt/nfs3
[ -e /sys/fs/cgroup/cgroup.controllers ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/one /sys/fs/cgroup/two

start_recorder --granularity 1s,10s,1m --rotate 10s "$@"
snapshot before
# After the first request, Linux 5.10 can distinguish calls of different files.
echo first >/mnt/nfs/first.bin
sync
for mount in /mnt/nfs /mnt/nfs3; do
    python3 /work/calls.py "$mount" "$OUT/timed.${mount##*/}" >"$OUT/calls.${mount##*/}"
    jobs=()
    for engine in io_uring libaio; do
        for direct in 0 1; do
            jobs+=(--name="$engine$direct" --stonewall --ioengine="$engine" --direct="$direct")
        done
    done
    fio --directory="$mount" --rw=randrw --bs=4k --size=2m --iodepth=8 --output-format=json --output="$OUT/fio.json" "${jobs[@]}"
done

# Two tenants: a file that both write, and a file opened by one and used by the other.
python3 /work/handed.py /mnt/nfs >"$OUT/handed.txt"

# Cached: the application reads it ten times without a request.
head -c 1000000 /dev/zero >/mnt/nfs/again.bin
for _ in 1 2 3 4 5 6 7 8 9 10; do cat /mnt/nfs/again.bin >/dev/null; done

snapshot after
list_files /mnt/nfs /mnt/nfs3
stop_recorder INT
keep_store
