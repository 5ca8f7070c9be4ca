# power_cut.sh EXT4|XFS first|again: records onto a disk until a power cut. Prints answers of queries: about all windows once the recording
# continues after a cut, then about the last windows all the time.
. /work/lib.sh

ROOT=/var/tmp/disk
STORE=$ROOT/store
CUT=$1
[ "$2" = again ] || "mkfs.$CUT" -q /dev/vdd
modprobe "$CUT"
mkdir -p "$ROOT"
mount -t "$CUT" /dev/vdd "$ROOT"

# answer KIND [FLAG...]: closed windows.
answer() {
    echo "$1"
    trackiops query --store "$STORE" --step 1s --format json "${@:2}" || [ $? = 1 ] # nothing yet
    echo end
}

# Seals all the time, so that cuts hit each of its steps.
start_recorder --rotate 5s
if [ "$2" = again ]; then
    trackiops store check --store "$STORE" >&2
    answer recovered
fi
fio --name=steady --directory=/mnt/nfs --numjobs=4 --size=1m --bs=16k --rw=randrw --direct=1 --ioengine=psync \
    --rate_iops=20 --time_based --runtime=600 >/dev/null &
sleep 2
while true; do
    answer closed --since 20s
    sleep 0.3
done
