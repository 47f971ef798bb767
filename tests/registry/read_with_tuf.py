"""Reads registries with python-tuf and says what a client of it would get.

In, on stdin: JSON lines, one registry each: {"registry": folder, "targets": [path, ...]}.
Out: one JSON line each: {"refused": reason} or {"found": {path: sha256 or null}}.
"""

import hashlib
import json
import pathlib
import sys
import tempfile

from tuf.api.exceptions import DownloadHTTPError, DownloadError, RepositoryError
from tuf.ngclient import Updater
from tuf.ngclient.fetcher import FetcherInterface


class Folder(FetcherInterface):
    """Fetches from a folder as a static host would serve it."""

    def _fetch(self, url):
        path = pathlib.Path(url.removeprefix("folder://"))
        if not path.is_file():
            raise DownloadHTTPError(f"no {path.name}", 404)
        yield path.read_bytes()


def read(registry, targets):
    with tempfile.TemporaryDirectory() as cache:
        folder = pathlib.Path(registry)
        (pathlib.Path(cache) / "metadata").mkdir()
        (pathlib.Path(cache) / "targets").mkdir()
        try:
            updater = Updater(
                f"{cache}/metadata",
                f"folder://{folder}/metadata/",
                f"{cache}/targets",
                f"folder://{folder}/targets/",
                fetcher=Folder(),
                bootstrap=(folder / "metadata" / "1.root.json").read_bytes(),
            )
            updater.refresh()
        except (RepositoryError, DownloadError) as error:
            return {"refused": f"{type(error).__name__}: {error}"}
        found = {}
        for target in targets:
            try:
                info = updater.get_targetinfo(target)
                if info is None:
                    found[target] = None
                    continue
                content = pathlib.Path(updater.download_target(info)).read_bytes()
                found[target] = hashlib.sha256(content).hexdigest()
            except (RepositoryError, DownloadError, ValueError) as error:
                found[target] = f"refused: {type(error).__name__}: {error}"
        return {"found": found}


for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps(read(asked["registry"], asked["targets"])), flush=True)
