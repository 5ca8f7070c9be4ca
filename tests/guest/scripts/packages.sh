# The life of a package on a Debian with systemd, from a repository on loopback: installed, enabled, rebooted, upgraded while it records,
# removed, purged.
# Runs at each of two boots. Then the .rpm and the archive.
. /work/lib.sh
STORE=/var/lib/trackiops
rm /usr/local/bin/trackiops # the packages bring it
export DEBIAN_FRONTEND=noninteractive

# serve_repository NAME: one of those that the host has made.
serve_repository() {
    ln -sfn "/work/repositories/$1" /work/served
    wait_for 60 is_served
    apt-get update
}
is_served() { python3 -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:8080/trackiops.asc")' 2>/dev/null; }
python3 -m http.server 8080 --bind 127.0.0.1 --directory /work/served >/dev/null 2>&1 &
SERVER=$!

write_some() {
    dd if=/dev/zero of=/mnt/nfs/some.bin bs=64k count="$1" oflag=direct conv=notrunc 2>/dev/null
}

# Whether an unprivileged process sees a recorder.
is_measured() { measure | grep -q '^trackiops_recorder_up 1'; }
measure() { python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:9930/metrics").read().decode())' 2>/dev/null; }

is_recording() { trackiops status >/dev/null 2>&1; }

# list_system NAME: each file except files of the kernel, files of this test, and logs.
list_system() {
    find / -xdev \( -path /work -o -path /out -o -path /exp -o -path /tmp -o -path /var/log -o -path /var/cache -o -path /var/lib/nfs \) -prune \
        -o -print | sort >"$OUT/files.$1"
}

ask() { trackiops query --step "$1" --format json >"$OUT/$2.json" 2>"$OUT/$2.err"; }

if [ ! -e "$OUT/files.before" ]; then
    # No other archive can be reached here.
    rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
    cp /work/repositories/first/trackiops.sources /etc/apt/sources.list.d/
    echo 'quiet "1"; APT::Get::Assume-Yes "true"; DPkg::Lock::Timeout "120";' >/etc/apt/apt.conf.d/99test
    list_system before
    serve_repository first
    apt-get install trackiops
    expect enabled systemctl is-enabled trackiops
    expect active systemctl is-active trackiops
    systemctl enable --now trackiops
    mount_nfs
    wait_for 120 is_recording
    cp /proc/self/mountstats "$OUT/mountstats.first"
    write_some 32
    sleep 3
    ask all first
    snapshot first_end
    systemctl reboot
    sleep infinity
fi

# --- the second boot: it records automatically -------------------------------------------------------------------
mount_nfs # until then it waits for the client
wait_for 120 is_recording
cp /proc/self/mountstats "$OUT/mountstats.second"
write_some 16
sleep 3
ask all rebooted

# --- an upgrade, with I/O all the time ----------------------------------------------------------------------------
serve_repository newer
before=$(systemctl show --property=MainPID --value trackiops)
systemctl enable --now trackiops-metrics
wait_for 120 is_measured
systemctl show --property=User,DynamicUser,MainPID trackiops-metrics >"$OUT/metrics.unit"
fio --name=steady --directory=/mnt/nfs --size=1m --bs=16k --rw=randrw --direct=1 --ioengine=psync --rate_iops=20 \
    --time_based --runtime=3600 >/dev/null &
IO=$!
sleep 10
ask 1s acknowledged
apt-get upgrade
wait_for 120 is_recording
after=$(systemctl show --property=MainPID --value trackiops)
[ "$before" != "$after" ] || { echo "the upgrade has not restarted the recorder" >&2; exit 1; }
sleep 10
kill "$IO"
wait "$IO" || true
sleep 3
ask 1s upgraded
snapshot second_end
journalctl --unit trackiops --output cat >"$OUT/journal"
id=$(getent group trackiops | cut -d: -f3)
stat -c '%a %u %g' "$STORE" >"$OUT/store.mode"
echo "750 0 $id" >"$OUT/store.expected"
setpriv --reuid 65534 --regid "$id" --clear-groups trackiops query --step all >"$OUT/member.out"

# --- removed, and purged --------------------------------------------------------------------------------------------
wait_for 120 is_measured
expect remove apt-get remove trackiops
expect metrics_active systemctl is-active trackiops-metrics
list_system removed
expect check find "$STORE" -name catalog.db
expect purge apt-get purge trackiops
list_system purged
expect group getent group trackiops
kill "$SERVER"

# --- other ways to install and remove ----------------------------------------------------------------------------
expect rpm rpm -i --nodeps /work/trackiops.rpm
systemctl start trackiops
wait_for 120 is_recording
expect rpm_removed rpm -e trackiops
expect rpm_active systemctl is-active trackiops
rm -rf "$STORE" # whoever removes a .rpm keeps it
groupdel trackiops
list_system rpm
tar -x -C /work -f /work/trackiops.tar.gz
expect archive /work/trackiops-*/install.sh
hash -r # bash remembers /usr/bin/trackiops
systemctl start trackiops
wait_for 120 is_recording
expect archive_removed /work/trackiops-*/install.sh --uninstall
expect archive_active systemctl is-active trackiops
rm -rf "$STORE"
groupdel trackiops
list_system archive
