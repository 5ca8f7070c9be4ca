# Very many small files, each read once, as many as possible in the time: many.sh FILES SECONDS.
. /work/lib.sh

# Created on the server, in directories of 1,000.
python3 - "$1" >"$OUT/files" <<'P'
import os, sys
for number in range(int(sys.argv[1])):
    directory = f"/exp/many/{number // 50000}/{number // 1000}"
    if number % 1000 == 0:
        os.makedirs(directory)
    path = f"{directory}/{number}"
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.truncate(file, 1 + number % 4096)
    print(os.fstat(file).st_ino, path.replace("/exp", "/mnt/nfs"))
    os.close(file)
P
echo "$1 files were made"
# All in one window, which has fewer rows than there are files.
start_recorder --granularity 1h
snapshot before
began=$(date +%s)
timeout "$2" bash -c 'cd /mnt/nfs/many && find . -mindepth 2 -maxdepth 2 -type d | sort | xargs -P 4 -I DIR sh -c "cat DIR/* >/dev/null"' || echo "not all of them were read"
echo "$(($(date +%s) - began))" >"$OUT/seconds"
snapshot after
kill -INT "$RECORDER"
# Includes memory for sealing.
while peak=$(grep -s VmHWM "/proc/$RECORDER/status"); do
    echo "$peak" >"$OUT/peak"
    sleep 0.2
done
wait "$RECORDER"
keep_store
