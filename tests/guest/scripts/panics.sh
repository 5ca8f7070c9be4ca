# Each thread of a recorder panics once, in a build with fail points.
. /work/lib.sh

RECORDER=/work/trackiops

write_some() {
    dd if=/dev/zero of=/mnt/nfs/some.bin bs=64k count=16 oflag=direct conv=notrunc 2>/dev/null
}

# panics NAME TURN FLAG...: a recorder that panics some seconds after 16 writes, and the next one on its store.
panics() {
    local name=$1 turn=$2 status=0
    shift 2
    rm -f /run/trackiops.ready
    TRACKIOPS_PANIC_AT=$turn timeout 60 "$RECORDER" record --store "/var/tmp/$name" --ready-file /run/trackiops.ready "$@" \
        2>"$OUT/$name.err" &
    wait_for 60 test -s /run/trackiops.ready
    write_some
    wait $! || status=$?
    echo "$status" >"$OUT/$name.status"
    expect "$name.next" trackiops record --store "/var/tmp/$name" --duration 1s
    expect "$name.check" trackiops store check --store "/var/tmp/$name"
    cp -a "/var/tmp/$name" "$OUT/$name"
}

# A step is at most 0.2 s, a look 0.75 s, an append a window of 1 s: all of these turns come some 5 s after the writes.
panics main "40 recorder: step"
panics look "8 lookout: look"
panics windows "8 append: written"
panics seal "1 seal: written" --rotate 4s
panics requests "1 requests: append" --requests
panics seal-requests "1 requests: seal" --requests --rotate 4s
panics maps "1 mappings: look" --engine tracepoint
