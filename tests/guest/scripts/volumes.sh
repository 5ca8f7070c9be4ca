# Volumes that are directories of one export, as provisioners create them, and servers behind one address: volumes.sh COUNT VERSION...
. /work/lib.sh

COUNT=$1
shift
VERSIONS=("$@")
SERVER=127.0.0.1

# at NUMBER: mount point of a volume by the kubelet; CSI drivers keep data beside it.
at() {
    local volumes=/var/lib/kubelet/pods/pod-$1/volumes
    if (($1 % 2)); then echo "$volumes/kubernetes.io~csi/pvc-$1-$VERSION/mount"; else echo "$volumes/kubernetes.io~nfs/pvc-$1-$VERSION"; fi
}

# directory NUMBER: a volume's directory on the server. The last one has the shortest name.
directory() {
    if (($1 == COUNT)); then echo "/exp/$VERSION/x"; else echo "/exp/$VERSION/shop-data-$1-pvc-$1-$VERSION"; fi
}

attach() {
    local point
    point=$(at "$1")
    mkdir -p "$point" "$(directory "$1")"
    if (($1 % 2)); then
        echo "{\"driverName\":\"nfs.csi.k8s.io\",\"specVolID\":\"pvc-$1-$VERSION\"}" >"${point%/*}/vol_data.json"
    fi
    mount -t nfs -o "vers=$VERSION,nolock" "$SERVER:$(directory "$1")" "$point"
}

detach() { umount "$(at "$1")"; }

# work NUMBER FILE COUNT: WRITE requests for a file of a volume, by a Pod's cgroup, with the expected names.
work() {
    local file
    file=$(at "$1")/$2
    (
        echo "$BASHPID" >"/sys/fs/cgroup/pods/pod-$1/cgroup.procs"
        exec dd if=/dev/zero of="$file" bs=4k count="$3" oflag=direct conv=notrunc status=none
    )
    stat -c "$3	%i	$SERVER:$(directory "$1")	$file	pvc-$1-$VERSION" "$file" >>"$LIST.$VERSION"
}

# each COMMAND...: runs it for each version of NFS.
each() { for VERSION in "${VERSIONS[@]}"; do "$@"; done; }

umount /mnt/nfs
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir -p /sys/fs/cgroup/pods
echo +memory >/sys/fs/cgroup/pods/cgroup.subtree_control
for ((i = 1; i <= COUNT; i++)); do mkdir -p "/sys/fs/cgroup/pods/pod-$i" "/var/log/pods/shop_web-${i}_pod-$i"; done

LIST=$OUT/list
STORE=/var/tmp/all
# A mount that lasts for the whole recording is compared with the kernel's counters.
each attach 1
start_recorder --granularity 1s,1m
for ((i = 1; i <= COUNT; i++)); do
    ((i == 1)) || each attach "$i"
    each work "$i" f 2
    # The first one is used while others come.
    each work 1 f 1
    ((i % 3)) || { sleep 0.4; each detach "$i"; }
done
for ((i = COUNT; i > 0; i--)); do
    ((i % 3)) || each attach "$i"
    each work "$i" f 3
    each work "$i" g 1
    ((i == 1)) || each detach "$i"
done
sleep 1.2
snapshot after
# One address may lead to several servers. So two ports count as two, whatever listens there.
echo 'tcp 20049' >/proc/fs/nfsd/portlist
mountport=$(rpcinfo -p | awk '$1 == 100005 && $3 == "tcp" { print $4; exit }')
mkdir -p /exp-behind /mnt/usual /mnt/tunnel
mount -t tmpfs none /exp-behind
exportfs -o rw,no_root_squash,insecure,fsid=7 '*:/exp-behind'
mount -t nfs -o vers=3,nolock "$SERVER:/exp-behind" /mnt/usual
mount -t nfs -o "vers=3,nolock,proto=tcp,port=20049,mountproto=tcp,mountport=$mountport" "$SERVER:/exp-behind" /mnt/tunnel
dd if=/dev/zero of=/mnt/usual/one bs=4k count=3 oflag=direct status=none
dd if=/dev/zero of=/mnt/tunnel/two bs=4k count=5 oflag=direct status=none
sleep 1.2
stop_recorder
cp -a "$STORE" "$OUT/all"

# Filters: one volume by its mount point, and one by a name that comes later.
LIST=$OUT/one
STORE=/var/tmp/one
each attach "$COUNT"
each attach 2
flags() { FLAGS+=(--mount "$(at 1)" --mount "$SERVER:$(directory 3)"); }
each flags
start_recorder --granularity 1s,1m "${FLAGS[@]}"
each attach 3
sleep 1.5 # a filter knows it within a second
for i in 1 2 3 "$COUNT"; do each work "$i" f "$i"; done
sleep 0.5
stop_recorder
cp -a "$STORE" "$OUT/filtered"
