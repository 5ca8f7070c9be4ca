# Names of files, with either engine: names.sh FILES.
. /work/lib.sh

# A file system that reuses inode numbers.
modprobe loop
truncate -s 64m /var/tmp/two.img
mkfs.ext4 -q /var/tmp/two.img
mkdir -p /exp2 /mnt/two
mount -o loop /var/tmp/two.img /exp2
exportfs -o rw,no_root_squash,insecure,fsid=2 '*:/exp2'
mount -t nfs -o vers=4.2 127.0.0.1:/exp2 /mnt/two
mkdir /mnt/nfs/names

trackiops doctor >"$OUT/doctor"
start_recorder
snapshot before
python3 /work/names.py nested="$1" deep odd renamed_file renamed_directory renamed_there unlinked linked by_handle \
    reused short_lived >"$OUT/list"
snapshot moved.before
python3 /work/names.py moved >>"$OUT/list"
snapshot after
stop_recorder
keep_store

# The same with the other engine, as far as it supports it.
STORE=/var/tmp/tracepoint
rm -rf /mnt/nfs/names
mkdir /mnt/nfs/names
: >"$OUT/record.err"
start_recorder --engine tracepoint
python3 /work/names.py held nested=50 >"$OUT/list.tracepoint"
cat "/proc/self/fdinfo/0" >"$OUT/fdinfo"
stop_recorder
mkdir -p "$OUT/tracepoint"
cp -a "$STORE/." "$OUT/tracepoint/"
