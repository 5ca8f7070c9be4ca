#!/usr/bin/env bash
# Builds the binary that runs on any Linux of an architecture, checks that property, and prints the binary's path.
#
#   release.sh [x86_64|aarch64]     default: this machine's architecture
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/target.sh

# The binary must need no loader and no library, and be for the right machine.
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
# These must accompany every copy of the binary, and so must what `third-party.py notices` prints.
cp LICENSE-APACHE LICENSE-MIT "$target/$triple/release/"
echo "$target/$triple/release/trackiops"
