#!/usr/bin/env bash
# Builds the files of a release into target/dist. Each architecture gets an archive with install.sh, a .deb, a .rpm, a container image and
# an SBOM (CycloneDX). Beside them are a chart for Helm, the module for Python and SHA256SUMS. Checks the packages, and makes repositories
# of them in target/repositories (scripts/repositories.sh). Builds are reproducible for the same commit, tools and key.
#
#   dist.sh [x86_64|aarch64]...     default: both
#   dist.sh --check                 builds again from a second checkout, at another path, and compares
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/target.sh
export LC_ALL=C TZ=UTC
umask 022

install_tools() {
    local tool missing=()
    for tool in dh:debhelper lintian:lintian rpmbuild:rpm rpmlint:rpmlint shellcheck:shellcheck; do
        command -v "${tool%:*}" >/dev/null || missing+=("${tool#*:}")
    done
    [ ${#missing[@]} -eq 0 ] || scripts/install.sh "${missing[@]}"
}

# Man pages and completions are the same for all architectures. A test of the program makes them.
make_pages() {
    mkdir "$scratch/pages"
    TRACKIOPS_PAGES=$scratch/pages cargo test --quiet --locked --features fail-points --bin trackiops \
        every_command_has_a_man_page_and_every_shell_completions >"$scratch/pages.log" 2>&1 ||
        { cat "$scratch/pages.log" >&2; die "no man pages and completions"; }
}

# put MODE FILE TO: below the root.
put() { install -D -m "$1" "$2" "$root/$3"; }

# Debian's notices for the package that contains a library of the compiler.
notices_of() {
    local package
    package=$(dpkg-query --search "$(realpath "$("$gcc" -print-file-name="$1")")")
    cat "/usr/share/doc/${package%%:*}/copyright"
}

# All installed files, in the layout of system packages.
make_root() {
    mkdir "$work"
    local page unit doc=usr/share/doc/trackiops
    put 755 "$binary" usr/bin/trackiops
    for unit in trackiops trackiops-metrics trackiops-serve; do
        sed 's|/usr/local/bin/|/usr/bin/|' "contrib/$unit.service" >"$work/$unit.service"
        put 644 "$work/$unit.service" "usr/lib/systemd/system/$unit.service"
    done
    put 644 contrib/trackiops.sysusers usr/lib/sysusers.d/trackiops.conf
    for page in "$scratch"/pages/*.1; do put 644 "$page" "usr/share/man/man1/${page##*/}"; done
    gzip -9 --no-name "$root"/usr/share/man/man1/*
    put 644 "$scratch/pages/trackiops.bash" usr/share/bash-completion/completions/trackiops
    put 644 "$scratch/pages/_trackiops" usr/share/zsh/site-functions/_trackiops
    put 644 "$scratch/pages/trackiops.fish" usr/share/fish/vendor_completions.d/trackiops.fish
    for page in README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT; do put 644 "$page" "$doc/$page"; done
    put 644 contrib/trackiops.sql "$doc/trackiops.sql"
    put 644 contrib/kubernetes/trackiops.yaml "$doc/kubernetes/trackiops.yaml"
    put 644 contrib/grafana/trackiops.json "$doc/grafana/trackiops.json"
    put 644 contrib/prometheus/trackiops.rules.yml "$doc/prometheus/trackiops.rules.yml"
    notices_of libc.a >"$root/$doc/COPYRIGHT-glibc"
    notices_of libgcc_eh.a >"$root/$doc/COPYRIGHT-libgcc"
    cp /usr/share/common-licenses/LGPL-2.1 /usr/share/common-licenses/GPL-3 "$root/$doc"
    put 644 "$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html" "$doc/COPYRIGHT-rust-std.html"
    scripts/third-party.py notices "$binary" >"$root/$doc/THIRD-PARTY.md"
    scripts/third-party.py sbom "$binary" >"$root/$doc/trackiops.cdx.json"
    # A service must not fill the disk.
    sed 's/^#store-size = .*/store-size = "20GiB"/' contrib/trackiops.toml >"$work/trackiops.toml"
    grep -q '^store-size' "$work/trackiops.toml" || die "contrib/trackiops.toml has no store-size"
    put 644 "$work/trackiops.toml" etc/trackiops/trackiops.toml
}

make_archive() {
    local name=trackiops-$version-linux-$arch
    mkdir "$work/$name"
    cp -a "$root/usr/." contrib/package/install.sh "$work/$name"
    # The configuration is always in /etc, whatever the prefix.
    cp "$root/etc/trackiops/trackiops.toml" "$work/$name/share/doc/trackiops"
    tar -C "$work" --create --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --format=gnu "$name" |
        gzip -9 --no-name >"$dist/$name.tar.gz"
}

make_deb() {
    local deb_arch maintainer unit dir=$work/trackiops-$version
    case $arch in x86_64) deb_arch=amd64 ;; aarch64) deb_arch=arm64 ;; esac
    maintainer=$(sed -n 's/^Maintainer: //p' contrib/package/debian/control)
    mkdir "$dir"
    cp -r contrib/package/debian "$dir"
    cp -a "$root" "$dir/root"
    # Debian has its own places for these.
    mv "$dir/root/usr/lib/systemd/system/trackiops.service" "$dir/debian"
    for unit in trackiops-metrics trackiops-serve; do
        mv "$dir/root/usr/lib/systemd/system/$unit.service" "$dir/debian/trackiops.$unit.service"
    done
    mv "$dir/root/usr/lib/sysusers.d/trackiops.conf" "$dir/debian/trackiops.sysusers"
    rm -r "$dir/root/usr/lib"
    scripts/third-party.py copyright "$binary" >"$dir/debian/copyright"
    cat >"$dir/debian/changelog" <<EOF
trackiops ($version-1) unstable; urgency=medium

  * The changes are in changelog.gz.

 -- $maintainer  $(date --rfc-2822 --date="@$epoch")
EOF
    (
        cd "$dir"
        # It warns about a cross compiler that is not in use here.
        SOURCE_DATE_EPOCH=$epoch dpkg-architecture --host-arch "$deb_arch" --force --command debian/rules binary
    ) >"$work/deb.log" 2>&1 || { cat "$work/deb.log" >&2; die "no .deb"; }
    mv "$work/trackiops_$version-1_$deb_arch.deb" "$dist"
}

make_rpm() {
    local defines=("_topdir $work/rpm" "root $root" "version $version"
        "licence $licence"
        # Record neither time nor machine, and do not change binaries, which may be for another machine.
        "_buildhost localhost" "use_source_date_epoch_as_buildtime 1" "clamp_mtime_to_source_date_epoch 1"
        "_binary_payload w6.xzdio" "_build_id_links none" "debug_package %{nil}" "__strip /bin/true" "__os_install_post %{nil}")
    SOURCE_DATE_EPOCH=$epoch rpmbuild -bb --quiet --target "$arch-linux" "${defines[@]/#/--define=}" contrib/package/trackiops.spec \
        >"$work/rpm.log" 2>&1 || { cat "$work/rpm.log" >&2; die "no .rpm"; }
    mv "$work/rpm/RPMS/$arch/"*.rpm "$dist"
}

make_image() {
    contrib/package/oci-image.py "$root" "$dist/trackiops-$version-linux-$arch.oci.tar" "$version" "$arch" "$epoch" "$licence"
}

# Helm needs only that everything is below the chart's name.
make_chart() {
    tar -C contrib/kubernetes/helm --create --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --format=gnu \
        --mode=u=rwX,go=rX trackiops | gzip -9 --no-name >"$dist/trackiops-chart-$version.tgz"
}

# Built elsewhere first: that script replaces every archive whose name begins with trackiops.
make_python() {
    SOURCE_DATE_EPOCH=$epoch scripts/python-package.sh "$scratch/python" >/dev/null
    cp "$scratch"/python/* "$dist"
}

# Fails if the checkers find anything. Accepted findings are listed in contrib/package.
check_packages() {
    lintian --fail-on error,warning --allow-root --tag-display-limit 0 "$dist"/*.deb >&2
    rpmlint --config contrib/package/rpmlint.toml "$dist"/*.rpm >&2
    shellcheck contrib/package/install.sh contrib/package/debian/trackiops.{prerm,postrm}
}

build() {
    local arch work root binary gcc licence
    install_tools
    rm -rf "$dist"
    mkdir -p "$dist"
    make_pages
    for arch; do
        work=$scratch/$arch
        root=$work/root
        binary=$(scripts/release.sh "$arch")
        gcc=cc
        [ "$arch" = "$(uname -m)" ] || gcc=$arch-linux-gnu-gcc
        licence=$(scripts/third-party.py licence "$binary")
        make_root
        make_archive
        make_deb
        make_rpm
        make_image
        cp "$root/usr/share/doc/trackiops/trackiops.cdx.json" "$dist/trackiops-$version-linux-$arch.cdx.json"
    done
    make_chart
    make_python
    check_packages
    (cd "$dist" && sha256sum -- *[!S] >SHA256SUMS)
    SOURCE_DATE_EPOCH=$epoch scripts/repositories.sh "$repositories" "$dist" >/dev/null
    ls "$dist"/*
}

build_twice() {
    local other
    # The other checkout is another place.
    [ -z "${TRACKIOPS_SIGNING_KEY:-}" ] || export TRACKIOPS_SIGNING_KEY=$(realpath "$TRACKIOPS_SIGNING_KEY")
    git diff --quiet HEAD || die "commit what has changed first: the second checkout is of a commit"
    build "$@"
    other=$scratch/another/checkout
    git clone --quiet . "$other"
    (unset CARGO_TARGET_DIR; "$other/scripts/dist.sh" "$@")
    diff "$dist/SHA256SUMS" "$other/target/dist/SHA256SUMS" >&2 && diff -r "$repositories" "$other/target/repositories" >&2 ||
        die "the same commit gave other bytes at another path"
    say "the same bytes from two checkouts"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Not exported, because every C build would run again.
epoch=$(git log -1 --format=%ct)
metadata=$(cargo metadata --format-version 1 --no-deps --locked)
dist=${metadata##*'"target_directory":"'}
dist=${dist%%'"'*}/dist
repositories=${dist%/*}/repositories
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
do=build
if [ "${1:-}" = --check ]; then
    do=build_twice
    shift
fi
[ $# -gt 0 ] || set -- x86_64 aarch64
"$do" "$@"
