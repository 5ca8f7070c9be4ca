#!/usr/bin/env bash
# Installs the requirements of tests/browser.rs: Chromium, Node, and the packages of web/.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v chromium >/dev/null || scripts/install.sh chromium fonts-dejavu-core
scripts/web.sh --tools
