# cuts_guest.sh FLAG...: runs `trackiops-bench-faults cuts`, which has the name of the program that it replaces here. Writes the logs to
# $OUT.
modprobe -a loop dm-log-writes ext4 xfs
# In memory, like all of the guest's root.
mkdir -p /var/tmp/cuts
status=0
trackiops cuts --dir /var/tmp/cuts "$@" || status=$?
mv /var/tmp/cuts/*.before /var/tmp/cuts/*.log "$OUT"
exit "$status"
