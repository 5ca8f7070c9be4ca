# soak.sh MINUTES: full load, with a rotation every 10 s. Samples memory and open files of the recorder every 10 s; then splits the memory
# into private, file-backed and shared.
. /work/lib.sh

start_recorder --rotate 10s --retain 1s=5m,1m=3h
snapshot before
fio --name=soak --directory=/mnt/nfs --numjobs=4 --size=16m --bs=16k --rw=randrw --direct=1 --ioengine=psync \
    --time_based --runtime=$(($1 * 60)) >/dev/null &
while kill -0 $! 2>/dev/null; do
    sleep 10
    awk -v files="$(ls "/proc/$RECORDER/fd" | wc -l)" \
        '/^VmRSS/ { all = $2 } /^Rss/ { kinds = kinds " " $2 } END { print all, files kinds }' \
        "/proc/$RECORDER/status" >>"$OUT/samples"
done
snapshot after
trackiops query --store "$STORE" --step all --by mount --format json >"$OUT/answer"
stop_recorder
trackiops store check --store "$STORE" >"$OUT/check"
cp /dev/null "$OUT/done"
