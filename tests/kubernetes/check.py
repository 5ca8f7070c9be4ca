#!/usr/bin/env python3
"""Checks the manifests of contrib/kubernetes. scripts/check-kubernetes.sh says how, and installs what it needs.

  check.py HELM KUBECTL [--write]     --write writes contrib/kubernetes/trackiops.yaml first
"""

import copy
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml
from cloudcoil.models.prometheus_operator.v1 import PodMonitor

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "contrib/kubernetes"
CHART = KUBERNETES / "helm/trackiops"
PLAIN = KUBERNETES / "trackiops.yaml"
VALUES = Path(__file__).parent
# The oldest one has no `appArmorProfile`, so only the chart is for it.
RELEASES = ["1.29", "1.30", "1.34", "1.37"]
NEWEST = RELEASES[-1]
HEADER = """\
# A recorder on every node, for Kubernetes 1.30 and newer. It needs the image of `make dist` on each node, or in a registry of yours:
#
#     ctr --namespace k8s.io images import trackiops-{version}-linux-x86_64.oci.tar
#     kubectl apply -f trackiops.yaml
#
# The options are explained in docs/guide/containers.md. Made by `make kubernetes` from the chart in helm/trackiops.
"""
# What the recorder sees of a node, and whether it may write there.
HOST_PATHS = {
    "/sys": False,
    "/sys/fs/cgroup": False,
    "/etc/passwd": False,
    "/var/log/pods": False,
    "/var/log/containers": False,
    "/var/lib/trackiops": True,
    "/run/trackiops": True,
}
# Values that must be refused, and a word of the reason.
REFUSED = [
    ({"metric": {"enabled": True}}, "metric"),
    ({"image": {"digest": "sha256:12"}}, "digest"),
    ({"store": "trackiops"}, "store"),
    ({"metrics": {"enabled": True, "listen": "0.0.0.0:9930"}}, "metrics.webConfig.sources"),
    ({"metrics": {"enabled": True, "listen": "[::]:9930"}}, "metrics.webConfig.sources"),
    ({"metrics": {"enabled": True, "listen": "everywhere"}}, "listen"),
    ({"metrics": {"webConfig": {"file": "../web.yml"}}}, "file"),
    ({"metrics": {"webConfig": {"secret": "trackiops-web"}}}, "secret"),
    ({"podMonitor": {"enabled": True}}, "podMonitor.enabled needs"),
    ({"podMonitor": {"enabled": True}, "metrics": {"enabled": True}}, "podMonitor.enabled needs"),
]

helm, kubectl = sys.argv[1:3]
checked = 0


def holds(condition, what):
    global checked
    checked += 1
    if not condition:
        sys.exit(f"error: {what}")


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True)


def output(*words):
    ran = run(*words)
    holds(ran.returncode == 0, f"{words}: {ran.stderr}")
    return ran.stdout


def render(*values, release=NEWEST):
    flags = [flag for file in values for flag in ("--values", file)]
    return output(helm, "template", "trackiops", CHART, "--namespace=trackiops", f"--kube-version={release}.0", *flags)


def objects(text):
    return [found for found in yaml.safe_load_all(text) if found]


def of_kind(found, kind):
    matching = [one for one in found if one["kind"] == kind]
    holds(len(matching) == 1, f"{len(matching)} objects of the kind {kind}")
    return matching[0]


def plain(version):
    """The rendered chart without the marks of Helm."""
    lines = [line for line in render(KUBERNETES / "helm/plain.yaml").splitlines() if not line.startswith("# Source:")]
    documents = "\n".join(lines).split("---\n")
    return HEADER.format(version=version) + "---\n".join(document.strip() + "\n" for document in documents if document.strip())


def errors(found, release):
    """What the schema of a release, which knows each field, says of an object."""
    if found["kind"] == "PodMonitor":
        # The model ignores unknown fields, but does not keep them.
        kept = PodMonitor.model_validate(found).model_dump(by_alias=True, exclude_unset=True, mode="json")
        return None if kept == found else f"unknown fields of a PodMonitor: {found}, known: {kept}"
    try:
        kubernetes_validate.validate(found, release, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{'.'.join(map(str, error.path))}: {error.message}"
    return None


def check_schema(name, found, release):
    for one in found:
        wrong = errors(one, release)
        holds(wrong is None, f"{name}, Kubernetes {release}, {one['kind']}: {wrong}")


def check_rights(name, found, store="/var/lib/trackiops"):
    pod = of_kind(found, "DaemonSet")["spec"]["template"]["spec"]
    holds(pod["automountServiceAccountToken"] is False, f"{name}: it needs no token")
    host_paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    recorder, *others = pod["containers"]
    rights = recorder["securityContext"]
    holds(rights["capabilities"]["drop"] == ["ALL"] and not rights.get("privileged"), f"{name}: rights of the recorder")
    holds(rights["readOnlyRootFilesystem"], f"{name}: the recorder's root file system")
    holds(recorder["readinessProbe"]["exec"]["command"][1:] == ["status"], f"{name}: readiness")
    mounts = {}
    for mount in recorder["volumeMounts"]:
        if mount["name"] in host_paths:
            mounts[host_paths[mount["name"]]] = not mount.get("readOnly", False)
    expected = {path.replace("/var/lib/trackiops", store): writable for path, writable in HOST_PATHS.items()}
    holds(mounts == expected, f"{name}: host paths {mounts}")
    for other in others:
        where, rights = f"{name}: container {other['name']}", other["securityContext"]
        holds(rights["runAsNonRoot"] and rights["runAsUser"] > 0, f"{where}: a user without privileges")
        holds(rights["readOnlyRootFilesystem"] and rights["allowPrivilegeEscalation"] is False, f"{where}: too many rights")
        holds(rights["capabilities"] == {"drop": ["ALL"]}, f"{where}: capabilities")
        written = [m["name"] for m in other["volumeMounts"] if m["name"] in host_paths and not m.get("readOnly")]
        holds(not written, f"{where} may write to {written} of the node")


def check_web_config(name, found, file):
    pod = of_kind(found, "DaemonSet")["spec"]["template"]["spec"]
    mounting = [one for one in pod["containers"] for mount in one["volumeMounts"] if mount["name"] == "web-config"]
    holds([one["name"] for one in mounting] == ["metrics"], f"{name}: the web configuration is for one container")
    [metrics] = mounting
    [mount] = [mount for mount in metrics["volumeMounts"] if mount["name"] == "web-config"]
    holds(f"--web-config={mount['mountPath']}/{file}" in metrics["args"], f"{name}: flags {metrics['args']}")
    # By subPath a change would not arrive.
    holds(mount["readOnly"] and "subPath" not in mount, f"{name}: {mount}")
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == "web-config"]
    holds(volume["projected"]["sources"], f"{name}: {volume}")


def check_pod_monitor(found):
    monitor, daemon_set = of_kind(found, "PodMonitor"), of_kind(found, "DaemonSet")
    template = daemon_set["spec"]["template"]
    selected = monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    holds(selected, "the PodMonitor selects no Pod")
    ports = [port["name"] for container in template["spec"]["containers"] for port in container.get("ports", [])]
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    holds([endpoint["port"]] == ports, f"the PodMonitor has no port: {ports}")
    holds(endpoint["scheme"] == "https" and endpoint["tlsConfig"]["serverName"], f"the PodMonitor scrapes by {endpoint}")


def check_checks():
    """Checks that find nothing in wrong objects would prove nothing."""
    found = objects(render(VALUES / "everything.yaml"))
    for kind, break_it in [
        ("DaemonSet", lambda one: one["spec"]["template"]["spec"]["containers"][0].update(readinessProb={})),
        ("DaemonSet", lambda one: one["spec"]["template"]["spec"].update(hostPID="yes")),
        ("ConfigMap", lambda one: one["data"].update({"trackiops.toml": 1})),
        ("PodMonitor", lambda one: one["spec"]["podMetricsEndpoints"][0].update(intervall="30s")),
    ]:
        broken = copy.deepcopy(of_kind(found, kind))
        break_it(broken)
        holds(errors(broken, NEWEST), f"a wrong {kind} was not found")


def check_refused():
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        for values, reason in REFUSED:
            file.seek(0)
            file.truncate()
            yaml.safe_dump(values, file)
            file.flush()
            ran = run(helm, "template", "trackiops", CHART, "--values", file.name)
            holds(ran.returncode != 0 and reason in ran.stderr, f"{values} was taken: {ran.stderr}")


def kustomized(*lines):
    """What an overlay makes of the base. `BASE` in its lines is the directory of the base."""
    with tempfile.TemporaryDirectory() as overlay:
        # Kustomize takes relative paths only, and follows no links to find them.
        base = os.path.relpath(KUBERNETES, os.path.realpath(overlay))
        Path(overlay, "kustomization.yaml").write_text("\n".join(["resources: [BASE]", *lines]).replace("BASE", base))
        return objects(output(kubectl, "kustomize", overlay))


def same(left, right):
    def key(one):
        return one["kind"]

    return sorted(left, key=key) == sorted(right, key=key)


def without_restart(found):
    """The mark by which the chart replaces Pods, which a plain manifest cannot have."""
    annotations = of_kind(found, "DaemonSet")["spec"]["template"]["metadata"]["annotations"]
    annotations.pop("checksum/config", None)
    return found


def main():
    cargo = (ROOT / "Cargo.toml").read_text()
    version = cargo.split('\nversion = "')[1].split('"')[0]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    holds(chart["version"] == chart["appVersion"] == version, f"Chart.yaml has not the version {version}")
    output(helm, "lint", "--strict", CHART)

    if "--write" in sys.argv:
        PLAIN.write_text(plain(version))
    holds(PLAIN.read_text() == plain(version), "contrib/kubernetes/trackiops.yaml is not what the chart makes; run `make kubernetes`")

    cases = {name: [VALUES / f"{name}.yaml"] for name in ["metrics", "tls", "everything"]} | {"defaults": []}
    for release in RELEASES:
        for name, values in cases.items():
            found = objects(render(*values, release=release))
            check_schema(name, found, release)
            check_rights(name, found, "/data/trackiops" if name == "everything" else "/var/lib/trackiops")
    everything, with_tls = [objects(render(VALUES / f"{name}.yaml")) for name in ["everything", "tls"]]
    check_pod_monitor(everything)
    check_pod_monitor(with_tls)
    check_web_config("everything", everything, "metrics.yml")
    check_web_config("tls", with_tls, "web.yml")

    base = kustomized()
    holds(same(base, objects(PLAIN.read_text())), "the base of Kustomize is not trackiops.yaml")
    with_components = {
        "metrics": kustomized("components: [BASE/metrics]"),
        "tls": kustomized("components: [BASE/metrics, BASE/metrics-tls]"),
    }
    for release in RELEASES[1:]:
        check_schema("base", base, release)
        for name, found in with_components.items():
            check_schema(f"{name} of Kustomize", found, release)
    check_rights("base", base)
    for name, found in with_components.items():
        check_rights(f"{name} of Kustomize", found)
        chart = without_restart(objects(render(VALUES / f"{name}.yaml")))
        chart, found = [[one for one in some if one["kind"] not in ["Namespace", "PodMonitor"]] for some in (chart, found)]
        holds(same(chart, found), f"the components of Kustomize are not what the chart makes of {name}.yaml")
    renamed = kustomized('images: [{name: localhost/trackiops, newName: registry.example/trackiops, newTag: "1"}]')
    images = [one["image"] for one in of_kind(renamed, "DaemonSet")["spec"]["template"]["spec"]["containers"]]
    holds(images == ["registry.example/trackiops:1"], f"images of an overlay: {images}")

    check_refused()
    check_checks()
    print(f"kubernetes: {checked} checks held, with the schemas of Kubernetes {', '.join(RELEASES)}")


main()
