# A database, a log, a nightly backup and a media reader share a file system while trackiops records them. 30 s.
#
# In the guest of `make demo-nfs` it is that of an NFS server; natively, one of this machine:
#
# DIR=/mnt/nfs     where the files are
# OUT=path         the store is made in it
# RECORD="..."     further flags of trackiops record
set -euo pipefail
cd "${DIR:=/mnt/nfs}"
mkdir -p db logs backup media

echo "recorded: Linux $(uname -r), $(findmnt -no SOURCE,FSTYPE,TARGET "$DIR")"
head -c 48M /dev/urandom >media/movie.mkv
sync media/movie.mkv
# Nothing of it stays in the page cache.
dd if=media/movie.mkv iflag=nocache count=0 status=none

ready=$(mktemp -u)
trackiops record --store "$OUT/store" --ready-file "$ready" --rotate 10s --requests ${RECORD:-} &
recorder=$!
until [ -s "$ready" ]; do
    kill -0 "$recorder" 2>/dev/null || { wait "$recorder"; exit 1; }
    sleep 0.1
done

echo "recorded: the database begins"
fio --name=orders --filename=db/orders.db --rw=randrw --rwmixread=70 --bs=8k --size=16m --direct=1 \
    --ioengine=psync --thread --numjobs=4 --time_based --runtime=24 >/dev/null &
fio --name=index --filename=db/orders.idx --rw=randread --bs=4k --size=4m --direct=1 --ioengine=psync \
    --rate_iops=200 --time_based --runtime=24 >/dev/null &
for i in $(seq 1 90); do
    echo "$(date -Is) request $i served"
    sync -d logs/app.log
    sleep 0.25
done >logs/app.log &
sleep 6
echo "recorded: somebody streams a film"
fio --name=film --filename=media/movie.mkv --rw=read --bs=256k --size=48m --rate=8m --ioengine=psync >/dev/null &
sleep 8
echo "recorded: the backup starts"
dd if=/dev/zero of=backup/db.tar bs=256k count=256 oflag=direct status=none
wait $(jobs -p | grep -v "^$recorder$")

kill -INT "$recorder"
wait "$recorder"
rm -f "$ready"
