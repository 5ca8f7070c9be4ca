# The same work under several filters at once: each case has a separate recorder and store.
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

# filtered CASE [FLAG...]: a recorder with these flags and a separate store, beside the recorders of other cases.
filtered() {
    local name=$1
    shift
    begin_recording "/var/tmp/$name" "$OUT/$name.err" --live-socket "/run/$name.sock" --ring-memory 1MiB "${@//WAITING/$WAITING}"
    CASES+=("$name")
    RECORDERS+=("$BEGUN")
}

begin_cases() {
    CASES=()
    RECORDERS=()
    begin_waiting
}

# work_once NEW: all work; the file NEW is made meanwhile.
work_once() {
    work /mnt/nfs/a/b/c/deep.bin
    work "/mnt/nfs/a/$1.bin"
    work /mnt/nfs/outside.bin
    work /mnt/two/two.bin
    work /mnt/late/late.bin
    as_user /mnt/nfs/user.bin
    as_user /mnt/nfs/a/user.bin
    echo go >/run/go
    wait "$WAITING"
}

end_cases() {
    local name recorder
    list_files /mnt/nfs /mnt/two /mnt/late
    for name in "${CASES[@]}"; do
        cp "$OUT/files" "$OUT/files.$name"
        trackiops status --json --socket "/run/$name.sock" >"$OUT/$name.status_json" || true
    done
    kill -INT "${RECORDERS[@]}"
    for recorder in "${RECORDERS[@]}"; do wait "$recorder"; done
    for name in "${CASES[@]}"; do cp -a "/var/tmp/$name" "$OUT/$name"; done
}

# Every file exists from the begin, except `first.bin` and `second.bin`.
for file in a/b/c/deep outside user a/user pid inner cgroup moved; do
    work "/mnt/nfs/$file.bin"
done
chown 1000 /mnt/nfs/user.bin /mnt/nfs/a/user.bin
work /mnt/two/two.bin

begin_cases
filtered mount --mount 127.0.0.1:/exp2 --mount /mnt/late
filtered mount_tracepoint --engine tracepoint --mount /mnt/two --mount 127.0.0.1:/exp3
filtered dir --dir /mnt/nfs/a
filtered file --file /mnt/nfs/outside.bin --file /mnt/two/two.bin
filtered file_tracepoint --engine tracepoint --file /mnt/nfs/outside.bin --file /mnt/two/two.bin
filtered uid --uid 7,1000
filtered uid_tracepoint --engine tracepoint --uid 1000
mount -t nfs -o vers=4.2 127.0.0.1:/exp3 /mnt/late
sleep 1.5 # as above
work_once first
work /mnt/nfs/moved.bin
mv /mnt/nfs/moved.bin /mnt/nfs/a/
sleep 2.2 # what is known of a file's directories holds for a second
work /mnt/nfs/a/moved.bin
end_cases

trackiops doctor >"$OUT/doctor"
begin_cases
filtered calls --levels wire,app --requests --app-latency --dir /mnt/nfs/a
filtered pid --pid WAITING
filtered pid_tracepoint --engine tracepoint --pid WAITING
filtered ops --ops write --mount /mnt/two
filtered ops_tracepoint --engine tracepoint --ops read --mount /mnt/two
filtered several --dir /mnt/nfs/a --uid 1000 --ops read
if grep -q 'users and cgroups' "$OUT/doctor"; then
    filtered cgroup --cgroup outer
fi
work_once second
in_cgroup inner /mnt/nfs/inner.bin
in_cgroup new /mnt/nfs/cgroup.bin
end_cases

expect nowhere trackiops record --store /var/tmp/nowhere --file /etc/hostname
expect missing trackiops record --store /var/tmp/nowhere --dir /mnt/nfs/missing
expect no_directories trackiops record --store /var/tmp/nowhere --engine tracepoint --dir /mnt/nfs/a
