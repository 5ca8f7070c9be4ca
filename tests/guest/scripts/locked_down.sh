# The kernel was booted with lockdown=confidentiality.
. /work/lib.sh
# As every init system does.
mount -t securityfs securityfs /sys/kernel/security
expect locked_down trackiops record --store /var/tmp/store --duration 1s
