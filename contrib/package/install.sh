#!/bin/sh
# Installs TrackIOps from the archive that contains this script, or removes what it installed.
#
#   install.sh [--prefix DIR]               below /usr/local by default; replaces an older version, too
#   install.sh [--prefix DIR] --uninstall   keeps recorded data
set -eu

say() { echo "install.sh: $*" >&2; }
die() { say "error: $*"; exit 1; }
usage() { sed -n '2,6s/^# \{0,1\}//p' "$0"; }

prefix=/usr/local
action=install
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) [ $# -gt 1 ] || die "--prefix needs a directory"; prefix=$2; shift ;;
        --prefix=*) prefix=${1#*=} ;;
        --uninstall) action=uninstall ;;
        -h | --help) usage; exit ;;
        *) usage >&2; die "unknown argument: $1" ;;
    esac
    shift
done
case $prefix in
    *[!A-Za-z0-9/._+-]*) die "the prefix may consist of letters, digits and /._+- only: $prefix" ;;
    /*) prefix=${prefix%/} ;;
    *) die "the prefix must be an absolute path: $prefix" ;;
esac
# The installed files, relative to the prefix, and with a trailing / the directories that it created.
list=$prefix/share/doc/trackiops/installed
export LC_ALL=C

# The configuration of the service, whatever the prefix. An existing file stays.
config=/etc/trackiops/trackiops.toml
example=$prefix/share/doc/trackiops/trackiops.toml

# Whether systemd runs here, and looks for units below this prefix.
has_systemd() {
    [ "$(id -u)" = 0 ] && [ -d /run/systemd/system ] && case $prefix in /usr | /usr/local) ;; *) false ;; esac
}

# has LINES LINE
has() { printf '%s\n' "$1" | grep -Fqx -e "$2"; }

install_files() {
    cd "$(dirname "$0")"
    [ -f bin/trackiops ] || die "nothing to install beside $0: unpack the whole archive, and run install.sh there"
    bin/trackiops --version >/dev/null || die "bin/trackiops does not run here ($(uname -sm)): get the archive for this machine"
    files=$(find bin lib share -type f)
    old=$(cat "$list" 2>/dev/null) || old=
    for file in $files; do
        [ ! -e "$prefix/$file" ] || has "$old" "$file" ||
            die "$prefix/$file is there already, and not from install.sh: remove it, or choose another --prefix"
    done
    made=$(find bin lib share -type d | while read -r dir; do
        [ -d "$prefix/$dir" ] && ! has "$old" "$dir/" || echo "$dir/"
    done)
    mkdir -p "${list%/*}" 2>/dev/null || true
    [ -w "${list%/*}" ] || die "cannot write below $prefix: run this as root, or choose another --prefix"
    # Write the list first, so that an interrupted installation can be removed.
    printf '%s\n' "$files" "$made" "$old" | sort -u >"$list"
    for file in $files; do
        mkdir -p "$prefix/${file%/*}"
        # The file of a running program cannot be written, but it can be replaced.
        cp "$file" "$prefix/$file.new"
        case $file in */system/*.service) sed "s|/usr/bin/|$prefix/bin/|" "$file" >"$prefix/$file.new" ;; esac
        mv -f "$prefix/$file.new" "$prefix/$file"
    done
    for file in $old; do
        case $file in */) continue ;; esac
        has "$files" "$file" || rm -f "${prefix:?}/$file"
    done
    printf '%s\n' "$files" "$made" | sort >"$list"

    say "installed trackiops below $prefix"
    if has_systemd; then
        getent group trackiops >/dev/null || groupadd --system trackiops
        mkdir -p "${config%/*}"
        [ -e "$config" ] || cp "$example" "$config"
        systemctl daemon-reload
        systemctl try-restart trackiops trackiops-metrics trackiops-serve
        say "to record always: systemctl enable --now trackiops"
    else
        say "to record: $prefix/bin/trackiops record"
    fi
}

uninstall_files() {
    [ -f "$list" ] || die "install.sh has installed nothing below $prefix: which --prefix was it?"
    [ -w "$list" ] || die "cannot write below $prefix: run this as root"
    if has_systemd; then
        systemctl disable --now trackiops-serve trackiops-metrics trackiops
        # A changed configuration belongs to the administrator.
        if cmp -s "$example" "$config"; then
            rm "$config"
            rmdir "${config%/*}" 2>/dev/null || true
        fi
    fi
    names=$(sort -r "$list")
    rm "$list"
    for name in $names; do
        case $name in
            # The directory may contain other files by now.
            */) rmdir "$prefix/$name" 2>/dev/null || true ;;
            *) rm -f "${prefix:?}/$name" ;;
        esac
    done
    if has_systemd; then
        systemctl daemon-reload
    fi
    say "removed trackiops from below $prefix"
    [ ! -d /var/lib/trackiops ] ||
        say "what was recorded is still there, and so is the group that may read it: rm -r /var/lib/trackiops; groupdel trackiops"
}

"$action"_files
