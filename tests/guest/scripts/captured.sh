# Every version and several connections, recorded and captured at the same time.
# Every client has its own name and address, so no mount shares a client with another one.
. /work/lib.sh

# work DIR: direct and buffered requests, the end of the file, and a device that is full.
work() {
    timeout 60 bash -euc '
        cd "$1"
        fio --name=direct --rw=randrw --bs=4k --size=256k --numjobs=4 --direct=1 --ioengine=psync --output=/dev/null
        dd if=/dev/urandom of=odd bs=10007 count=40 conv=fsync
        dd if=/dev/urandom of=large bs=1M count=4 conv=fsync
        # Not from the page cache.
        echo 1 >/proc/sys/vm/drop_caches
        cat odd large >/dev/null
        # Beyond the end of the file.
        dd if=odd of=/dev/null bs=4k skip=90 iflag=direct
        # Linux 5.10 retries forever.
        [[ $(uname -r) == 5.10.* ]] || ! dd if=/dev/zero of=full bs=64k oflag=direct
        rm -f full' - "$1"
}

# attach CASE SERVER OPTIONS: a separate file system.
attach() {
    local dir=/mnt/$1 exp=/exp-$1
    number=$((number + 1))
    mkdir -p "$exp" "$dir"
    mount -t tmpfs -o size=7m none "$exp"
    exportfs -o "rw,no_root_squash,insecure,fsid=$((70 + number))" "*:$exp"
    chmod 777 "$exp"
    timeout 60 unshare --uts bash -c 'hostname "$1"; mount -t nfs -o "$4" "$2" "$3"' - "$1" "$2:$exp" "$dir" "$3"
    printf '%s\t%s\n' "$1" "$dir" >>"$OUT/mounts"
}

number=0
tcpdump -i lo -s 0 -B 65536 -Z root -w "$OUT/all.pcap" port 2049 2>"$OUT/tcpdump.err" &
TCPDUMP=$!
wait_for 60 grep -q listening "$OUT/tcpdump.err"
start_recorder --granularity 1s --requests

attach v3 127.0.2.1 vers=3,nolock
attach v40 127.0.2.2 vers=4.0
attach v41 127.0.2.3 vers=4.1
attach v42 127.0.2.4 vers=4.2
attach nconnect 127.0.2.5 vers=4.2,nconnect=4
attach ipv6 '[::1]' vers=4.2
snapshot before
while read -r name dir; do
    work "$dir"
done <"$OUT/mounts" >"$OUT/work.log" 2>&1
# A file that the server no longer has.
exec 7</mnt/v3/odd
rm /exp-v3/odd
expect stale dd of=/dev/null bs=4k count=1 iflag=direct <&7
exec 7<&-
snapshot after

sleep 2
stop_recorder INT
kill -INT "$TCPDUMP"
wait "$TCPDUMP"
cat /proc/net/snmp >"$OUT/snmp"
keep_store
