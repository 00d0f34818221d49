#!/usr/bin/env python3
"""Writes an OCI image layout as one tar archive from directories, one layer each. The same input gives the same bytes.

Format: opencontainers/image-spec v1.1, image-layout.md, manifest.md, config.md, layer.md.
"""

import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import stat
import tarfile

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def entry(name, epoch, mode=0o755, kind=tarfile.DIRTYPE):
    """A tar header that says nothing of who made it where."""
    header = tarfile.TarInfo(name)
    header.type, header.mode, header.mtime = kind, mode, epoch
    return header


def layer_tar(root, epoch):
    """All below `root`, sorted, owned by root, with one time."""
    paths = []
    for folder, names, files in os.walk(root):
        paths += [os.path.relpath(os.path.join(folder, name), root) for name in names + files]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(paths):
            full = os.path.join(root, path)
            status = os.lstat(full)
            header = entry(path, epoch, stat.S_IMODE(status.st_mode))
            if stat.S_ISLNK(status.st_mode):
                header.type, header.linkname, header.mode = tarfile.SYMTYPE, os.readlink(full), 0o777
                tar.addfile(header)
            elif stat.S_ISDIR(status.st_mode):
                tar.addfile(header)
            elif stat.S_ISREG(status.st_mode):
                header.type, header.size = tarfile.REGTYPE, status.st_size
                with open(full, "rb") as file:
                    tar.addfile(header, file)
            else:
                raise SystemExit(f"{full}: is neither file, directory nor link")
    return buffer.getvalue()


def build(layers, names, labels, entrypoint, architecture, epoch):
    """{archive path: bytes} of the image, and the digest of its manifest."""
    blobs, descriptors, diff_ids, history = {}, [], [], []

    def add(media_type, data):
        blobs[digest(data)] = data
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    def document(value):
        return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"

    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    for root in layers:
        tar = layer_tar(root, epoch)
        diff_ids.append(digest(tar))
        descriptors.append(add(LAYER, gzip.compress(tar, compresslevel=6, mtime=0)))
        history.append({"created": created, "created_by": f"COPY {os.path.basename(root)}/ /"})
    config = add(CONFIG, document({
        "created": created, "architecture": architecture, "os": "linux",
        "config": {"Entrypoint": entrypoint, "Env": ["PATH=/usr/local/bin"], "WorkingDir": "/", "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": diff_ids}, "history": history}))
    manifest = add(MANIFEST, document({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": descriptors, "annotations": labels}))
    # One entry a name: containerd takes the whole name, other readers the tag.
    entries = [{**manifest, "platform": {"architecture": architecture, "os": "linux"},
                "annotations": {"io.containerd.image.name": name,
                                "org.opencontainers.image.ref.name": name.rpartition(":")[2]}} for name in names]
    files = {"oci-layout": document({"imageLayoutVersion": "1.0.0"}),
             "index.json": document({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})}
    files.update({"blobs/" + name.replace(":", "/"): data for name, data in blobs.items()})
    return files, manifest["digest"]


def write_archive(path, files, epoch):
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for folder in ("blobs", "blobs/sha256"):
            tar.addfile(entry(folder, epoch))
        for name in sorted(files):
            header = entry(name, epoch, 0o644, tarfile.REGTYPE)
            header.size = len(files[name])
            tar.addfile(header, io.BytesIO(files[name]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True)
    parser.add_argument("--name", action="append", required=True, help="REGISTRY/REPOSITORY:TAG; repeatable")
    parser.add_argument("--layer", action="append", required=True, help="directory; lowest first")
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--entrypoint", required=True)
    parser.add_argument("--architecture", required=True, help="as Go names it: amd64, arm64")
    parser.add_argument("--epoch", type=int, required=True, help="the time of every file, in seconds since 1970")
    arguments = parser.parse_args()
    for name in arguments.name:
        repository, _, tag = name.rpartition(":")
        if "/" not in repository or not tag or "/" in tag:
            raise SystemExit(f"--name {name}: must be REGISTRY/REPOSITORY:TAG")
    files, manifest = build(arguments.layer, arguments.name, dict(label.split("=", 1) for label in arguments.label),
                            [arguments.entrypoint], arguments.architecture, arguments.epoch)
    # Readers of the path see the old archive or the whole new one.
    temporary = arguments.output + ".part"
    write_archive(temporary, files, arguments.epoch)
    os.replace(temporary, arguments.output)
    layers = [len(data) for name, data in files.items() if name.startswith("blobs/") and data[:2] == b"\x1f\x8b"]
    print(f"{arguments.output}: {sum(layers) / 1e6:.1f} MB compressed, layers of "
          f"{', '.join(f'{size / 1e6:.1f}' for size in layers)} MB")
    print(f"digest {manifest}")


if __name__ == "__main__":
    main()
