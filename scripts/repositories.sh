#!/usr/bin/env bash
# Makes an apt repository and a dnf repository of packages, for any server of files, and prints their paths. The same packages, key and
# tools give the same bytes.
#
#   repositories.sh REPOSITORIES DIST...     every .deb and .rpm in the DIST directories, such as target/dist, goes into REPOSITORIES
#
# TRACKIOPS_SIGNING_KEY=FILE       a secret key of GnuPG without a passphrase; without it, nothing is signed
# TRACKIOPS_REPOSITORIES_URL=URL   where REPOSITORIES will be; with a key, makes the files that users install as well
# SOURCE_DATE_EPOCH=SECONDS        the time in what is made; default: that of the commit
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
umask 022

say() { echo "${0##*/}: $*" >&2; }
die() { say "error: $*"; exit 1; }

install_tools() {
    local tool missing=()
    for tool in dpkg-scanpackages:dpkg-dev createrepo_c:createrepo-c rpmsign:rpm gpg:gpg gpg-agent:gpg-agent gpgconf:gpgconf; do
        command -v "${tool%:*}" >/dev/null || missing+=("${tool#*:}")
    done
    [ ${#missing[@]} -eq 0 ] || scripts/install.sh "${missing[@]}"
}

# Puts the key into a separate keyring. Sets `key`, its fingerprint, and `created`.
take_key() {
    local keys
    export GNUPGHOME=$scratch/gnupg
    mkdir -m 700 "$GNUPGHOME"
    gpg --batch --quiet --import "$1" 2>"$scratch/gpg.log" || { cat "$scratch/gpg.log" >&2; die "$1 is no key of GnuPG"; }
    keys=$(gpg --batch --with-colons --list-secret-keys)
    key=$(awk -F: '$1 == "fpr" { print $10; exit }' <<<"$keys")
    [ -n "$key" ] || die "$1 has no secret key: export it with gpg --export-secret-keys"
    [ "$(grep -c ^sec: <<<"$keys")" = 1 ] || die "$1 has several keys: export one"
    created=$(awk -F: '($1 == "sec" || $1 == "ssb") && $6 > latest { latest = $6 } END { print latest }' <<<"$keys")
    gpg --batch --armor --export "$key" >"$new/trackiops.asc"
}

# faked TIME: options of gpg that sign at this time. No signature is older than its key.
faked() { echo "--batch --pinentry-mode error --faked-system-time $(($1 > created ? $1 : created))!"; }

# sign OUTPUT OPTION... FILE
sign() {
    gpg $(faked "$epoch") --quiet --local-user "$key" --digest-algo SHA512 --output "$@" 2>"$scratch/gpg.log" ||
        { cat "$scratch/gpg.log" >&2; die "cannot sign with $TRACKIOPS_SIGNING_KEY"; }
}

# find_packages ENDING: in order of their names.
find_packages() {
    find "${dists[@]}" -maxdepth 1 -type f -name "*.$1" -printf '%f\t%p\n' | sort | cut -f2
}

# put_packages ENDING TO
put_packages() {
    local package
    mkdir -p "$2"
    while read -r package; do
        [ ! -e "$2/${package##*/}" ] || cmp -s "$package" "$2/${package##*/}" || die "two files have the name ${package##*/}: $package is one"
        install -m 644 "$package" "$2"
    done < <(find_packages "$1")
    compgen -G "$2/*" >/dev/null || die "no .$1 in ${dists[*]}: run \`make dist\`"
}

# Indexes also have their checksums as names (`by-hash`): a client that reads while a release is put there gets what it has asked for.
make_apt() {
    local arch index file sum sums=()
    put_packages deb "$new/apt/pool"
    cd "$new/apt"
    for arch in amd64 arm64; do
        index=dists/stable/main/binary-$arch
        mkdir -p "$index/by-hash/SHA256"
        dpkg-scanpackages --multiversion --arch "$arch" pool >"$index/Packages" 2>"$scratch/scan.log" || { cat "$scratch/scan.log" >&2; exit 1; }
        gzip -9 --no-name --keep "$index/Packages"
        for file in "$index"/Packages*; do
            sum=$(sha256sum <"$file" | cut -d' ' -f1)
            cp "$file" "$index/by-hash/SHA256/$sum"
            sums+=(" $sum $(stat -c %s "$file") ${file#dists/stable/}")
        done
    done
    cat >dists/stable/Release <<RELEASE
Origin: TrackIOps
Label: TrackIOps
Suite: stable
Codename: stable
Date: $(date --date="@$epoch" --rfc-email)
Acquire-By-Hash: yes
Architectures: amd64 arm64
Components: main
Description: TrackIOps for Debian and Ubuntu
SHA256:
$(printf '%s\n' "${sums[@]}")
RELEASE
    if [ -n "$key" ]; then
        sign dists/stable/InRelease --clear-sign dists/stable/Release
        sign dists/stable/Release.gpg --armor --detach-sign dists/stable/Release
    fi
}

make_dnf() {
    local package built
    put_packages rpm "$new/rpm"
    cd "$new/rpm"
    # In the repository of a later release, a package has the same bytes, and the same time in the index.
    for package in *.rpm; do
        built=$(rpm --query --package --queryformat '%{BUILDTIME}' "$package")
        [ -z "$key" ] || rpmsign --define "__gpg $(command -v gpg)" --define "_gpg_name $key" \
            --define "_gpg_sign_cmd_extra_args $(faked "$built")" --addsign "$package" >"$scratch/rpm.log" 2>&1 ||
            { cat "$scratch/rpm.log" >&2; die "cannot sign with $TRACKIOPS_SIGNING_KEY"; }
        touch --date="@$built" "$package"
    done
    createrepo_c --quiet --no-database --general-compress-type gz --checksum sha256 --revision "$epoch" --set-timestamp-to-revision .
    [ -z "$key" ] || sign repodata/repomd.xml.asc --armor --detach-sign repodata/repomd.xml
}

# One file each for /etc/apt/sources.list.d and /etc/yum.repos.d.
make_sources() {
    local url=${TRACKIOPS_REPOSITORIES_URL%/}
    {
        printf '%s\n' "Types: deb" "URIs: $url/apt" "Suites: stable" "Components: main" "Signed-By:"
        # Continued lines begin with a space, and an empty line is a dot.
        sed 's/^$/./; s/^/ /' "$new/trackiops.asc"
    } >"$new/trackiops.sources"
    printf '%s\n' "[trackiops]" "name=TrackIOps" "baseurl=$url/rpm" "enabled=1" "gpgcheck=1" "repo_gpgcheck=1" "gpgkey=$url/trackiops.asc" \
        >"$new/trackiops.repo"
}

[ $# -ge 2 ] || die "name a directory for the repositories, and directories with packages"
mkdir -p "$(dirname "$1")"
out=$(realpath "$1")
shift
dists=()
for dist; do
    [ -d "$dist" ] || die "$dist is no directory: run \`make dist\`"
    dists+=("$(realpath "$dist")")
done
[ ! -e "$out" ] || { [ -d "$out/apt/dists" ] && [ -d "$out/rpm/repodata" ]; } || die "$out exists and has no repository for apt and for dnf: name another directory"
install_tools
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
new=$out.new key=
rm -rf "$new"
mkdir "$new"
scratch=$(mktemp -d)
trap 'GNUPGHOME=$scratch/gnupg gpgconf --kill gpg-agent 2>/dev/null || true; rm -rf "$scratch" "$new"' EXIT
[ -z "${TRACKIOPS_SIGNING_KEY:-}" ] || take_key "$TRACKIOPS_SIGNING_KEY"
(make_apt)
(make_dnf)
if [ -n "$key" ]; then
    [ -z "${TRACKIOPS_REPOSITORIES_URL:-}" ] || make_sources
    say "signed with $key"
else
    say "warning: NOT SIGNED, since TRACKIOPS_SIGNING_KEY names no key: apt and dnf refuse these repositories"
fi
rm -rf "$out"
mv "$new" "$out"
echo "$out/apt"
echo "$out/rpm"
