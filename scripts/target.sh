# Sourced by what builds for an architecture, this machine's or another, from the root of the repository.
#
# Everything is linked statically, glibc included: the result asks for nothing but a kernel. That takes no compiler
# but the machine's own, and costs nothing: sealing a journal of 900,000 rows took 0.97 of the processor time of a
# dynamic build, and musl, whose allocator is slower, twice as much.

say() { echo "${0##*/}: $*" >&2; }
die() { say "error: $*"; exit 1; }

# Sets `triple`, `gcc`, and what cargo needs for `--target "$triple"`; installs what is missing.
build_for() {
    local arch=$1 packages flags
    gcc=cc
    case $arch in
        x86_64) packages=(gcc-x86-64-linux-gnu libc6-dev-amd64-cross) ;;
        aarch64) packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross) ;;
        *) die "no build for $arch: only x86_64 and aarch64" ;;
    esac
    triple=$arch-unknown-linux-gnu
    if [ "$arch" != "$(uname -m)" ]; then
        gcc=$arch-linux-gnu-gcc
        command -v "$gcc" >/dev/null || scripts/install.sh "${packages[@]}"
        # Not for this machine's own, whose build scripts and macros would be made again for each architecture.
        export "CARGO_TARGET_$(tr a-z- A-Z_ <<<"$triple")_LINKER=$gcc"
        add_std
    fi
    # A compiler that does not have the file repeats the name.
    [ "$("$gcc" -print-file-name=libc.a)" != libc.a ] ||
        die "$gcc has no static C library: install libc6-dev (Debian, Ubuntu) or glibc-static (Fedora)"
    # Flags given this way are not for build scripts, and take the place of a user's own. Paths of this
    # machine are kept out of the result.
    flags=(-C target-feature=+crt-static
        "--remap-path-prefix=$PWD=." "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo")
    CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f'; printf %s "${flags[*]}")
    export CARGO_ENCODED_RUSTFLAGS
}

# Rust's standard library for `triple`.
add_std() {
    compgen -G "$(rustc --print target-libdir --target "$triple")/libstd-*.rlib" >/dev/null && return
    command -v rustup >/dev/null ||
        die "this Rust has no standard library for $triple, and there is no rustup to add it: install that library"
    say "adding Rust's standard library for $triple"
    rustup target add "$triple" >&2 || die "rustup cannot add $triple (the cause stands above)"
}
