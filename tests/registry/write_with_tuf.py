"""Writes random registries with python-tuf, in the layout that this project's clients read.

In, on stdin: JSON lines: {"registry": folder, "seed": number}.
Out: one JSON line each: {"targets": {path: sha256}}, what a client must find.
"""

import datetime
import hashlib
import json
import pathlib
import random
import sys

from securesystemslib.signer import CryptoSigner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tuf.api.metadata import (
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)
from tuf.api.serialization.json import JSONSerializer


def signer(dice):
    return CryptoSigner(Ed25519PrivateKey.from_private_bytes(dice.randbytes(32)))


def write(registry, seed):
    dice = random.Random(seed)
    folder = pathlib.Path(registry)
    (folder / "metadata").mkdir(parents=True)
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    soon = now + datetime.timedelta(days=dice.randint(1, 300))
    # Both spellings are the same document.
    serializer = JSONSerializer(compact=dice.random() < 0.5)

    def put(role, document, signers):
        metadata = Metadata(document)
        metadata.expires = soon
        for index, one in enumerate(signers):
            metadata.sign(one, append=index > 0)
        name = f"{role}.json" if role == "timestamp" else f"{document.version}.{role}.json"
        content = metadata.to_bytes(serializer)
        (folder / "metadata" / name).write_bytes(content)
        return content

    def pinned(document, content):
        if dice.random() < 0.5:
            return MetaFile(document.version)
        return MetaFile(document.version, len(content), {"sha256": hashlib.sha256(content).hexdigest()})

    keys = {role: [signer(dice) for _ in range(dice.randint(1, 3))] for role in ("root", "targets", "snapshot", "timestamp")}
    root = Root(consistent_snapshot=True, expires=soon)
    for role, signers in keys.items():
        for one in signers:
            root.add_key(one.public_key, role)
        root.roles[role].threshold = dice.randint(1, len(signers))
    put("root", root, keys["root"])
    for version in range(2, 2 + dice.randint(0, 3)):
        # One root key goes, another one comes; both generations sign.
        gone = keys["root"].pop(0)
        come = signer(dice)
        root.version = version
        root.revoke_key(gone.public_key.keyid, "root")
        root.add_key(come.public_key, "root")
        keys["root"].append(come)
        put("root", root, [gone, *keys["root"]])

    top = Targets(expires=soon, version=dice.randint(1, 9))
    top.delegations = Delegations({}, {})
    reviewed = Targets(expires=soon, version=dice.randint(1, 9))
    snapshot = Snapshot(expires=soon, version=dice.randint(1, 9))
    listed = {}

    def delegate(name, paths, terminating):
        signers = [signer(dice) for _ in range(dice.randint(1, 2))]
        role = DelegatedRole(name, [], dice.randint(1, len(signers)), terminating, paths=paths)
        top.delegations.roles[name] = role
        for one in signers:
            top.add_key(one.public_key, name)
        return signers

    reviews = {}
    for publisher in dice.sample(["acme", "bolt", "zeta", "quill", "north-wind"], dice.randint(1, 4)):
        signers = delegate(publisher, [f"{publisher}/*/*"], True)
        role = Targets(expires=soon, version=dice.randint(1, 9))
        review = Targets(expires=soon, version=dice.randint(1, 9))
        for rule in dice.sample(["fix-boot", "softmax", "swish"], dice.randint(0, 3)):
            for version in range(dice.randint(1, 3)):
                path = f"{publisher}/{rule}/1.{version}.0.wasm"
                content = dice.randbytes(dice.randint(0, 2000))
                sha256 = hashlib.sha256(content).hexdigest()
                file = folder / "targets" / publisher / rule / f"{sha256}.1.{version}.0.wasm"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
                role.targets[path] = TargetFile(len(content), {"sha256": sha256}, path)
                review.targets[path] = TargetFile(len(content), {"sha256": sha256}, path)
                listed[path] = sha256
        snapshot.meta[f"{publisher}.json"] = pinned(role, put(publisher, role, signers))
        reviews[publisher] = review
    for publisher, review in reviews.items():
        signers = delegate(f"reviewed.{publisher}", [f"{publisher}/*/*"], False)
        snapshot.meta[f"reviewed.{publisher}.json"] = pinned(review, put(f"reviewed.{publisher}", review, signers))
    signers = delegate("reviewed", ["*/*/*"], False)
    snapshot.meta["reviewed.json"] = pinned(reviewed, put("reviewed", reviewed, signers))
    snapshot.meta["targets.json"] = pinned(top, put("targets", top, keys["targets"]))
    timestamp = Timestamp(expires=soon, version=dice.randint(1, 9))
    timestamp.snapshot_meta = pinned(snapshot, put("snapshot", snapshot, keys["snapshot"]))
    put("timestamp", timestamp, keys["timestamp"])
    return {"targets": listed}


for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps(write(asked["registry"], asked["seed"])), flush=True)
