#!/usr/bin/env python3
"""Writes a container image: what a root directory has of TrackIOps, as the only layer. The same root and arguments give the same bytes.

  oci-image.py ROOT FILE VERSION x86_64|aarch64 EPOCH LICENCES

FILE is an OCI image layout in a tar, with the manifest.json of `docker save` beside it: releases of Docker before 25 read only that.
"""

import gzip
import hashlib
import io
import json
import sys
import tarfile
import time
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Taken from the root: the program, its configuration, and all documents, including the licences. No shell, and nothing else.
TAKEN = ["usr/bin/trackiops", "etc/trackiops/trackiops.toml", "usr/share/doc/trackiops"]
# Directories that a recorder writes to: the store, with the mode of the unit, the socket's directory, and temporary files.
EMPTY = {"var/lib/trackiops": 0o750, "run/trackiops": 0o755, "tmp": 0o1777}


def files(root):
    """The files that are taken, below the root."""
    for name in TAKEN:
        path = root / name
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file.relative_to(root) for file in found if not file.is_dir())


def entries(root):
    """Path, mode and bytes of each entry of the layer; directories have no bytes."""
    found = {Path(name): (mode, None) for name, mode in EMPTY.items()}
    for file in files(root):
        mode = 0o755 if (root / file).stat().st_mode & 0o100 else 0o644
        found[file] = (mode, (root / file).read_bytes())
    for path in list(found):
        for parent in path.parents[:-1]:
            found.setdefault(parent, (0o755, None))
    return [(path, *found[path]) for path in sorted(found)]


def tar(entries, epoch):
    """Of root, and of one time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, mode, content in entries:
            entry = tarfile.TarInfo(str(path))
            entry.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            entry.mode, entry.mtime, entry.size = mode, epoch, len(content or b"")
            archive.addfile(entry, io.BytesIO(content or b""))
    return packed.getvalue()


def main(root, file, version, machine, epoch, licences):
    # One name for all engines. No registry is named `localhost`, so nothing is pulled.
    name = f"localhost/trackiops:{version}"
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(epoch)))
    labels = {
        "org.opencontainers.image.title": "TrackIOps",
        "org.opencontainers.image.description": "Records every read and write of the Linux NFS client, per file",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": licences,
        "org.opencontainers.image.created": created,
    }
    blobs = {}

    def blob(content, media_type):
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def encoded(value):
        return json.dumps(value, indent=1, sort_keys=True).encode()

    def path_of(descriptor):
        return "blobs/" + descriptor["digest"].replace(":", "/")

    unpacked = tar(entries(Path(root)), int(epoch))
    layer = blob(gzip.compress(unpacked, 9, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
    platform = {"architecture": ARCHITECTURES[machine], "os": "linux"}
    config = {
        **platform,
        "created": created,
        "config": {
            "User": "0:0",
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/trackiops"],
            "Cmd": ["record", "--wait"],
            "WorkingDir": "/",
            # On this signal, a recorder writes its data.
            "StopSignal": "SIGTERM",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(unpacked).hexdigest()]},
        "history": [{"created": created, "comment": "TrackIOps"}],
    }
    config = blob(encoded(config), "application/vnd.oci.image.config.v1+json")
    media_type = "application/vnd.oci.image.manifest.v1+json"
    manifest = {"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer], "annotations": labels}
    manifest = blob(encoded(manifest), media_type)
    names = {"org.opencontainers.image.ref.name": name, "io.containerd.image.name": name}
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{**manifest, "platform": platform, "annotations": names}],
    }
    of_docker = [{"Config": path_of(config), "RepoTags": [name], "Layers": [path_of(layer)]}]
    layout = {
        **blobs,
        "index.json": encoded(index),
        "manifest.json": encoded(of_docker),
        "oci-layout": encoded({"imageLayoutVersion": "1.0.0"}),
    }
    contents = [(Path("blobs"), 0o755, None), (Path("blobs/sha256"), 0o755, None)]
    contents += [(Path(name), 0o644, content) for name, content in sorted(layout.items())]
    Path(file).write_bytes(tar(contents, int(epoch)))


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    main(*sys.argv[1:])
