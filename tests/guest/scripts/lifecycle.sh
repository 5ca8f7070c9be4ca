# Stop, kill, restart, queries while recording, and all kinds of errors.
. /work/lib.sh

write_some() {
    dd if=/dev/zero of=/mnt/nfs/some.bin bs=64k count="$1" oflag=direct conv=notrunc 2>/dev/null
}

# --- a recording that is queried while it runs, then killed, then continued ------------------------
trackiops watch --json --wait >"$OUT/watch.json" 2>"$OUT/watch.err" &
WATCH=$!
start_recorder
write_some 32
# Every closed window is in the answer, at most 2 s old.
sleep 2
expect live trackiops query --store "$STORE" --step all --format json
grep -h prog_type "/proc/$RECORDER/fdinfo/"* >"$OUT/programs" || true # a descriptor may be closed meanwhile
expect second trackiops record --store "$STORE" --duration 1s
kill -KILL "$RECORDER"
wait "$RECORDER" || true
sleep 3
printf '[[rule]]\nuser = "root"\npath = "/mnt/{name}/*.bin"\ntenant = "first-{name}"\n' >/run/tenants.toml
start_recorder --tenants /run/tenants.toml
is_heard() { [[ $(readlink "/proc/$WATCH/fd/"*) == *socket:* ]]; }
wait_for 60 is_heard
write_some 8
sleep 3 # the window has closed
printf '[[rule]]\ngroup = "root"\ntenant = "second"\nlabels = { tier = "gold" }\n' >/run/tenants.toml
kill -HUP "$RECORDER"
wait_for 60 grep -q 'tenants are named by one rule' "$OUT/record.err"
write_some 8
stop_recorder TERM
wait_for 60 grep -q 'has ended; waiting' "$OUT/watch.err"
kill "$WATCH"
wait "$WATCH" || true
ls "$STORE/journal" >"$OUT/journals"
trackiops record --store /var/tmp/paper --duration 4s --ready-file /run/paper.ready --live-socket /run/paper.sock &
wait_for 60 test -s /run/paper.ready
expect paper trackiops watch --paper --socket /run/paper.sock --duration 5s &
wait_for 60 grep -q Timestamp "$OUT/paper.out"
write_some 8
wait
# On a terminal there is a status line per window.
python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' \
    trackiops record --store /var/tmp/terminal --duration 3s >"$OUT/terminal"
keep_store

# --- errors -----------------------------------------------------------------------------------------
# A catalog with a different trailer: without the bytes behind its last page.
expect newer bash -c 'cp -a /var/tmp/store /var/tmp/newer; truncate --size=-24 /var/tmp/newer/catalog.db
    printf "\x00\x00\x03\xe7" | dd of=/var/tmp/newer/catalog.db bs=1 seek=60 conv=notrunc 2>/dev/null
    trackiops record --store /var/tmp/newer --duration 1s'
mkdir -p /var/tmp/readonly && mount -t tmpfs -o ro tmpfs /var/tmp/readonly
expect unwritable trackiops record --store /var/tmp/readonly/store --duration 1s
expect doctor trackiops doctor
expect timing trackiops doctor --timing --json
mkdir -p /var/tmp/foreign && touch /var/tmp/foreign/thesis.tex
expect foreign trackiops record --store /var/tmp/foreign --duration 1s
expect nfs_store trackiops record --store /mnt/nfs/store --duration 1s
expect nfs_store_allowed trackiops record --store /mnt/nfs/store --allow-nfs-store --duration 1s
expect flags trackiops record --store /var/tmp/x --granularity 7s --duration 1s
expect nesting trackiops record --store /var/tmp/x --granularity 2s,5s --duration 1s
expect user setpriv --reuid 1000 --regid 1000 --clear-groups --inh-caps=-all \
    trackiops record --store /tmp/user --duration 1s
expect capabilities setpriv --bounding-set -sys_admin,-bpf,-perfmon --inh-caps=-all \
    trackiops record --store /var/tmp/y --duration 1s
umount /mnt/nfs
umount /sys/kernel/tracing
umount /sys/kernel/debug 2>/dev/null || true
expect no_tracefs trackiops record --engine tracepoint --store /var/tmp/z --duration 1s
