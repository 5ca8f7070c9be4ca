#!/usr/bin/env bash
# Builds the binary that runs on any Linux of an architecture, checks that it is that, and prints its path.
#
#   release.sh [x86_64|aarch64]     this machine's architecture unless told otherwise
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/target.sh

# No loader and no library may be asked for, and the machine must be the right one.
check() {
    local headers machine
    headers=$(readelf --wide --file-header --program-headers --dynamic "$1")
    case $arch in x86_64) machine=X86-64 ;; aarch64) machine=AArch64 ;; esac
    grep -q "Machine:.*$machine" <<<"$headers" || die "$1 is not for $arch"
    ! grep -E '^ *INTERP|\(NEEDED\)' <<<"$headers" >&2 || die "$1 is not static: it asks for the above"
}

arch=${1:-$(uname -m)}
build_for "$arch"
cargo build --release --locked --package trackiops --bin trackiops --target "$triple" >&2
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
check "$target/$triple/release/trackiops"
# Whoever passes the binary on passes these on with it.
cp LICENSE-APACHE LICENSE-MIT THIRD-PARTY.md "$target/$triple/release/"
echo "$target/$triple/release/trackiops"
