# The kernel was booted with lockdown=confidentiality.
. /work/lib.sh
# Like every init system.
mount -t securityfs securityfs /sys/kernel/security
expect locked_down trackiops record --store /var/tmp/store --duration 1s
