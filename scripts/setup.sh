#!/usr/bin/env bash
# Checks the requirements of building and testing before anything slow begins. Installs Debian packages if it may; otherwise it names the
# missing ones.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "setup: $*" >&2; }

rust_needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if ! command -v cargo >/dev/null; then
    say "cargo is missing: install Rust $rust_needed or newer (https://rustup.rs), then run this again"
    exit 1
fi
rust_here=$(rustc --version | awk '{print $2}')
if [ "$(printf '%s\n' "$rust_needed" "${rust_here%%-*}" | sort -V | head -n1)" != "$rust_needed" ]; then
    say "Rust $rust_here is too old: $rust_needed or newer is needed (rustup update stable)"
    exit 1
fi
for component in fmt clippy; do
    cargo "$component" --version >/dev/null 2>&1 || {
        say "cargo $component is missing: rustup component add rustfmt clippy"
        exit 1
    }
done

packages=()
command -v cc >/dev/null || packages+=(build-essential)
command -v git >/dev/null || packages+=(git)
command -v openssl >/dev/null || packages+=(openssl)
python3 -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3-venv)
[ ${#packages[@]} -eq 0 ] || scripts/install.sh "${packages[@]}"
