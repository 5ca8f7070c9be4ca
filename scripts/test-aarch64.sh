#!/usr/bin/env bash
# Builds the binary for aarch64 and runs all unit and integration tests there. Skips the tests of `cargo vm`, a tool of the host, and the
# tests in guests. On other machines, tests run under qemu-user. The kernel side needs no separate build: its object is BPF, the same for
# every architecture.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/target.sh

emulator=()
if [ "$(uname -m)" != aarch64 ]; then
    command -v qemu-aarch64 >/dev/null || scripts/install.sh qemu-user
    emulator=(qemu-aarch64)
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64 TRACKIOPS_TEST_EMULATOR=qemu-aarch64
fi
binary=$(scripts/release.sh aarch64)
"${emulator[@]}" "$binary" --version
build_for aarch64
cargo test --locked --target "$triple" --workspace --exclude trackiops-vm --exclude trackiops-ebpf \
    --exclude trackiops-bench-paper --exclude trackiops-bench-paper-ebpf
