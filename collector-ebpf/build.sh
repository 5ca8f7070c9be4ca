#!/usr/bin/env bash
# Builds the kernel sides, and checks the committed objects against their sources.
#
#   build.sh build          rebuild each object (*.bpf.o) and its record (*.bpf.toml)
#   build.sh check-sources  is each object the one on record, and the record that of these sources?
#   build.sh check          rebuild and compare bytes; SKIPPED where the toolchain cannot be had
#
# The toolchain is pinned, private and kept in ${XDG_CACHE_HOME:-~/.cache}/trackiops/ebpf; nothing
# else on the machine is changed. Set TRACKIOPS_DEBIAN_MIRROR where rustup cannot download and apt
# knows no Debian archive.
set -euo pipefail
export LC_ALL=C

readonly channel=nightly-2026-05-20
readonly rustc_commit=e50aa6fba4e63ab34c72bf9acfd2c307c1155d1a
# The minor version whose core sources this compiler takes.
readonly core_minor=1.97
readonly llvm_major=22
readonly bpf_linker_version=0.13.0
# v3: 32-bit arithmetic and jumps, all known to Linux 5.10. v4 needs Linux 6.6. Read by
# aya-ebpf, `bpf_target_arch` chooses register layouts that these programs do not use.
readonly flags=(-C target-cpu=v3 -C debuginfo=2 -Z location-detail=none '--cfg=bpf_target_arch="x86_64"')

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/trackiops/ebpf
readonly here root cache
# Directories of the crates, and the names of their objects.
readonly objects=(collector-ebpf/trackiops bench/paper/ebpf/paper)

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# Why the toolchain cannot be had; set by the functions that return 1.
why=

# --- what the object was made of -------------------------------------------------------------

# Sets `crate` (a directory), `package`, `object` and `record` for $1, one of `objects`.
choose() {
    crate=$(dirname "$1")
    package=$(sed -n 's/^name = "\(.*\)"/\1/p' "$root/$crate/Cargo.toml")
    object=$root/$1.bpf.o record=$root/$1.bpf.toml
}

# The files that the object is built from, as sorted paths in the repository.
source_files() {
    (cd "$root" && { find "$crate/src" -type f -name '*.rs'
        printf '%s\n' "$crate/Cargo.toml" collector-ebpf/build.sh
        ! grep -q '^trackiops-schemas' "$crate/Cargo.toml" ||
            find schemas/src/ebpf -type f -name '*.rs'; } | sort)
}

# `name version checksum` of each aya crate the kernel side is built with.
aya_crates() {
    awk '/^\[\[package\]\]/ { name = version = "" }
        $1 == "name" { name = $3 } $1 == "version" { version = $3 }
        $1 == "checksum" && name ~ /^"aya-ebpf/ { print name, version, $3 }' \
        "$root/Cargo.lock" | tr -d '"' | sort
}

sources_hash() {
    { (cd "$root" && source_files | xargs sha256sum); aya_crates; } | sha256sum | cut -d' ' -f1
}

# The value of a key of the record. Keys are unique in the whole file.
recorded() { sed -n "s/^$1 = \"\(.*\)\"\$/\1/p" "$record"; }

write_record() {
    local crates
    crates=$(aya_crates | awk '{ printf "%s%s %s", sep, $1, $2; sep = ", " }')
    cat > "$record" <<EOF
# What $(basename "$object") is and what it was built with. Written by build.sh; do not edit.

object_sha256 = "$(sha256sum < "$1" | cut -d' ' -f1)"
sources_sha256 = "$(sources_hash)"

rustc = "$("$sysroot/bin/rustc" --version)"
rustc_commit = "$rustc_commit"
channel = "$channel"
core = "$core"
llvm = "$(llvm_version)"
bpf_linker = "$bpf_linker_version"
crates = "$crates"
flags = '$(printf '%s ' "${flags[@]}" | sed 's/ $//')'
EOF
}

check_sources() {
    local advice='run `make ebpf` and commit what it writes'
    [[ -f $object && -f $record ]] || die "$object or its record is missing: $advice"
    [[ $(sha256sum < "$object" | cut -d' ' -f1) == "$(recorded object_sha256)" ]] ||
        die "$object is not the object on record: $advice"
    [[ $(sources_hash) == "$(recorded sources_sha256)" ]] ||
        die "$object was built from other sources than these: $advice"
    say "ebpf: $(basename "$object") is the one on record, built from these sources"
}

# --- the toolchain ---------------------------------------------------------------------------

llvm_version() { "$sysroot/bin/rustc" -vV | sed -n 's/^LLVM version: //p'; }

is_pinned() { [[ -x $1/bin/rustc && $("$1/bin/rustc" -vV 2>/dev/null) == *"commit-hash: $rustc_commit"* ]]; }

# Sets `sysroot` (compiler with core's sources) and `core` (where those come from).
find_compiler() {
    is_pinned_with_core "$cache/rustup/toolchains/$channel-$(uname -m)-unknown-linux-gnu" ||
        download_with_rustup || assemble_from_debian || return 1
    say "ebpf: rustc of $channel, core from $core"
}

is_pinned_with_core() {
    is_pinned "$1" && [[ -f $1/lib/rustlib/src/rust/library/Cargo.lock ]] || return 1
    sysroot=$1 core="rust-src of $channel"
}

# A separate rustup home: the user's toolchains and settings stay unchanged.
download_with_rustup() {
    command -v rustup > /dev/null || { why="there is no rustup"; return 1; }
    say "ebpf: downloading $channel with rustup"
    RUSTUP_HOME=$cache/rustup rustup toolchain install "$channel" \
        --profile minimal --component rust-src --no-self-update >> "$log" 2>&1 ||
        { why="rustup could not download $channel (see $log)"; return 1; }
    is_pinned_with_core "$cache/rustup/toolchains/$channel-$(uname -m)-unknown-linux-gnu" ||
        { why="rustup's $channel is not commit $rustc_commit"; return 1; }
}

# If rust-src cannot be downloaded: links the installed compiler into a separate tree of hard links,
# because -Z build-std takes the sources from inside the compiler's sysroot.
assemble_from_debian() {
    local installed='' candidate copy=$cache/sysroot-$rustc_commit
    while read -r candidate; do
        if is_pinned "$candidate"; then installed=$candidate; break; fi
    done < <(installed_sysroots)
    [[ -n $installed ]] ||
        { why+=", and no installed compiler is commit $rustc_commit"; return 1; }
    fetch_core || return 1
    if [[ ! -d $copy ]]; then
        rm -rf "$copy.new"
        mkdir -p "$copy.new"
        cp -al "$installed/bin" "$installed/lib" "$copy.new" 2>/dev/null ||
            cp -a "$installed/bin" "$installed/lib" "$copy.new"
        rm -rf "$copy.new/lib/rustlib/src"
        mkdir -p "$copy.new/lib/rustlib/src"
        mv "$copy.new" "$copy"
    fi
    ln -sfn "$core_sources" "$copy/lib/rustlib/src/rust"
    sysroot=$copy
}

installed_sysroots() {
    ls -d "${RUSTUP_HOME:-$HOME/.rustup}"/toolchains/* 2>/dev/null || true
    rustc --print sysroot 2>/dev/null || true
}

# Debian's rust-src package: sets `core_sources` and `core`. apt works on a separate state, so
# the machine's package lists and sources stay unchanged.
fetch_core() {
    local apt=$cache/apt mirror version package options
    command -v apt-get > /dev/null || { why+=", and there is no apt-get"; return 1; }
    mirror=${TRACKIOPS_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' \
        'Identifier: Packages' 'Origin: Debian' 'Label: Debian' 2>/dev/null | head -n 1)}
    [[ -n $mirror ]] ||
        { why+=", and apt knows no Debian archive (set TRACKIOPS_DEBIAN_MIRROR)"; return 1; }
    mkdir -p "$apt"/{lists,archives}/partial
    : > "$apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" > "$apt/sources.list"
    options=(-q -o APT::Sandbox::User=root -o Acquire::Languages=none -o APT::Architecture=amd64
        -o APT::Architectures::=amd64
        -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State=$apt" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt")
    say "ebpf: fetching core's sources from Debian's rust-src"
    apt-get "${options[@]}" update >> "$log" 2>&1 ||
        { why+=", and Debian's package lists could not be fetched (see $log)"; return 1; }
    version=$(apt-cache "${options[@]}" madison rust-src | awk '{ print $3 }' |
        grep -m 1 "^${core_minor//./\\.}\." || true)
    [[ -n $version ]] || { why+=", and Debian has no rust-src $core_minor any more"; return 1; }
    package=$cache/rust-src-$version
    if [[ ! -d $package ]]; then
        rm -rf "$package.new"
        mkdir -p "$package.new/deb"
        (cd "$package.new/deb" && apt-get "${options[@]}" download "rust-src=$version") >> "$log" 2>&1 ||
            { why+=", and rust-src $version could not be fetched (see $log)"; return 1; }
        dpkg-deb -x "$package.new"/deb/*.deb "$package.new"
        rm -r "$package.new/deb"
        mv "$package.new" "$package"
    fi
    core_sources=$(dirname "$(ls -d "$package"/usr/src/rustc-*/library)")
    core="Debian's rust-src $version"
}

# Sets `linker`: bpf-linker, built against the compiler's own LLVM. It reads the compiler's
# bitcode, so both must have the same LLVM version.
find_linker() {
    local prefix=$cache/llvm-$rustc_commit home=$cache/bpf-linker-$bpf_linker_version-$rustc_commit lib
    linker=$home/bin/bpf-linker
    lib=$(find "$sysroot/lib" -maxdepth 1 -type f -name "libLLVM.so.$llvm_major.*")
    [[ -n $lib ]] || { why="$sysroot has no libLLVM $llvm_major"; return 1; }
    mkdir -p "$prefix/lib"
    ln -sfn "$lib" "$prefix/lib/libLLVM.so"
    ln -sfn "$lib" "$prefix/lib/$(basename "$lib")"
    if "$linker" --version > /dev/null 2>&1; then return; fi
    say "ebpf: building bpf-linker $bpf_linker_version"
    LLVM_PREFIX=$prefix CARGO_TARGET_DIR=$scratch/linker RUSTC=$sysroot/bin/rustc \
        clean_env "$sysroot/bin/cargo" install bpf-linker --version "$bpf_linker_version" \
        --locked --force --no-default-features --features "llvm-$llvm_major" --root "$home" >> "$log" 2>&1 ||
        { why="bpf-linker could not be built (see $log)"; return 1; }
}

# Runs a command without variables of the user's environment that affect a build.
clean_env() {
    env -u RUSTFLAGS -u CARGO_BUILD_RUSTFLAGS -u RUSTC_WRAPPER -u RUSTC_WORKSPACE_WRAPPER \
        -u CARGO_BUILD_TARGET -u RUSTUP_TOOLCHAIN "$@"
}

find_toolchain() {
    mkdir -p "$cache"
    log=$cache/build.log
    # One at a time: the cache is shared by all checkouts of this user.
    exec 9> "$cache/lock"
    flock 9
    : > "$log"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    find_compiler && find_linker
}

# --- the object ------------------------------------------------------------------------------

objcopy() { LD_LIBRARY_PATH=$sysroot/lib "$sysroot"/lib/rustlib/*/bin/rust-objcopy "$@"; }

# Keeps only the list of functions of the .BTF.ext section in the file $1 (struct btf_ext_header,
# tools/lib/bpf/libbpf_internal.h). The verifier needs it for functions that it follows once. Line info is larger than
# the programs, and the kernel refuses two entries for one instruction.
keep_functions() {
    local header start length
    read -r header start length < <(od -An -t u4 -j 4 -N 12 "$1")
    truncate -s $((header + start + length)) "$1"
    # Clears the rest of the header: where lines and relocations are, and their lengths.
    dd if=/dev/zero of="$1" bs=1 seek=16 count=$((header - 16)) conv=notrunc status=none
}

# Compiles from scratch into the file $1. The profile is spelt out, so that the workspace's
# release profile, which is for the host, may change without changing the object.
compile() {
    local all=("${flags[@]}" -C "linker=$linker" -C link-arg=--btf
        "--remap-path-prefix=$root=." "--remap-path-prefix=$sysroot=rust"
        "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo")
    (cd "$root" &&
        RUSTC=$sysroot/bin/rustc \
        CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f'; printf '%s' "${all[*]}") \
        CARGO_TARGET_DIR=$scratch/target CARGO_INCREMENTAL=0 \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=3 CARGO_PROFILE_RELEASE_LTO=off \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 CARGO_PROFILE_RELEASE_DEBUG=2 \
        CARGO_PROFILE_RELEASE_PANIC=abort CARGO_PROFILE_RELEASE_STRIP=none \
        clean_env "$sysroot/bin/cargo" build --quiet --release -p "$package" \
        --target bpfel-unknown-none -Z build-std=core) ||
        die "$package does not compile (the cause stands above)"
    # Maps of maps need BTF that describes their inner maps. BTF needs debug info, which is then stripped.
    local compiled=$scratch/target/bpfel-unknown-none/release/$package
    objcopy --dump-section=.BTF.ext="$scratch/ext" "$compiled" "$scratch/unused"
    keep_functions "$scratch/ext"
    objcopy --strip-debug --remove-section=.rel.BTF.ext --update-section=.BTF.ext="$scratch/ext" "$compiled" "$1"
    chmod 644 "$1"
    ! grep -qaF -e "$root" -e "$HOME/" "$1" || die "the object contains paths of this machine"
}

build() {
    compile "$scratch/object"
    cp "$scratch/object" "$object"
    write_record "$object"
    say "ebpf: built $(basename "$object"): $(stat -c %s "$object") bytes, sha256 $(recorded object_sha256)"
}

check() {
    compile "$scratch/object"
    if cmp -s "$scratch/object" "$object"; then
        say "ebpf: a rebuild of $(basename "$object") gives the same bytes"
    elif [[ $core != "$(recorded core)" ]]; then
        echo "SKIPPED: the object was built with $(recorded core); here there is only $core"
    else
        die "a rebuild differs from $object: run \`make ebpf\` and commit what it writes"
    fi
}

for_each() {
    local one
    for one in "${objects[@]}"; do
        choose "$one"
        "$1"
    done
}

case ${1:-} in
    build)
        find_toolchain || die "cannot build the kernel side: $why; install rustup and retry with network"
        for_each build
        ;;
    check)
        for_each check_sources
        find_toolchain || { echo "SKIPPED: $why"; exit 0; }
        for_each check
        ;;
    check-sources) for_each check_sources ;;
    *) die "usage: build.sh build|check|check-sources" ;;
esac
