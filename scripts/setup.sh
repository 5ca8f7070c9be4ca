#!/usr/bin/env bash
# Checks the requirements of building and testing before anything slow begins. Installs Rust and Debian packages if it may; otherwise it
# names all that is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=() ok=true
command -v cc >/dev/null || packages+=(build-essential)
command -v git >/dev/null || packages+=(git)
command -v openssl >/dev/null || packages+=(openssl)
python3 -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3-venv)
[ ${#packages[@]} -eq 0 ] || scripts/install.sh "${packages[@]}" || ok=false
scripts/rust.sh || ok=false
"$ok"
