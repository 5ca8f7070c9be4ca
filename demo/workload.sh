# Runs in the guest: a database, a log, a nightly backup and a media reader share an NFS mount while
# trackiops records them. 30 s.
set -euo pipefail
cd /mnt/nfs
mkdir -p db logs backup media

echo "guest: Linux $(uname -r), $(findmnt -no SOURCE,FSTYPE,TARGET /mnt/nfs)"
head -c 48M /dev/urandom >media/movie.mkv
sync; echo 3 >/proc/sys/vm/drop_caches

trackiops record --store "$OUT/store" --ready-file /run/ready --rotate 10s &
recorder=$!
until [ -s /run/ready ]; do sleep 0.1; done

echo "guest: the database begins"
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
echo "guest: somebody streams a film"
fio --name=film --filename=media/movie.mkv --rw=read --bs=256k --size=48m --rate=8m --ioengine=psync >/dev/null &
sleep 8
echo "guest: the backup starts"
dd if=/dev/zero of=backup/db.tar bs=256k count=256 oflag=direct status=none
wait $(jobs -p | grep -v "^$recorder$")

kill -INT "$recorder"
wait "$recorder"
