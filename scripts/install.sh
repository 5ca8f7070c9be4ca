#!/usr/bin/env bash
# Installs Debian packages if it may; otherwise it names the missing ones. Never removes a package.
#
#   install.sh PACKAGE...
#
# TRACKIOPS_NO_INSTALL=1 forbids it.
set -euo pipefail

missing() { echo "setup: missing: $1; $2" >&2; exit 1; }

[ -z "${TRACKIOPS_NO_INSTALL:-}" ] || missing "$*" "TRACKIOPS_NO_INSTALL is set, so install them"
if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
    missing "$*" "install them, or run this as root on Debian or Ubuntu"
fi
echo "setup: installing $*" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq -o DPkg::Lock::Timeout=300 install --no-install-recommends --no-remove -y "$@" >/dev/null
