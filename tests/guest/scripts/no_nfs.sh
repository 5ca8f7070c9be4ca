# The NFS client is not loaded.
. /work/lib.sh
status=0
trackiops record --store /var/tmp/store --duration 1s 2>"$OUT/no_nfs.err" || status=$?
echo "$status" >"$OUT/no_nfs.status"
