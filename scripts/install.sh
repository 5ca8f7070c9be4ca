#!/usr/bin/env bash
# Installs Debian packages if it may; otherwise it names the missing ones.
#
#   install.sh PACKAGE...
set -euo pipefail

if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
    echo "setup: missing: $*; install them, or run this as root on Debian or Ubuntu" >&2
    exit 1
fi
echo "setup: installing $*" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq -o DPkg::Lock::Timeout=300 install --no-install-recommends -y "$@" >/dev/null
