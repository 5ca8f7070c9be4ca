#!/usr/bin/env bash
# Checks the dependencies against .cargo/deny.toml: licences, bans, sources, and known vulnerabilities if their database can be reached.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=${XDG_CACHE_HOME:-$HOME/.cache}/trackiops/tools
export PATH=$tools/bin:$PATH
if ! command -v cargo-deny >/dev/null; then
    echo "deny: installing cargo-deny into the cache (some minutes)" >&2
    cargo install --quiet --locked cargo-deny --root "$tools"
fi
# The check also reads the manifests of crates for other platforms.
cargo fetch --quiet --locked
cargo deny --offline check licenses bans sources
if why=$(timeout 300 cargo deny fetch db 2>&1); then
    cargo deny --offline check advisories
else
    echo "$why" >&2
    echo "advisories: skipped, the database cannot be reached" >&2
fi
