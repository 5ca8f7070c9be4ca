# The NFS client is not loaded.
. /work/lib.sh
expect no_nfs trackiops record --store /var/tmp/store --levels wire --duration 1s
