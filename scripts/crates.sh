#!/usr/bin/env bash
# Packs the crates that `cargo install trackiops` needs, as a registry takes them, and prints their paths. Makes a directory of their sources
# and of all other crates, from which cargo can install without a registry, and resolves the program from it. Needs cargo 1.90: an older one
# packs no crates that need each other.
#
#   crates.sh DIRECTORY             packs a commit: uncommitted changes are an error
#   crates.sh --install DIRECTORY   installs the program from there as well, into DIRECTORY/installed
#
# TRACKIOPS_ALLOW_DIRTY=1 packs uncommitted changes, too.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "${0##*/}: $*" >&2; }
die() { say "error: $*"; exit 2; }

# The crates without `publish = false`.
published() {
    cargo metadata --format-version 1 --no-deps --locked | python3 -c '
import json, sys
print(*(package["name"] for package in json.load(sys.stdin)["packages"] if package["publish"] is None))'
}

# A directory source: https://doc.rust-lang.org/cargo/reference/source-replacement.html#directory-sources
make_source() {
    local crate name
    cargo vendor --quiet --locked --versioned-dirs "$out/source" >/dev/null
    for crate in "$out"/*.crate; do
        name=$(basename "$crate" .crate)
        tar -xf "$crate" -C "$out/source"
        printf '{"files":{},"package":"%s"}\n' "$(sha256sum <"$crate" | cut -d' ' -f1)" >"$out/source/$name/.cargo-checksum.json"
    done
    printf '[source.crates-io]\nreplace-with = "packed"\n\n[source.packed]\ndirectory = "%s"\n' "$out/source" >"$out/config.toml"
}

# Cargo at a place where neither the workspace nor the settings of the checkout are found.
cargo_there() { (cd "$scratch" && cargo --config "$out/config.toml" --offline "$@"); }

install=false
if [ "${1:-}" = --install ]; then
    install=true
    shift
fi
[ $# -eq 1 ] || die "name a directory"
mkdir -p "$1"
out=$(cd "$1" && pwd)
rm -rf "$out/source" "$out/installed" "$out"/*.crate
read -ra names <<<"$(published)"
[ ${#names[@]} -gt 0 ] || die "no crate is published"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cargo package --quiet --locked --no-verify ${TRACKIOPS_ALLOW_DIRTY:+--allow-dirty} --target-dir "$scratch" "${names[@]/#/--package=}"
cp "$scratch"/package/*.crate "$out"
make_source
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
tar -xf "$out/trackiops-$version.crate" -C "$scratch"
cargo_there tree --quiet --locked --manifest-path "trackiops-$version/Cargo.toml" >/dev/null
if "$install"; then
    cargo_there install --locked --root "$out/installed" trackiops
    "$out/installed/bin/trackiops" --version >&2
fi
ls "$out"/*.crate
