# A quiet load on files of NFS or of a disk, and one incident in it: incident.sh NAME. Begin and end of the incident are in $OUT/times.
. /work/lib.sh

NAME=$1
QUIET=25         # s before the incident
LASTS=12         # s: TCP sends lost segments again 12.6 s after the first loss
AFTER=8          # s
AT=/mnt/office   # where programs see the files
HELD=/srv/office # where the server has them

# file_system DEVICE DIRECTORY
file_system() {
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$1"
    mkdir -p "$2"
    mount -t ext4 "$1" "$2"
}

# make_files DIRECTORY: written completely, so that the load changes data alone.
make_files() {
    local file
    mkdir -p "$1"/{db,web,log,scratch,build,queue,index,crawl}
    for file in db/orders.db log/app.log; do head -c 1M /dev/zero >"$1/$file"; done
    for file in {0..39}; do head -c 256K /dev/zero >"$1/web/page$file"; done
    head -c 8M /dev/zero >"$1/index/words"
    head -c 32M /dev/zero >"$1/crawl/segment"
    sync
}

# --- NFS: a server at 127.0.0.2, with a network and a disk that can be slowed -------------------

# network OPTION...: what happens to packets to and from the server.
network() { tc qdisc replace dev lo parent 1:4 handle 40: netem "$@"; }

# server_disk: replaces the table of the server's disk by the one on standard input.
server_disk() {
    dmsetup load office
    dmsetup suspend --nolockfs office
    dmsetup resume --noudevsync office
}

usual_disk() { echo "0 $SECTORS linear $DISK 0"; }
slow_disk() { echo "0 $SECTORS delay $DISK 0 $1"; }
slow_flush() { echo "0 $SECTORS delay $DISK 0 0 $DISK 0 0 $DISK 0 $1"; }

# slow_file FILE MS: the table of a disk on which the sectors of one file are slow. Flushes concern all files, and are not.
slow_file() {
    filefrag -b512 -v "$1" | awk '/^ *[0-9]+:/ { gsub(/[.:]+/, " "); print $4, $6 }' | sort -n |
        awk -v disk="$DISK" -v all="$SECTORS" -v ms="$2" -v at=0 '
            { if ($1 > at) print at, $1 - at, "linear", disk, at
              print $1, $2, "delay", disk, $1, ms, disk, $1, ms, disk, $1, 0
              at = $1 + $2 }
            END { if (all > at) print at, all - at, "linear", disk, at }'
}

over_nfs() {
    modprobe -a dm-delay sch_prio sch_netem cls_u32
    DISK=$(loop_device)
    SECTORS=$(blockdev --getsz "$DISK")
    dmsetup create office --noudevsync --table "$(usual_disk)"
    file_system /dev/dm-0 "$HELD"
    make_files "$HELD"
    # Otherwise the client would detect that it is the same server.
    umount /mnt/nfs
    exportfs -o rw,no_root_squash,insecure,fsid=2 "*:$HELD"
    tc qdisc add dev lo root handle 1: prio bands 4
    network delay 0ms
    tc filter add dev lo parent 1: protocol ip u32 match ip dst 127.0.0.2 flowid 1:4
    tc filter add dev lo parent 1: protocol ip u32 match ip src 127.0.0.2 flowid 1:4
    mkdir -p "$AT"
    mount -t nfs -o vers=4.2 "127.0.0.2:$HELD" "$AT"
}

# --- a disk of this host ----------------------------------------------------------------------------

loop_device() {
    modprobe loop
    truncate -s 512M /var/tmp/image
    losetup --find --show /var/tmp/image
}

# on_disk DEVICE
on_disk() {
    modprobe ext4 2>/dev/null || true
    file_system "$1" "$AT"
    make_files "$AT"
}

# --- loads ------------------------------------------------------------------------------------------

LOADS=()
# as TENANT COMMAND...: starts it in a cgroup.
as() {
    local group=/sys/fs/cgroup/$1.service
    mkdir -p "$group"
    (echo "$BASHPID" >"$group/cgroup.procs" && exec "${@:2}") &
    LOADS+=($!)
}

# load TENANT OPTION...: fio's, until it is killed.
load() {
    as "$1" fio --name="$1" --ioengine=psync --direct=1 --norandommap --time_based --runtime=600 --thread \
        --allow_file_create=0 --fallocate=none --output=/dev/null "${@:2}"
}

# Some tens of requests per second: emulated CPUs have no more to spare.
usual_load() {
    load db --filename="$AT/db/orders.db" --size=1m --bs=4k --rw=randrw --thinktime=40000
    load web --directory="$AT/web" --filename_format='page$filenum' --nrfiles=40 --filesize=256k --bs=16k --rw=randrw \
        --rwmixread=70 --thinktime=40000
    load log --filename="$AT/log/app.log" --size=1m --bs=4k --rw=write --thinktime=100000
}

# rest: ends what was started since the usual load.
rest() {
    local own=("${LOADS[@]:USUAL}")
    ((${#own[@]} == 0)) || kill -KILL "${own[@]}" 2>/dev/null || true
    LOADS=("${LOADS[@]::USUAL}")
}

# --- incidents --------------------------------------------------------------------------------------

# for_a_while COMMAND...: the incident begins once the command returns, and ends with `rest`.
for_a_while() {
    "$@"
    note begin
    sleep "$LASTS"
    rest
    note end
}

# note WHAT: records the time of an event.
note() { printf '%s\t%s\n' "$(date +%s.%N)" "$1" >>"$OUT/times"; }

# What starts a program waits for its first request, which emulated CPUs take seconds for.
STARTED=/run/started
began() { wait_for 30 test -e "$STARTED"; }

backup() {
    load backup --filename="$AT/scratch/backup.tar" --size=96m --bs=1m --rw=write --ioengine=libaio --iodepth=16 \
        --allow_file_create=1 --exec_prerun="touch $STARTED"
    began
}

# storm TENANT KIND: small operations in the tenant's directory.
storm() {
    as "$1" python3 /work/incident.py "$2" "$AT/$1" "$STARTED"
    began
}

# Each of them evicts what was read meanwhile.
evict() {
    while true; do
        echo 1 >/proc/sys/vm/drop_caches
        sleep 0.3
    done
}

# Their priority is between that of the load, 0, and that of this script, -20: it ends them in time.
hogs() {
    local hog
    python3 -c "import os; os.setpriority(os.PRIO_PROCESS, $$, -20)"
    for hog in {1..6}; do as batch nice -n 10 sh -c 'while :; do :; done'; done
}

# crawl READERS: further readers of a file.
crawl() {
    load crawl --filename="$AT/crawl/segment" --size=32m --bs=128k --rw=randread --numjobs="$1" --exec_prerun="touch $STARTED"
    began
}

RECORDED=() # flags of the recorder
case $NAME in
neighbour-disk | growing-disk) on_disk "$(loop_device)" && RECORDED=(--levels block) ;;
cpu-disk) on_disk /dev/vdd && RECORDED=(--levels app,block --app-latency) ;;
cold-cache) over_nfs && RECORDED=(--app-latency) ;;
*) over_nfs ;;
esac
# What takes longer, or concerns few requests, needs more to be compared with.
case $NAME in growing-disk | one-file) QUIET=50 ;; esac
# A server with few threads has none to spare while its disk is slow.
case $NAME in server | sync-storm) echo 2 >/proc/fs/nfsd/threads ;; esac
[ "$NAME" != sync-storm ] || slow_flush 20 | server_disk

usual_load
if [ "$NAME" = cold-cache ]; then
    cat "$AT/index/words" >/dev/null
    load search --filename="$AT/index/words" --size=8m --bs=16k --rw=randread --direct=0 --invalidate=0 --thinktime=10000
fi
USUAL=${#LOADS[@]}
sleep 3
start_recorder "${RECORDED[@]}"
sleep "$QUIET"

case $NAME in
nothing) for_a_while true ;;
neighbour-nfs | neighbour-disk) for_a_while backup ;;
server)
    slow_disk 50 | for_a_while server_disk
    usual_disk | server_disk
    ;;
one-file)
    slow_file "$HELD/log/app.log" 250 | for_a_while server_disk
    usual_disk | server_disk
    ;;
delay)
    for_a_while network delay 60ms
    network delay 0ms
    ;;
loss)
    for_a_while network loss 10%
    network delay 0ms
    ;;
stall)
    for_a_while network loss 100%
    network delay 0ms
    ;;
cold-cache)
    for_a_while as memory bash -c "$(declare -f evict); evict"
    cat "$AT/index/words" >/dev/null
    ;;
metadata-storm) for_a_while storm build metadata ;;
sync-storm) for_a_while storm queue sync ;;
cpu-disk) for_a_while hogs ;;
growing-disk)
    crawl 1
    note begin
    for more in 1 2 4 8; do
        sleep 4
        crawl "$more"
    done
    sleep "$LASTS"
    rest
    note end
    ;;
*)
    echo "unknown incident: $NAME" >&2
    exit 2
    ;;
esac

sleep "$AFTER"
kill -KILL "${LOADS[@]}"
stop_recorder INT
keep_store
