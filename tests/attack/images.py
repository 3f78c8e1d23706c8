"""Images made by hand, layer by layer, as no builder would make them; pushed to a registry."""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile

OCI = "application/vnd.oci.image."
# The value of security.capability of a program that gets all of them (vfs_cap_data of revision 2); not marked as
# effective, because such a program is not run at all where it cannot get each of them.
ALL_CAPABILITIES = (0x02000000).to_bytes(4, "little") + b"\xff" * 16


def member(name, kind=tarfile.REGTYPE, data=b"", mode=0o755, link="", uid=0, device=(0, 0), headers=None):
    """One entry of a layer; `kind` is a type of tarfile."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.uid, info.gid, info.linkname = kind, mode, uid, uid, link
    info.devmajor, info.devminor = device
    info.size = len(data) if kind == tarfile.REGTYPE else 0
    info.pax_headers = headers or {}
    return info, data


def link(name, target):
    return member(name, tarfile.SYMTYPE, link=target, mode=0o777)


def hard_link(name, target):
    return member(name, tarfile.LNKTYPE, link=target)


def folder(name, mode=0o755):
    return member(name, tarfile.DIRTYPE, mode=mode)


def fifo(name):
    return member(name, tarfile.FIFOTYPE, mode=0o666)


def device(name, major, minor, kind=tarfile.CHRTYPE):
    return member(name, kind, mode=0o666, device=(major, minor))


def gone(name):
    """The whiteout of a name: it hides what lower layers have there."""
    path, _, last = name.rpartition("/")
    return member((path + "/" if path else "") + ".wh." + last, mode=0o600)


def tar(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data) if data else None)
    return out.getvalue()


class Registry:
    """A registry on the loopback, and the busybox that images begin with."""

    def __init__(self, port, base, scratch):
        self.port, self.scratch = port, scratch
        layout = os.path.join(base, "busybox")
        index = self.read_json(layout, "index.json")
        manifest = self.read_blob_json(layout, index["manifests"][0]["digest"])
        self.base_layer = self.read_blob(layout, manifest["layers"][0]["digest"])

    @staticmethod
    def read_json(layout, name):
        with open(os.path.join(layout, name)) as file:
            return json.load(file)

    @staticmethod
    def read_blob(layout, digest):
        with open(os.path.join(layout, "blobs", *digest.split(":")), "rb") as file:
            return file.read()

    def read_blob_json(self, layout, digest):
        return json.loads(self.read_blob(layout, digest))

    def push(self, name, *layers, config=None, with_base=True):
        """Pushes an image of busybox and the given lists of members; gives its reference, whose tag
        is the content's, since a tag that was pulled once is not pulled again."""
        blobs = [self.base_layer] if with_base else []
        blobs += [gzip.compress(tar(layer), 1, mtime=0) for layer in layers]
        layout = os.path.join(self.scratch, name)
        shutil.rmtree(layout, ignore_errors=True)
        os.makedirs(os.path.join(layout, "blobs", "sha256"))

        def put(data, media_type):
            digest = hashlib.sha256(data).hexdigest()
            with open(os.path.join(layout, "blobs", "sha256", digest), "wb") as file:
                file.write(data)
            return {"mediaType": OCI + media_type, "digest": "sha256:" + digest, "size": len(data)}

        described = [put(blob, "layer.v1.tar+gzip") for blob in blobs]
        diff_ids = ["sha256:" + hashlib.sha256(gzip.decompress(blob)).hexdigest() for blob in blobs]
        settings = {"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"], "Cmd": ["sh"], **(config or {})},
                    "rootfs": {"type": "layers", "diff_ids": diff_ids}, "history": [{"created_by": "by hand"} for _ in blobs]}
        manifest = {"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
                    "config": put(json.dumps(settings).encode(), "config.v1+json"), "layers": described}
        entry = put(json.dumps(manifest).encode(), "manifest.v1+json")
        tag = entry["digest"][7:27]
        entry["annotations"] = {"org.opencontainers.image.ref.name": "1"}
        for path, value in (("index.json", {"schemaVersion": 2, "manifests": [entry]}),
                            ("oci-layout", {"imageLayoutVersion": "1.0.0"})):
            with open(os.path.join(layout, path), "w") as file:
                json.dump(value, file)
        subprocess.run(["skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false",
                        f"oci:{layout}:1", f"docker://127.0.0.1:{self.port}/attack/{name}:{tag}"], check=True)
        shutil.rmtree(layout)
        return f"docker.io/attack/{name}:{tag}"
