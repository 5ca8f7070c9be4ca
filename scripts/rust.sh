#!/usr/bin/env bash
# Installs Rust where it is missing, older than Cargo.toml allows, or without rustfmt or clippy. Says what it is going to do.
#
# It takes the first of these that it can have: an installed rustup; packages of the distribution, as root; rustup's installer, into
# ${CARGO_HOME:-~/.cargo} and ${RUSTUP_HOME:-~/.rustup}. TRACKIOPS_NO_INSTALL=1 changes nothing, and names what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

# What is installed, in CI as well.
rust=1.95.0
# rustup-init, and its checksums as rustup publishes them.
rustup=1.29.0
sum_x86_64=4acc9acc76d5079515b46346a485974457b5a79893cfb01112423c89aeb5aa10
sum_aarch64=9732d6c5e2a098d3521fca8145d826ae0aaa067ef2385ead08e6feac88fa5792

say() { echo "setup: $*" >&2; }
die() { say "error: $*"; exit 1; }

needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# rustup's installer leaves PATH to the user. The Makefile has the same rule.
bin=${CARGO_HOME:-$HOME/.cargo}/bin
case ":$PATH:" in *":$bin:"*) ;; *) PATH=$bin:$PATH ;; esac

is_enough() { [ "$(printf '%s\n' "$needed" "$1" | sort -V | head -n 1)" = "$needed" ]; }

# The version of the Rust in PATH, if it starts: a command of rustup fails without a toolchain.
version_here() { { cargo --version >/dev/null && rustc --version; } 2>/dev/null | awk '{ sub(/-.*/, "", $2); print $2 }' || true; }

# What is wrong with the Rust in PATH, or nothing.
lack() {
    local here component
    here=$(version_here)
    if [ -z "$here" ]; then
        echo "Rust is missing"
    elif ! is_enough "$here"; then
        echo "Rust $here is too old"
    else
        for component in fmt clippy; do
            cargo "$component" --version >/dev/null 2>&1 || { echo "cargo $component is missing"; break; }
        done
    fi
}

# What other directories build with stays as it is.
with_rustup() {
    local here use="default"
    here=$(version_here)
    if [ -n "$here" ] && is_enough "$here"; then
        say "$why: rustup adds rustfmt and clippy"
        rustup component add rustfmt clippy >&2
        return
    fi
    say "$why: rustup installs Rust $rust"
    # Installing the first toolchain makes it the default.
    ! rustup default >/dev/null 2>&1 || use="override set"
    rustup toolchain install "$rust" --profile minimal --component rustfmt,clippy --no-self-update >&2 || return 1
    rustup $use "$rust" >&2
}

# The version of a package that apt would install, or nothing.
candidate() { apt-cache policy "$1" | sed -n 's/^ *Candidate: \([^(].*\)/\1/p'; }

with_packages() {
    command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ] || return 1
    apt-get -qq update
    if [ -n "$(candidate rustup)" ]; then
        say "$why: the distribution has rustup"
        scripts/install.sh rustup && with_rustup
    elif is_enough "$(candidate rustc)"; then
        say "$why: the distribution has a Rust that is new enough"
        scripts/install.sh rustc cargo rustfmt rust-clippy
    else
        return 1
    fi
}

with_installer() {
    local arch sum url=${RUSTUP_UPDATE_ROOT:-https://static.rust-lang.org/rustup}
    arch=$(uname -m)
    sum=sum_$arch
    [ -n "${!sum:-}" ] || { say "no checksum of rustup's installer for $arch is known here"; return 1; }
    url=$url/archive/$rustup/$arch-unknown-linux-gnu/rustup-init
    say "$why: rustup's installer puts Rust $rust into ${bin%/bin} and ${RUSTUP_HOME:-$HOME/.rustup}"
    command -v curl >/dev/null || scripts/install.sh curl ca-certificates || return 1
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    curl --proto '=https' --tlsv1.2 --fail --silent --show-error --location --output "$scratch/rustup-init" "$url" || return 1
    sha256sum --check --status - <<<"${!sum}  $scratch/rustup-init" ||
        die "$url has another checksum than ${!sum}: it was not run"
    chmod +x "$scratch/rustup-init"
    "$scratch/rustup-init" -y --no-modify-path --profile minimal --default-toolchain "$rust" --component rustfmt,clippy >&2
}

why=$(lack)
[ -n "$why" ] || exit 0
advice="install Rust $needed or newer with rustfmt and clippy, for example by \`rustup toolchain install $rust\` (https://rustup.rs)"
[ -z "${TRACKIOPS_NO_INSTALL:-}" ] || die "$why; $advice"
if command -v rustup >/dev/null; then
    with_rustup || die "rustup failed (the cause is above); $advice"
else
    with_packages || with_installer || die "$why, and could not be installed (the cause is above); $advice"
fi
why=$(lack)
[ -z "$why" ] || die "$why still: cargo is $(command -v cargo || echo "not in PATH")${RUSTUP_TOOLCHAIN:+, and RUSTUP_TOOLCHAIN is $RUSTUP_TOOLCHAIN}; $advice"
