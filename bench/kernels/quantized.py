"""A small network quantized to 8 bits, with what stands around its quantized parts."""

import torch
from torch import nn
from torch.export import export

from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.second = nn.Conv2d(8, 8, 1)
        self.last = nn.Linear(8, 10)

    def forward(self, image):
        hidden = self.first(image).relu()
        hidden = self.second(self.depthwise(hidden).relu()) + hidden
        hidden = nn.functional.max_pool2d(hidden, 2)
        return self.last(hidden.mean((2, 3), keepdim=True).flatten(1)).softmax(-1)


def delegate_doctor_inputs():
    return (torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0)),)


def delegate_doctor_model():
    torch.manual_seed(0)
    example = delegate_doctor_inputs()
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(export(Small().eval(), example).module(), quantizer)
    prepared(*example)
    return convert_pt2e(prepared)
