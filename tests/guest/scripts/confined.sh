# The restrictions of the unit: each remaining capability is needed, and a server that hangs does not block the recorder's start.
. /work/lib.sh
UNIT=/work/trackiops.service
cp "$UNIT" /run/unit

systemd-analyze security --no-pager --offline=true "$UNIT" >"$OUT/security"
useradd --uid 1000 user

# some_io NAME: by a user, in a private mount namespace that lasts until the recorder has ended.
some_io() {
    # shellcheck disable=SC2016
    unshare --mount --propagation private bash -c '
        mount -t nfs -o vers=4.2,nosharecache 127.0.0.1:/exp /mnt/inside
        exec setpriv --reuid 1000 --regid 1000 --clear-groups bash -c "
            exec 3<>/mnt/inside/$1 && sleep 2 && dd if=/dev/zero bs=4k count=4 oflag=direct conv=notrunc status=none >&3
            grep -A 1000 /mnt/inside /proc/self/mountstats; exec sleep 1000"' - "$1" >"$OUT/mountstats.$1" &
    wait_for 60 grep -q WRITE: "$OUT/mountstats.$1"
    sleep 2
}

# record_some NAME: by a unit that the test may have changed.
record_some() {
    STORE=/var/tmp/$1
    if start_recorder 2>"$OUT/$1.start"; then
        grep -H '^Name\|^Cap\(Prm\|Eff\|Bnd\)\|^Seccomp:' /proc/"$RECORDER"/task/*/status >"$OUT/$1.threads"
        some_io "$1"
        stop_recorder
        pkill -KILL -f "sleep 1000"
        trackiops query --store "$STORE" --step all --json >"$OUT/$1.json" 2>"$OUT/$1.err"
        trackiops export --store "$STORE" --dataset health --granularity 1s --output "$OUT/$1.csv"
    else
        systemctl stop "trackiops-$1" # which would start again and again
    fi
    mv "$OUT/record.err" "$OUT/$1.said"
    SERVICES=
}

mkdir /mnt/inside
record_some whole
# Only kernels before 5.19 need CAP_BPF, and no Debian with such a systemd has one.
for capability in $(sed -n 's/^CapabilityBoundingSet=//p' /run/unit | sed 's/\<CAP_BPF\>//'); do
    sed "s/^\(CapabilityBoundingSet=.*\)$capability/\1/" /run/unit >"$UNIT"
    record_some "$capability"
done
cp /run/unit "$UNIT"

# A server that does not answer; looking at this mount requires a request.
mkdir /home/nas /mnt/old
mount -t nfs -o vers=4.2,actimeo=1,nosharecache 127.0.0.1:/exp /home/nas
mount -t nfs -o vers=3,actimeo=1,nolock 127.0.0.1:/exp /mnt/old
rpc.nfsd 0
sleep 3
STORE=/var/tmp/hung
start_recorder
# A store in a directory that the unit protects.
sed 's|^ExecStart=.*|ExecStart=/usr/local/bin/trackiops record --store /home/store|' "$UNIT" >/run/systemd/system/elsewhere.service
systemctl daemon-reload
expect elsewhere systemctl start elsewhere
journalctl --unit elsewhere --output cat >"$OUT/elsewhere.said"
systemctl stop elsewhere
rpc.nfsd 8
stop_recorder
