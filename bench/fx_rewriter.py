"""The edits of the bundled rules as `torch.fx` patterns: `fx_rewriter.py OPERATORS REPETITIONS`.

OPERATORS is a JSON list of operator kinds in order, as `cargo xtask bench engine` makes it. Prints a JSON object:
thread time of every repetition in seconds, and how many places each pattern replaced.
"""

import json
import sys
import time
from pathlib import Path

import torch
from torch.fx.subgraph_rewriter import replace_pattern_with_filters

aten = torch.ops.aten
SIZES = [1, 16, 8, 8]


def graph_module(kinds: list[str]) -> torch.fx.GraphModule:
    """The same chain of calls as the synthetic program, with metadata on every node."""
    graph = torch.fx.Graph()
    value = torch.empty(SIZES, device="meta")
    x = graph.placeholder("x")
    x.meta["val"] = value
    stored = {name: graph.placeholder(name) for name in ("weight", "bias", "scale", "shift", "mean", "var")}
    earlier = x
    for kind in kinds:
        if kind == "conv2d":
            target, arguments = aten.conv2d.default, (x, stored["weight"], stored["bias"])
        elif kind == "batch_norm":
            affine = (stored["scale"], stored["shift"], stored["mean"], stored["var"])
            target, arguments = aten.batch_norm.default, (x, *affine, False, 0.1, 1e-5, True)
        elif kind == "add":
            target, arguments = aten.add.Tensor, (x, earlier)
        elif kind == "softmax":
            target, arguments = aten.softmax.int, (x, 1)
        elif kind == "avg_pool2d":
            target, arguments = aten.avg_pool2d.default, (x, [3, 3], [1, 1], [1, 1])
        else:
            target, arguments = getattr(aten, kind).default, (x,)
        earlier, x = x, graph.call_function(target, arguments)
        x.meta["val"] = value
    graph.output(x)
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def softmax(x):
    return aten.softmax.int(x, 1)


def softmax_last(x):
    rows = aten.permute.default(aten.reshape.default(x, [1, 16, 64]), [0, 2, 1])
    back = aten.permute.default(aten.softmax.int(rows, -1), [0, 2, 1])
    return aten.reshape.default(back, [1, 16, 8, 8])


def alias(x):
    return aten.alias.default(x)


def nothing(x):
    return x


def pool(x):
    return aten.avg_pool2d.default(x, [3, 3], [1, 1], [1, 1])


def padded_pool(x):
    return aten.avg_pool2d.default(aten.constant_pad_nd.default(x, [1, 1, 1, 1], 0.0), [3, 3], [1, 1], [0, 0])


def always(match, original, pattern) -> bool:
    return True


def main() -> None:
    torch.set_num_threads(1)
    kinds = json.loads(Path(sys.argv[1]).read_text())
    seconds, replaced = [], []
    for _ in range(int(sys.argv[2])):
        module = graph_module(kinds)
        begin = time.thread_time()
        replaced = [
            len(replace_pattern_with_filters(module, pattern, replacement, match_filters=[always]))
            for pattern, replacement in ((softmax, softmax_last), (alias, nothing), (pool, padded_pool))
        ]
        seconds.append(time.thread_time() - begin)
    print(json.dumps({"torch": torch.__version__, "seconds": seconds, "replaced": replaced}))


if __name__ == "__main__":
    main()
