# Sourced by lib.sh in a guest with systemd: the recorder is a service there, with all restrictions of contrib/trackiops.service.

# Other guests have this from the start.
mount_nfs() {
    wait_for 120 systemctl --quiet is-active nfs-server
    mount -t nfs -o vers=4.2 127.0.0.1:/exp /mnt/nfs
}

begin_recording() {
    local store=$1 said=$2 name
    shift 2
    name=trackiops-${store##*/}
    # Except that stores of tests are in /var/tmp.
    sed -e "s|^ExecStart=.*|ExecStart=/usr/local/bin/trackiops record --store $store $*|" -e "/^PrivateTmp=/d" \
        -e "s|^ProtectSystem=strict|&\nReadWritePaths=/var/tmp|" \
        -e "s|^\[Service\]|&\nStandardError=append:$said\nEnvironment=TRACKIOPS_RECORD_MAX_OVERHEAD=100%%|" /work/trackiops.service >"/run/systemd/system/$name.service"
    systemctl daemon-reload
    # The unit is ready once every probe is attached.
    systemctl start "$name" || { systemctl status --full --no-pager "$name" >&2; cat "$said" >&2; return 1; }
    SERVICES="${SERVICES:-} $name"
    BEGUN=$(systemctl show --property=MainPID --value "$name")
}

stop_recorder() {
    local name
    for name in $SERVICES; do
        systemctl kill --signal="${1:-INT}" "$name"
        wait_for 60 has_ended "$name"
        # It ended well, so it is not "failed".
        [ "$(systemctl is-active "$name")" = inactive ] || { systemctl status "$name" >&2; return 1; }
    done
    SERVICES=
}

has_ended() {
    case $(systemctl is-active "$1") in inactive | failed) ;; *) false ;; esac
}
