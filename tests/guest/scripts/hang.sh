# A server that does not answer for a while, beside one that does. Arguments: number of seconds, and the NFS versions of the hung server's
# mounts. Then nfsd stops for as long, and comes back.
. /work/lib.sh

DOWN=$1
shift

# Clients keep their state while the server is away: the request itself waits, not its repetition.
restart_nfsd() { rpc.nfsd -G 10 -L 300 8; }

mount_all() {
    local version
    for version; do
        mkdir -p "/exp/hung-$version" "/mnt/$version"
        # An address other than the other server's.
        mount -t nfs -o "vers=$version,proto=tcp,rsize=65536,wsize=65536" "127.0.0.2:/exp/hung-$version" "/mnt/$version"
    done
}

# Drops all traffic to and from 127.0.0.2, or stops dropping it.
cut_off() { tc qdisc replace dev lo parent 1:4 handle 40: netem loss 100%; }
cut_on() { tc qdisc replace dev lo parent 1:4 handle 40: netem delay 0ms; }

# note WHAT: records the time of an event.
note() { printf '%s\t%s\n' "$(date +%s.%N)" "$1" >>"$OUT/times"; }

# work NAME DIRECTORY...: steady work from now until `rest`.
work() {
    rm -f /run/steady /run/stop
    python3 /work/steady.py /run/steady /run/stop "$OUT/$1" "${@:2}" &
    WORKER=$!
    wait_for 60 test -e /run/steady
}
rest() {
    touch /run/stop
    wait "$WORKER"
}

# Files that vanish before the recorder can see their users: it searches all processes for their names.
nameless() {
    while [ ! -e /run/named ]; do
        dd if=/dev/zero of=/mnt/healthy/short bs=4k count=1 oflag=direct 2>/dev/null
        rm /mnt/healthy/short
        sleep 0.5
    done
}

# all_answer: whether each server that was stalled is no longer.
all_answer() {
    [ "$(grep -c $'\t127[.].* STALLED ' "$OUT/terminal")" = "$(grep -c $'\t127[.].* no longer stalled' "$OUT/terminal")" ]
}

# press KEY PATTERN NAME: presses a key in `trackiops top`; saves its screen as screen-NAME once the pattern appears.
press() {
    [ -z "$1" ] || tmux send-keys -t top "$1"
    wait_for 60 sh -c "tmux capture-pane -p -t top | grep -q -- '$2'" || { tmux capture-pane -p -t top >&2; return 1; }
    tmux capture-pane -p -t top >"$OUT/screen-$3"
}

echo 0 >/proc/sys/kernel/hung_task_timeout_secs
umount /mnt/nfs
rpc.nfsd 0
restart_nfsd
mkdir -p /exp2 /mnt/healthy
mount -t tmpfs -o size=64m tmpfs /exp2
exportfs -o rw,no_root_squash,insecure,fsid=2 '*:/exp2'
modprobe -a sch_prio sch_netem cls_u32
tc qdisc add dev lo root handle 1: prio bands 4
cut_on
tc filter add dev lo parent 1: protocol ip u32 match ip dst 127.0.0.2 flowid 1:4
tc filter add dev lo parent 1: protocol ip u32 match ip src 127.0.0.2 flowid 1:4
mount_all "$@"
# Use a separate version. Otherwise the client would detect that it is the same server.
mount -t nfs -o vers=4.2,rsize=65536,wsize=65536 127.0.0.1:/exp2 /mnt/healthy

python3 /work/terminal.py "$OUT/terminal" trackiops record --store "$STORE" --ready-file /run/trackiops.ready &
TERMINAL=$!
wait_for 60 test -s /run/trackiops.ready
snapshot before
tmux -f /dev/null new-session -d -s top -x 80 -y 24 'trackiops top; echo "ended with $?"; sleep 1000'

# --- idle, then slow: never stalled -----------------------------------------------------------------
note idle
sleep $((DOWN / 3))
tc qdisc replace dev lo parent 1:4 handle 40: netem delay 50ms
work slow "${@/#//mnt/}" /mnt/healthy
sleep 5
press '' 'healthy/' files
rest
cut_on

# --- a server that does not answer -------------------------------------------------------------------
work hung "${@/#//mnt/}" /mnt/healthy
python3 /work/mapped.py "/mnt/$1/mapped" /run/mapped /run/locked &
MAPPED=$!
wait_for 60 test -e /run/mapped
nameless &
sleep 2
note down
cut_off
SINCE=$(date +%s)
touch /run/locked
sleep 5
cat "/proc/$MAPPED/task/"*/wchan >"$OUT/mapped" || true
timeout 1 cat "/proc/$MAPPED/maps" >/dev/null && echo readable >>"$OUT/mapped" || echo " locked" >>"$OUT/mapped"
expect during trackiops query --store "$STORE" --since 10s --step all --format json
press 6 "^127.0.0.2 .* now " stalled
tmux resize-window -t top -x 120 -y 40
sleep 1 # a key that comes with a resize may be read with the next key only
press 1 "^/mnt/healthy/.*/s " wide
press Enter Requests file
press Escape throughput back
# A slow guest may have taken longer for its screens.
LEFT=$((DOWN - $(date +%s) + SINCE))
((LEFT <= 0)) || sleep "$LEFT"
cut_on
note up
# TCP retransmits lost segments after about as long again.
wait_for $((2 * DOWN + 60)) grep -q "no longer stalled" "$OUT/terminal"
sleep 3
touch /run/named
rest
wait "$MAPPED"
note over
press 6 "every server answered" answered
press "[" "PAST" earlier
press "[" "^127.0.0.2" past
press y "trackiops query" query
press L LIVE live
press q "ended with" ended

# --- nfsd stops, and comes back ---------------------------------------------------------------------
work stopped "${@/#//mnt/}" /mnt/healthy
sleep 1
note stop
rpc.nfsd 0
sleep "$DOWN"
restart_nfsd
note start
# Clients connect again after pauses that grow.
wait_for $((DOWN + 60)) all_answer
sleep 3
rest
note end

snapshot after
list_files /mnt
kill -INT "$(cat /run/trackiops.ready)"
wait "$TERMINAL"
tc qdisc del dev lo root
keep_store

# --- without debugfs -----------------------------------------------------------------------------------
umount -l /sys/kernel/debug
expect doctor trackiops doctor
expect blind trackiops record --store "$OUT/blind" --duration 3s
