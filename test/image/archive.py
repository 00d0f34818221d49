"""Reads an OCI image archive the way a runtime does."""

import gzip
import hashlib
import io
import json
import os
import tarfile


class Archive:
    def __init__(self, path):
        with tarfile.open(path) as tar:
            self.files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
        self.index = json.loads(self.files["index.json"])
        self.manifest = json.loads(self.blob(self.index["manifests"][0]))
        self.config = json.loads(self.blob(self.manifest["config"]))
        self.layers = [gzip.decompress(self.blob(layer)) for layer in self.manifest["layers"]]

    def blob(self, descriptor):
        """What the descriptor points at; a wrong size or digest is an error."""
        data = self.files["blobs/" + descriptor["digest"].replace(":", "/")]
        if len(data) != descriptor["size"] or "sha256:" + hashlib.sha256(data).hexdigest() != descriptor["digest"]:
            raise AssertionError(f"{descriptor['digest']}: size or digest is another")
        return data

    def members(self):
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                yield from tar.getmembers()

    def unpack(self, directory):
        os.makedirs(directory)
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                tar.extractall(directory)
