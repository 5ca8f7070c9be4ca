#!/usr/bin/env bash
# Prints what CHANGELOG.md says of a release, if all versions of the repository are this one.
#
#   release-notes.sh vVERSION
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

die() { echo "${0##*/}: error: $*" >&2; exit 1; }

[ $# -eq 1 ] || die "name a tag, such as v0.1.0"
version=${1#v}
[ "$1" = "v$version" ] || die "$1 does not begin with v"
# has FILE TEXT: a line of the file begins with that text.
has() { grep -q "^${2//./\\.}" "$1" || die "$1 has another version than $version"; }
has Cargo.toml "version = \"$version\""
has contrib/python/pyproject.toml "version = \"$version\""
has contrib/kubernetes/helm/trackiops/Chart.yaml "version: $version$"
has contrib/kubernetes/helm/trackiops/Chart.yaml "appVersion: $version$"
# From the title of this release to the next one of its rank.
notes=$(awk -v title="## $version" '/^## /{on = index($0 " ", title " ") == 1; next} on' CHANGELOG.md)
[ -n "${notes//[[:space:]]/}" ] || die "CHANGELOG.md has no section \"## $version\""
printf '%s\n' "$notes"
