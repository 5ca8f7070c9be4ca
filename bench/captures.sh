#!/usr/bin/env bash
# Measures the import of a capture of 1 GB, beside nfstrace counting its operations and tshark listing its messages, and sequentiality of
# many requests. Prints tables. See README.md beside it.
#
# CAPTURE=path                 a pcap file of NFS traffic over Ethernet; it is repeated up to BYTES
# BYTES=1080000000             size of the capture that is read
# ROUNDS=5                     repetitions of the import and of nfstrace; tshark runs once
# REQUESTS="10000000 100000000"  requests whose sequentiality is analyzed
# TRACKIOPS_BIN=path           measure this binary instead of building the release
# TRACKIOPS_WRITE_DOCS=1       rewrite docs/results/captures.md
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${CAPTURE:-}" ] || {
    echo 'error: CAPTURE= names no capture: record one with `tcpdump -w nfs.pcap port 2049`' >&2
    exit 2
}
python=$(scripts/python.sh bench/requirements.txt)
{ command -v tshark && command -v nfstrace; } >/dev/null || scripts/install.sh tshark nfstrace
TRACKIOPS_BIN=${TRACKIOPS_BIN:-$(scripts/release.sh)}
export TRACKIOPS_BIN
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
"$python" bench/captures.py --capture "$CAPTURE" --bytes "${BYTES:-1080000000}" --rounds "${ROUNDS:-5}" \
    --requests ${REQUESTS:-10000000 100000000} >"$results/tables.md"
cat "$results/tables.md"
if [ "${TRACKIOPS_WRITE_DOCS:-}" = 1 ]; then
    { cat bench/captures.head.md; echo; cat "$results/tables.md"; } >docs/results/captures.md
fi
