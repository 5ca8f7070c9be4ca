# recording.sh PORT ANSWERS: records a load on NFS, and shows it at PORT of 10.0.2.15. At port ANSWERS the host asks `trackiops` here.
. /work/lib.sh

modprobe virtio_net
ip address add 10.0.2.15/24 dev eth0
ip link set eth0 up

# load USER FILE FLAG...: runs fio on a file until the guest ends.
load() {
    setpriv --reuid="$1" --regid="$1" --clear-groups fio --name=load --filename="$2" --size=4m --direct=1 --ioengine=psync --time_based \
        --runtime=3600 --output=/dev/null "${@:3}" &
}

# Rotate often, so that queries find sealed files.
start_recorder --rotate 10s
mkdir -p -m 777 /mnt/nfs/db "/mnt/nfs/logs & more"
load 1000 /mnt/nfs/db/orders.db --rw=randrw --bs=8k --rate_iops=20
load 0 /mnt/nfs/db/index --rw=randread --bs=4k --rate_iops=10
load 0 "/mnt/nfs/logs & more/app log.txt" --rw=write --bs=64k --rate_iops=5
python3 /work/answer.py "$2" &
# Enough windows for the pictures.
sleep 60

# As the user `nobody`, but in the store's group.
setpriv --reuid=65534 --regid=0 --clear-groups trackiops serve --store "$STORE" --listen "10.0.2.15:$1" --allow-host 10.0.2.15 2>&1
