#!/usr/bin/env bash
# Builds the page of `trackiops serve` from web/ into web/dist/. Building TrackIOps needs only the committed files there.
#
#   web.sh          checks types and builds
#   web.sh --check  builds elsewhere and compares with the committed files
#   web.sh --tools  only installs the requirements of the build and the browser test
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
[ ${#missing[@]} -eq 0 ] || scripts/install.sh "${missing[@]}"
if [ ! web/node_modules/.package-lock.json -nt web/package-lock.json ]; then
    npm --prefix web ci --silent --ignore-scripts --no-audit --no-fund
    touch web/node_modules/.package-lock.json
fi

case "${1-}" in
--tools) ;;
--check)
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    npm --prefix web run --silent check
    node web/build.mjs "$scratch"
    for part in dist licences; do
        diff -r "web/$part" "$scratch/$part" >&2 || {
            echo "error: web/$part is not what web/ makes; run \`make web\`" >&2
            exit 1
        }
    done
    ;;
*)
    npm --prefix web run --silent check
    node web/build.mjs
    ;;
esac
