# transports.sh CASE...: servers and transports, each with a separate mount. All mounts stay until one recorder stops.
# Every client has its own name and address, so no mount shares a client and its counters with another one.
. /work/lib.sh

# address NUMBER: an address of the loopback device. The server answers at each of them.
address() { echo "127.0.1.$1"; }

# For mounts over v3: ganesha takes the port mapper's entries.
export V3=vers=3,nolock,mountproto=tcp,mountport=$(rpcinfo -p | awk '$1 == 100005 && $3 == "tcp" { print $4; exit }')

# attach CASE SERVER:/EXPORT DIR OPTIONS: mounts it as a host named CASE, and records it for the checks.
attach() {
    mkdir -p "$3"
    timeout 60 unshare --uts bash -c 'hostname "$1"; mount -t nfs -o "$4" "$2" "$3"' - "$@"
    note "$1" "$2" "$3"
}

# note CASE SERVER:/EXPORT DIR: records a mount to compare.
note() { printf '%s\t%s\t%s\n' "$@" >>"$OUT/mounts"; }

# work DIR: direct and buffered requests of two files, and some operations.
work() {
    timeout 60 bash -euc '
        cd "$1"
        dd if=/dev/zero of=direct bs=4k count=48 oflag=direct
        dd if=direct of=/dev/null bs=4k iflag=direct
        dd if=/dev/zero of=buffered bs=64k count=24 conv=fsync
        # Not from the page cache.
        echo 1 >/proc/sys/vm/drop_caches
        dd if=buffered of=/dev/null bs=64k
        touch passing && mv passing passed && rm passed' - "$1" 2>&1
}

# share DIR [OPTION]: an export within /exp's, or a separate file system with its own options.
share() {
    mkdir -p "$1"
    if [ -n "${2:-}" ]; then
        mount -t tmpfs none "$1"
        exportfs -o "rw,no_root_squash,insecure,$2" "*:$1"
    fi
    chmod 777 "$1"
}

# disk DIR: a file system on a disk.
disk() {
    mkdir -p "$1"
    modprobe loop
    truncate -s 128M "/run/disk${1//\//-}"
    mkfs.ext4 -q -O ^has_journal "/run/disk${1//\//-}"
    mount -o loop,user_xattr "/run/disk${1//\//-}" "$1"
}

case_tcp() {
    share /exp/tcp
    attach tcp "$(address 1):/exp/tcp" /mnt/tcp vers=4.2
    work /mnt/tcp
}

case_ipv6() {
    share /exp/ipv6
    attach ipv6 '[::1]:/exp/ipv6' /mnt/ipv6 vers=4.2
    work /mnt/ipv6
}

case_nconnect() {
    share /exp/nconnect
    attach nconnect "$(address 2):/exp/nconnect" /mnt/nconnect vers=4.2,nconnect=8
    work /mnt/nconnect
}

case_rdma() {
    rdma_server
    share /exp/rdma
    attach rdma "$RDMA:/exp/rdma" /mnt/rdma vers=4.2,rdma,port=20049
    work /mnt/rdma
}

case_rdma3() {
    rdma_server
    share /exp/rdma3
    attach rdma3 "$RDMA:/exp/rdma3" /mnt/rdma3 "$V3,rdma,port=20049"
    work /mnt/rdma3
}

case_ganesha() {
    mkdir -p /run/ganesha /var/lib/nfs/ganesha /var/log/ganesha
    # It cannot export a tmpfs.
    disk /exp-ganesha
    cat >/etc/ganesha.conf <<'CONF'
NFS_CORE_PARAM {
    Protocols = 3, 4;
    NFS_Port = 12049;
    MNT_Port = 12050;
    Enable_UDP = false;
    Enable_NLM = false;
    Enable_RQUOTA = false;
}
NFSv4 { Graceless = true; Minor_Versions = 0, 1, 2; }
EXPORT {
    Export_Id = 1;
    Path = /exp-ganesha;
    Pseudo = /ganesha;
    Access_Type = RW;
    Squash = No_Root_Squash;
    Protocols = 3, 4;
    FSAL { Name = VFS; }
}
LOG { Default_Log_Level = EVENT; }
CONF
    ganesha.nfsd -f /etc/ganesha.conf -L "$OUT/ganesha.log" -p /run/ganesha.pid
    wait_for 60 eval 'ss -Hltn | grep -q :12049'
    attach ganesha "$(address 3):/ganesha" /mnt/ganesha vers=4.2,port=12049
    work /mnt/ganesha
    attach ganesha "$(address 4):/exp-ganesha" /mnt/ganesha3 vers=3,port=12049,mountport=12050,nolock
    work /mnt/ganesha3
}

case_krb5p() {
    echo "$(address 5) krb.test guest" | cat - /etc/hosts >/run/hosts
    cat /run/hosts >/etc/hosts
    cat >/etc/krb5.conf <<'CONF'
[libdefaults]
    default_realm = TEST
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
[realms]
    TEST = {
        kdc = 127.0.0.1
    }
[domain_realm]
    .test = TEST
CONF
    mkdir -p /etc/krb5kdc /var/lib/krb5kdc
    printf '[realms]\n TEST = {\n database_name = /var/lib/krb5kdc/principal\n }\n' >/etc/krb5kdc/kdc.conf
    kdb5_util create -s -r TEST -P secret
    kadmin.local -q 'addprinc -randkey nfs/krb.test'
    kadmin.local -q 'ktadd nfs/krb.test'
    krb5kdc
    modprobe -a auth_rpcgss rpcsec_gss_krb5
    rpc.svcgssd
    rpc.gssd
    share /exp-krb5p fsid=5,sec=krb5p
    attach krb5p krb.test:/exp-krb5p /mnt/krb5p vers=4.2,sec=krb5p
    work /mnt/krb5p
}

case_tls() {
    echo "$(address 6) tls.test" >>/etc/hosts
    mkdir -p /etc/tls
    (
        cd /etc/tls
        openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -subj /CN=ca -days 2
        openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=tls.test
        echo 'subjectAltName=DNS:tls.test' >server.ext
        openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile server.ext -out server.crt
    ) 2>/dev/null
    cat >/etc/tlshd.conf <<'CONF'
[debug]
loglevel=1
[authenticate.client]
x509.truststore=/etc/tls/ca.crt
[authenticate.server]
x509.truststore=/etc/tls/ca.crt
x509.certificate=/etc/tls/server.crt
x509.private_key=/etc/tls/server.key
CONF
    modprobe tls
    tlshd -s -c /etc/tlshd.conf >"$OUT/tlshd.log" 2>&1 &
    # It listens to the kernel soon after it has a socket.
    wait_for 30 bash -c "ls -l /proc/$!/fd | grep -q socket:"
    sleep 2
    share /exp-tls fsid=6,xprtsec=tls
    attach tls tls.test:/exp-tls /mnt/tls vers=4.2,xprtsec=tls
    work /mnt/tls
}

# Two network namespaces with mounts of one export. The second mount is also in a separate mount namespace.
case_netns() {
    local name number=0
    modprobe veth
    share /exp/netns
    ip addr add 10.9.9.9/32 dev lo
    for name in one two; do
        number=$((number + 1))
        ip netns add "$name"
        ip link add "$name" type veth peer name eth0 netns "$name"
        ip addr add "10.9.$number.1/24" dev "$name"
        ip link set "$name" up
        ip -n "$name" addr add "10.9.$number.2/24" dev eth0
        ip -n "$name" link set eth0 up
        ip -n "$name" link set lo up
        ip -n "$name" route add 10.9.9.9 via "10.9.$number.1"
    done
    mkdir -p /mnt/one /mnt/two
    timeout 60 nsenter --net=/run/netns/one unshare --uts bash -euc \
        'hostname one; mount -t nfs -o vers=4.2 10.9.9.9:/exp/netns /mnt/one; mkdir /mnt/one/one /mnt/one/two'
    note netns 10.9.9.9:/exp/netns /mnt/one
    work /mnt/one/one
    ip netns exec two unshare --uts bash -euc \
        'hostname two; mount -t nfs -o vers=4.2 10.9.9.9:/exp/netns /mnt/two; echo $$ >/run/two; exec sleep 600' &
    wait_for 60 test -s /run/two
    note netns 10.9.9.9:/exp/netns /mnt/two
    export -f work
    nsenter --mount="/proc/$(cat /run/two)/ns/mnt" bash -c 'work /mnt/two/two'
}

# A cache of files on a local disk.
case_fscache() {
    modprobe cachefiles
    disk /var/cache/fscache
    printf 'dir /var/cache/fscache\ntag mycache\nbrun 10%%\nbcull 7%%\nbstop 3%%\nfrun 10%%\nfcull 7%%\nfstop 3%%\n' >/etc/cachefilesd.conf
    cachefilesd
    share /exp/fscache
    attach fscache "$(address 7):/exp/fscache" /mnt/fscache vers=4.2,fsc
    work /mnt/fscache
    # The second read comes from the disk.
    sleep 1
    echo 1 >/proc/sys/vm/drop_caches
    dd if=/mnt/fscache/buffered of=/dev/null bs=64k
    cat /proc/fs/fscache/stats >"$OUT/fscache/stats"
}

# A server that does not answer for some seconds, and clients that give up.
case_soft() {
    local version at giving_up=()
    modprobe -a sch_prio sch_netem cls_u32
    tc qdisc add dev lo root handle 1: prio bands 4
    tc qdisc add dev lo parent 1:4 handle 40: netem delay 0ms
    for version in 3 4; do
        at=$(address "8$version")
        share "/exp/soft$version"
        tc filter add dev lo parent 1: protocol ip prio 1 u32 match ip dst "$at" flowid 1:4
        tc filter add dev lo parent 1: protocol ip prio 1 u32 match ip src "$at" flowid 1:4
    done
    attach soft "$(address 83):/exp/soft3" /mnt/soft3 "$V3,port=2049,soft,timeo=20,retrans=1"
    attach soft "$(address 84):/exp/soft4" /mnt/soft4 vers=4.2,soft,timeo=20,retrans=1
    for version in 3 4; do work "/mnt/soft$version"; done
    # Opening would fail, too.
    exec 3<"/mnt/soft3/direct" 4<"/mnt/soft4/direct"
    tc qdisc change dev lo parent 1:4 handle 40: netem loss 100%
    for version in 3 4; do
        dd of=/dev/null bs=4k count=1 iflag=direct <&$version 2>"$OUT/soft/err$version" &
        giving_up+=($!)
    done
    for job in "${giving_up[@]}"; do ! wait "$job" || return 1; done
    sleep 2
    cp "$OUT/record.err" "$OUT/soft/said"
    tc qdisc del dev lo root
    for version in 3 4; do
        # The client connects again.
        wait_for 60 timeout 20 dd if="/mnt/soft$version/direct" of=/dev/null bs=4k count=4 iflag=direct
    done
}

# The server refers the client to another place for a directory.
case_referral() {
    share /exp/referred
    mkdir -p /exp/refer/there
    mount --bind /exp/refer/there /exp/refer/there
    exportfs -o "rw,no_root_squash,insecure,fsid=10,refer=/exp/referred@$(address 11)" '*:/exp/refer/there'
    attach referral "$(address 10):/exp/refer" /mnt/refer vers=4.2
    work /mnt/refer/there
    note referral "$(address 11):/exp/referred" /mnt/refer/there
}

# second_server DIR FSID: another server of a directory, at 10.8.0.2, in a separate network namespace. Its handles are equal to the first
# server's.
second_server() {
    modprobe veth
    ip netns add second
    ip link add second type veth peer name eth0 netns second
    ip addr add 10.8.0.1/24 dev second
    ip link set second up
    ip -n second addr add 10.8.0.2/24 dev eth0
    ip -n second link set eth0 up
    ip -n second link set lo up
    ip netns exec second bash -euxc '
        mount -t tmpfs none /var/lib/nfs
        mkdir -p /var/lib/nfs/{sm,sm.bak,v4recovery,nfsdcld}
        touch /var/lib/nfs/{etab,rmtab,state} /run/no-exports
        mount --bind /run/no-exports /etc/exports
        mount -t nfsd nfsd /proc/fs/nfsd
        mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
        nfsdcld
        exportfs -o "rw,no_root_squash,insecure,fsid=$2" "*:$1"
        rpc.mountd -N 3
        rpc.nfsd -N 3 -G 10 -L 10 4
        read -r ended </proc/fs/nfsd/v4_end_grace
        [ "$ended" = Y ] || echo Y >/proc/fs/nfsd/v4_end_grace' - "$@"
}

# In the middle of the work, the server says that the files have moved.
case_migration() {
    share /exp-migration fsid=40
    second_server /exp-migration 40
    attach migration "$(address 40):/exp-migration" /mnt/migration vers=4.2
    work /mnt/migration
    exportfs -o "rw,no_root_squash,insecure,fsid=40,refer=/exp-migration@10.8.0.2" '*:/exp-migration'
    exportfs -f
    work /mnt/migration
    cat /proc/mounts >"$OUT/migration/mounts"
}

# pnfs_case CASE NUMBER DEVICE: an export whose files clients read and write on the device itself, which is also this machine's.
pnfs_case() {
    modprobe -a xfs blocklayoutdriver
    mkfs.xfs -q -f "$3"
    mkdir -p "/exp-$1"
    mount "$3" "/exp-$1"
    chmod 777 "/exp-$1"
    exportfs -o "rw,no_root_squash,insecure,fsid=$2,pnfs" "*:/exp-$1"
    attach "$1" "$(address "$2"):/exp-$1" "/mnt/$1" vers=4.1
    work "/mnt/$1"
}

case_block() {
    modprobe loop
    truncate -s 320M /run/block
    blkmapd
    pnfs_case block 30 "$(losetup -f --show /run/block)"
}

# A disk with reservations, which exclude clients without a layout.
case_scsi() {
    local target=/sys/kernel/config/target disk
    modprobe -a target_core_mod target_core_file tcm_loop sd_mod
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    truncate -s 320M /run/scsi
    mkdir -p /var/target/pr
    mkdir -p "$target/core/fileio_0/disk" "$target/loopback/naa.5001405000000001/tpgt_1"
    echo "fd_dev_name=/run/scsi,fd_dev_size=$((320 << 20))" >"$target/core/fileio_0/disk/control"
    echo 1 >"$target/core/fileio_0/disk/enable"
    echo 6001405000000001 >"$target/core/fileio_0/disk/wwn/vpd_unit_serial"
    echo naa.5001405000000002 >"$target/loopback/naa.5001405000000001/tpgt_1/nexus"
    mkdir -p "$target/loopback/naa.5001405000000001/tpgt_1/lun/lun_0"
    ln -s "$target/core/fileio_0/disk" "$target/loopback/naa.5001405000000001/tpgt_1/lun/lun_0/disk"
    wait_for 60 compgen -G '/dev/sd?'
    disk=$(compgen -G '/dev/sd?')
    # Like udev.
    mkdir -p /dev/disk/by-id
    wait_for 60 cat "/sys/block/${disk##*/}/device/wwid"
    ln -s "$disk" "/dev/disk/by-id/wwn-0x$(sed s/naa.// "/sys/block/${disk##*/}/device/wwid")"
    pnfs_case scsi 31 "$disk"
}

uname -rv >"$OUT/kernel"
# Each of the server's threads serves one waiting mount.
rpc.nfsd 16
export RDMA
umount /mnt/nfs
start_recorder --granularity 1s,1m
# Ages are in seconds: mounts from here on are certainly younger than the recorder, so it compares them completely.
sleep 4
# run_case NAME: a failure or a hang ends the case, not the run.
run_case() {
    local began=$SECONDS status=0
    mkdir -p "$OUT/$1"
    timeout -k 5 200 bash -c "$(declare -f); set -euxo pipefail; case_$1" >"$OUT/$1/log" 2>&1 || status=$?
    echo "$status" >"$OUT/$1/status"
    echo "$1: status $status, $((SECONDS - began)) s"
}

waiting=()
for name; do
    case $name in
        soft | migration)
            # They wait most of the time.
            run_case "$name" &
            waiting+=($!)
            ;;
        *) run_case "$name" ;;
    esac
done
# Without arguments, `wait` would wait for the recorder.
for job in "${waiting[@]}"; do wait "$job"; done
sync
# Wait until files are closed, and rows of the last window are written.
sleep 1.5
snapshot after
[ ! -s /run/two ] || cp "/proc/$(cat /run/two)/mountstats" "$OUT/mountstats.inside"
stop_recorder
keep_store
