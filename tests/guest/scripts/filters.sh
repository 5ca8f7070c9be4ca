# The same work under one filter after the other: each case has a separate store.
. /work/lib.sh

BYTES=$((64 << 10))
TIMES=8

# The export of lib's mount, another export, and one that is mounted later.
for i in 2 3; do
    mkdir -p "/exp$i"
    mount -t tmpfs -o size=64m tmpfs "/exp$i"
    exportfs -o "rw,no_root_squash,insecure,fsid=$i" "*:/exp$i"
done
mkdir -p /mnt/two /mnt/late
mount -t nfs -o vers=4.2 127.0.0.1:/exp2 /mnt/two
mkdir -p /mnt/nfs/a/b/c
chmod 777 /mnt/nfs /mnt/nfs/a
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir -p /sys/fs/cgroup/outer
echo +memory >/sys/fs/cgroup/outer/cgroup.subtree_control

# work FILE: writes and reads it, request by request.
work() {
    dd if=/dev/zero of="$1" bs=$BYTES count=$TIMES oflag=direct conv=notrunc status=none
    dd if="$1" of=/dev/null bs=$BYTES count=$TIMES iflag=direct status=none
}
export -f work
export BYTES TIMES

as_user() {
    setpriv --reuid 1000 --clear-groups bash -c "work $1"
}

# in_cgroup NAME FILE: works in a cgroup, which may be new.
in_cgroup() {
    mkdir -p "/sys/fs/cgroup/outer/$1"
    sleep 1.5 # a filter knows it within a second
    (echo $BASHPID >"/sys/fs/cgroup/outer/$1/cgroup.procs" && work "$2")
}

# A process with a known id before it works. Its program replaces the shell.
begin_waiting() {
    rm -f /run/go
    mkfifo /run/go
    bash -c 'read -r </run/go; exec dd if=/dev/zero of=/mnt/nfs/pid.bin bs=$BYTES count=$TIMES oflag=direct conv=notrunc status=none' &
    WAITING=$!
}

# filtered CASE [FLAG...]: does all work while a recorder with these flags runs.
filtered() {
    local name=$1
    shift
    STORE=/var/tmp/$name
    begin_waiting
    set -- "${@//WAITING/$WAITING}"
    start_recorder "$@"
    if ! mountpoint -q /mnt/late; then
        mount -t nfs -o vers=4.2 127.0.0.1:/exp3 /mnt/late
        sleep 1.5 # as above
    fi
    work /mnt/nfs/a/b/c/deep.bin
    work "/mnt/nfs/a/$name.bin"
    work /mnt/nfs/outside.bin
    work /mnt/two/two.bin
    work /mnt/late/late.bin
    as_user /mnt/nfs/user.bin
    as_user /mnt/nfs/a/user.bin
    echo go >/run/go
    wait "$WAITING"
    if [ "${CGROUPS:-}" = yes ]; then
        in_cgroup inner /mnt/nfs/inner.bin
        in_cgroup "$name" /mnt/nfs/cgroup.bin
    fi
    if [ "$name" = dir ]; then
        work /mnt/nfs/moved.bin
        mv /mnt/nfs/moved.bin /mnt/nfs/a/
        sleep 2.2 # what is known of a file's directories holds for a second
        work /mnt/nfs/a/moved.bin
    fi
    list_files /mnt/nfs /mnt/two /mnt/late
    trackiops status --json >"$OUT/$name.status_json" || true
    stop_recorder
    mv "$OUT/files" "$OUT/files.$name"
    mv "$OUT/record.err" "$OUT/$name.err"
    mkdir -p "$OUT/$name"
    cp -a "$STORE/." "$OUT/$name/"
}

# Every file exists from the begin, except files that are named after cases.
for file in a/b/c/deep outside user a/user pid inner cgroup moved; do
    work "/mnt/nfs/$file.bin"
done
chown 1000 /mnt/nfs/user.bin /mnt/nfs/a/user.bin
work /mnt/two/two.bin

filtered mount --mount 127.0.0.1:/exp2 --mount /mnt/late
umount /mnt/late
filtered mount_tracepoint --engine tracepoint --mount /mnt/two --mount 127.0.0.1:/exp3
filtered dir --dir /mnt/nfs/a
filtered calls --levels wire,app --requests --app-latency --dir /mnt/nfs/a
filtered file --file /mnt/nfs/outside.bin --file /mnt/two/two.bin
filtered file_tracepoint --engine tracepoint --file /mnt/nfs/outside.bin --file /mnt/two/two.bin
filtered uid --uid 7,1000
filtered uid_tracepoint --engine tracepoint --uid 1000
filtered pid --pid WAITING
filtered pid_tracepoint --engine tracepoint --pid WAITING
filtered ops --ops write --mount /mnt/two
filtered ops_tracepoint --engine tracepoint --ops read --mount /mnt/two
filtered several --dir /mnt/nfs/a --uid 1000 --ops read
trackiops doctor >"$OUT/doctor"
if grep -q 'users and cgroups' "$OUT/doctor"; then
    CGROUPS=yes filtered cgroup --cgroup outer
fi
expect nowhere trackiops record --store /var/tmp/nowhere --file /etc/hostname
expect missing trackiops record --store /var/tmp/nowhere --dir /mnt/nfs/missing
expect no_directories trackiops record --store /var/tmp/nowhere --engine tracepoint --dir /mnt/nfs/a
