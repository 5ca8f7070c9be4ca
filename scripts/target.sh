# For scripts that build for this or another architecture: source it from the root of the repository.
#
# Everything is linked statically, including glibc: the binary needs only a kernel. This takes only the machine's own compiler and costs
# nothing. Sealing a journal of 900,000 rows took 0.97 of the processor time of a dynamic build. musl took twice as much, because its
# allocator is slower.

say() { echo "${0##*/}: $*" >&2; }
die() { say "error: $*"; exit 1; }

# Sets `triple`, `gcc`, and cargo's variables for `--target "$triple"`; installs missing packages.
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
        # Not for this machine's architecture: its build scripts and macros would be rebuilt for each architecture.
        export "CARGO_TARGET_$(tr a-z- A-Z_ <<<"$triple")_LINKER=$gcc"
        add_std
    fi
    # A compiler without the file repeats the name.
    [ "$("$gcc" -print-file-name=libc.a)" != libc.a ] ||
        die "$gcc has no static C library: install libc6-dev (Debian, Ubuntu) or glibc-static (Fedora)"
    # These flags do not apply to build scripts, and replace a user's own flags. They keep this machine's paths out of the binary.
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
