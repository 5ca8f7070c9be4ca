# Runs another guest script in a guest with systemd, where the recorder is a service: as_service.sh NAME [ARG...].
. /work/lib.sh
groupadd --system trackiops # as the packages do
mount -t tmpfs -o mode=777 exp /exp
exportfs -r
mount_nfs
script=$1
shift
exec bash "/work/$script.sh" "$@"
