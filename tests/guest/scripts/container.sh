# The recorder in a container, run by Podman like docs/guide/containers.md describes, and the effect of omitting each option.
. /work/lib.sh
STORE=/var/lib/trackiops
CONTAINER=trackiops
sudo() { "$@"; }
# A command that hangs must not block the test.
podman() { timeout --kill-after=5 120 podman "$@"; }

said() { podman logs "$CONTAINER" 2>&1; }
# Not through a pipe: a pipe that is not read to its end makes the command fail.
has_begun() { grep -q "^recording$\|recording needs root" <<<"$(said)"; }
needs_more() { grep -q "recording needs root" <<<"$(said)"; }

# some_io NAME: by root on the host, by a user in a container, and by a user in a private mount namespace.
some_io() {
    dd if=/dev/zero of=/mnt/nfs/host bs=64k count=8 oflag=direct status=none
    dd if=/dev/zero of=/mnt/two/host bs=64k count=2 oflag=direct status=none
    # With the host's programs and a private mount namespace. Its cgroup stays until the recorder has looked for it.
    podman run --rm --network=none --cgroupns=host --user=1000 --volume=/mnt/nfs/data:/data --rootfs /:O sh -c "
        dd if=/dev/zero of=/data/tenant bs=64k count=4 oflag=direct status=none
        sed s/^0::// /proc/self/cgroup; sleep 2" >"$OUT/$1.cgroup" &
    local tenant=$!
    unshare --mount --propagation private bash -c '
        mount -t nfs -o vers=4.2,nosharecache 127.0.0.1:/exp /mnt/inside
        exec setpriv --reuid 1000 --regid 1000 --clear-groups bash -c "
            exec 3<>/mnt/inside/data/inside && sleep 1
            dd if=/dev/zero bs=4k count=4 oflag=direct conv=notrunc status=none >&3; exec sleep 3"' &
    wait "$tenant"
    wait $!
}

# record_some NAME COMMAND: the recording of the container that COMMAND starts.
record_some() {
    local name=$1
    rm -rf "$STORE"
    systemd-tmpfiles --create trackiops.conf
    eval "$2"
    wait_for 60 has_begun
    if ! needs_more; then
        sleep 1
        snapshot "$name.before"
        some_io "$name"
        snapshot "$name.after"
        expect "$name.recorder" trackiops status
        expect "$name.doctor" podman exec "$CONTAINER" trackiops doctor
        podman stop "$CONTAINER"
        trackiops query --step all --json >"$OUT/$name.json"
        trackiops query --step all --by mount,op --json >"$OUT/$name.ops"
        expect "$name.audit" trackiops doctor
        expect "$name.check" trackiops store check
    fi
    podman inspect --format='{{.State.ExitCode}}' "$CONTAINER" >"$OUT/$name.exit"
    said >"$OUT/$name.said"
    [ "$CONTAINER" != trackiops ] || podman rm --force trackiops
}

# Messages in the system's journal may be late, and several containers have this name.
printf '[containers]\nlog_driver = "k8s-file"\n' >/etc/containers/containers.conf
useradd --uid 1000 user
mkdir -p /exp2 /mnt/two /mnt/inside
mount -t tmpfs exp2 /exp2
exportfs -o rw,no_root_squash,insecure,fsid=2 '*:/exp2'
mount -t nfs -o vers=4.2 127.0.0.1:/exp2 /mnt/two
mkdir -m 777 /mnt/nfs/data
. /work/load.sh

command=$(cat /work/run.sh)
record_some whole "$command"
# Other engines mount nothing else into a read-only container.
record_some sealed "${command/--read-only /--read-only --read-only-tmpfs=false }"
# Remove the option that begins like this.
while read -r name option; do
    # shellcheck disable=SC2001
    record_some "$name" "$(sed "s| ${option}[^ ]*||" <<<"$command")"
done <<'END'
pid --pid=
uts --uts=
sys --volume=/sys:
cgroup --volume=/sys/fs/cgroup:
passwd --volume=/etc/passwd:
run --volume=/run/trackiops:
apparmor --security-opt=apparmor=
SYS_ADMIN --cap-add=SYS_ADMIN
SYS_PTRACE --cap-add=SYS_PTRACE
END

# A store owned by a group.
sed -i 's|^d /var/lib/trackiops .*|d /var/lib/trackiops 2750 root trackiops|' /etc/tmpfiles.d/trackiops.conf
record_some others "$command"
group=$(getent group trackiops | cut -d: -f3)
record_some group "${command/--detach /--detach --user=0:$group }"
setpriv --reuid 65534 --regid "$group" --clear-groups trackiops query --step all --json >"$OUT/member.json"

# As on a node. Podman supports neither node names nor `appArmorProfile`.
if [ "${1:-}" = kube ]; then
    CONTAINER=trackiops-pod-trackiops
    sed -i 's|^d /var/lib/trackiops .*|d /var/lib/trackiops 0750|' /etc/tmpfiles.d/trackiops.conf
    sed -e 's/^\( *\)valueFrom:/\1value: node-7/' -e '/fieldRef:/d' -e '/fieldPath:/d' /work/trackiops.yaml >/work/node.yaml
    printf 'apparmor_profile = "unconfined"\n' >>/etc/containers/containers.conf
    record_some node "podman kube play --network=none /work/node.yaml"
    podman kube down /work/node.yaml
fi
