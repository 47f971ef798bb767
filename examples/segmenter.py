"""A small segmentation network whose class probabilities come from a softmax over channels.

It lowers to XNNPACK without a warning, and yet the softmax runs outside the delegate:

    delegate-doctor optimize examples/segmenter.py
"""

import torch
from torch import nn

CLASSES = 21


def block(channels_in, channels_out, stride):
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(inplace=True),
    )


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = block(3, 16, stride=2)
        self.down = block(16, 32, stride=2)
        self.middle = nn.Sequential(block(32, 32, stride=1), block(32, 32, stride=1))
        self.skip = nn.Conv2d(16, 32, 1)
        self.head = nn.Conv2d(32, CLASSES, 1)

    def forward(self, image):
        half = self.stem(image)
        quarter = self.middle(self.down(half))
        up = nn.functional.interpolate(quarter, scale_factor=2.0, mode="bilinear", align_corners=False)
        logits = self.head(torch.relu(up + self.skip(half)))
        logits = nn.functional.interpolate(logits, scale_factor=2.0, mode="bilinear", align_corners=False)
        return torch.softmax(logits, dim=1)


def delegate_doctor_model():
    torch.manual_seed(7)
    model = Segmenter()
    with torch.no_grad():
        # Without training the logits hardly differ; spread them so that errors would show.
        model.head.weight.mul_(8.0)
    return model.eval()


def delegate_doctor_inputs():
    generator = torch.Generator().manual_seed(7)
    return (torch.rand(1, 3, 256, 256, generator=generator),)
