"""Untrained networks whose outputs react to their inputs.

With the default initialisation many networks answer the same to every input, and then comparing outputs
proves nothing. Weights are drawn anew with a fixed seed so that signals keep their size from layer to
layer, and batch norms take their statistics from random images.
"""

import torch
from torch import nn

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)


def responsive(model, images, seed=0):
    torch.manual_seed(seed)
    for module in model.modules():
        if isinstance(module, CONVOLUTIONS):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="linear")
        if isinstance(getattr(module, "bias", None), nn.Parameter):
            nn.init.normal_(module.bias, std=0.1)
        if isinstance(getattr(module, "layer_scale", None), nn.Parameter):
            nn.init.constant_(module.layer_scale, 0.5)
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if norms:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None
        model.train()
        with torch.no_grad():
            for _ in range(2):
                model(torch.randn(4, *images.shape[1:]))
    return model.eval()


def image(size, seed=1):
    return torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(seed))


def show_reaction(model, size):
    """How far outputs move when the input changes, against their own spread; for a look by hand."""
    with torch.no_grad():
        first, second = model(image(size, 1)), model(image(size, 2))
    return float((first - second).abs().max()), float(first.std())
