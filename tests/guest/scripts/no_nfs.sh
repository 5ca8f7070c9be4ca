# The NFS client is not loaded.
. /work/lib.sh
expect no_nfs trackiops record --store /var/tmp/store --duration 1s
