"""Exports the networks that `cargo xtask bench engine` measures: `export_for_engine.py FOLDER`."""

import sys
from pathlib import Path

import torch
import torchvision

NETWORKS = {
    "mobilenet_v2": torchvision.models.mobilenet_v2,
    "swin_t": torchvision.models.swin_t,
    "vit_b_16": torchvision.models.vit_b_16,
}


def main() -> None:
    folder = Path(sys.argv[1])
    for name, build in NETWORKS.items():
        target = folder / f"{name}.pt2"
        if target.exists():
            continue
        torch.manual_seed(0)
        program = torch.export.export(build(weights=None).eval(), (torch.randn(1, 3, 224, 224),))
        unfinished = target.with_suffix(".part.pt2")
        torch.export.save(program, unfinished)
        unfinished.rename(target)
        print(f"exported {name}", file=sys.stderr)


if __name__ == "__main__":
    main()
