"""Writes `schemas.txt`: the operator schemas that the host knows.

    python generate_schemas.py > schemas.txt

One overload a line, sorted, in the notation of `torch.FunctionSchema`, without out-variants and without
overloads that neither take nor return a tensor (the symbolic-size queries excepted). A trailing ` !random`
marks operators that draw random numbers.
"""

import re

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers quantized_decomposed

NAMESPACES = {"aten", "quantized_decomposed"}
UNSUPPORTED = re.compile(r"Dict|\bt\b|Future|\bAny\b|Stream|__torch__|Storage|\.\.\.")


def overload(schema):
    namespace, name = schema.name.split("::")
    return getattr(getattr(getattr(torch.ops, namespace), name), schema.overload_name or "default")


def line(schema):
    text = str(schema)
    if schema.name.split("::")[0] not in NAMESPACES or any(argument.is_out for argument in schema.arguments):
        return None
    types = [str(item.type) for item in [*schema.arguments, *schema.returns]]
    if not any("Tensor" in kind for kind in types) or UNSUPPORTED.search(text.partition("(")[2]):
        return None
    try:
        tags = overload(schema).tags
    except AttributeError:
        return None
    return text + (" !random" if torch.Tag.nondeterministic_seeded in tags else "")


def main():
    print(f"# torch {torch.__version__.split('+')[0]}, made by generate_schemas.py")
    print("\n".join(sorted({text for text in map(line, torch._C._jit_get_all_schemas()) if text})))


if __name__ == "__main__":
    main()
