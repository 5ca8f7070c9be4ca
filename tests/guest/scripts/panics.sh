# Each thread of a recorder panics once, in a build with fail points.
. /work/lib.sh

RECORDER=/work/trackiops

write_some() {
    dd if=/dev/zero of=/mnt/nfs/some.bin bs=64k count=16 oflag=direct conv=notrunc 2>/dev/null
}

# panics NAME TURN FLAG...: a recorder that panics after 16 writes, and the next recorder on its store.
panics() {
    local name=$1 turn=$2 status=0 recorder
    shift 2
    rm -f /run/trackiops.ready /run/fail
    TRACKIOPS_PANIC_AT=$turn TRACKIOPS_FAIL_FROM=/run/fail timeout 120 "$RECORDER" record --store "/var/tmp/$name" \
        --ready-file /run/trackiops.ready "$@" 2>"$OUT/$name.err" &
    recorder=$!
    wait_for 60 test -s /run/trackiops.ready
    write_some
    wait_for 60 has_writes "/var/tmp/$name"
    touch /run/fail
    # Work for the thread that panics.
    write_some_more &
    wait "$recorder" || status=$?
    echo "$status" >"$OUT/$name.status"
    wait
    expect "$name.next" trackiops record --store "/var/tmp/$name" --duration 1s
    expect "$name.check" trackiops store check --store "/var/tmp/$name"
    cp -a "/var/tmp/$name" "$OUT/$name"
}

has_writes() {
    trackiops query --store "$1" --file /mnt/nfs/some.bin --step all --columns write_bytes --csv 2>/dev/null | grep -q 1048576
}

# Other files: how much of them is recorded depends on when the recorder ends.
write_some_more() {
    local i
    for i in $(seq 20); do
        dd if=/dev/zero of=/mnt/nfs/other.bin bs=64k count=1 oflag=direct conv=notrunc 2>/dev/null
        sleep 0.3
    done
}

panics main "1 recorder: step"
panics look "1 lookout: look"
panics windows "1 append: written"
panics seal "1 seal: written" --rotate 4s
panics requests "1 requests: append" --requests
panics seal-requests "1 requests: seal" --requests --rotate 4s
panics maps "1 mappings: look" --engine tracepoint
# The threads that seal also try to write outside of the store.
mountpoint -q /sys/kernel/security || mount -t securityfs securityfs /sys/kernel/security
cat /sys/kernel/security/lsm >"$OUT/lsm"
echo theirs >/var/tmp/theirs
TRACKIOPS_ESCAPE_TO=/var/tmp/theirs expect held "$RECORDER" record --store /var/tmp/held --requests --rotate 2s --duration 5s
expect held.check trackiops store check --store /var/tmp/held
cp /var/tmp/theirs "$OUT/theirs"

# The tracepoint engine has no names.
list_files /mnt/nfs/some.bin
