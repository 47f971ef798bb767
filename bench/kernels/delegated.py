"""Every operator that the XNNPACK partitioner takes, in single precision."""

import torch
from torch import nn


class Delegated(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = nn.Conv2d(4, 8, 3, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pointwise = nn.Conv2d(8, 8, 1)
        self.grouped = nn.Conv2d(8, 8, 3, groups=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.wide = nn.ConvTranspose2d(8, 4, 3, stride=1)
        self.norm = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, 16)
        self.slope = nn.PReLU()

    def forward(self, image, rows):
        hidden = self.norm(self.plain(image)).relu()
        hidden = self.grouped(self.pointwise(self.depthwise(hidden)))
        pooled = [
            nn.functional.max_pool2d(hidden, 2), nn.functional.avg_pool2d(hidden, 2),
            hidden.mean((2, 3), keepdim=True), nn.functional.interpolate(hidden, (16, 16), mode="bilinear"),
            self.up(hidden), self.wide(hidden), nn.functional.pad(hidden, (1, 1, 1, 1)),
        ]
        flat = self.linear(rows)
        positive = rows.abs() + 0.5
        pieces = [
            flat.softmax(-1), flat.sigmoid(), flat.tanh(), nn.functional.gelu(flat), nn.functional.silu(flat),
            nn.functional.hardswish(flat), nn.functional.hardtanh(flat), nn.functional.leaky_relu(flat), self.slope(hidden),
            rows.abs(), rows.ceil(), rows.floor(), rows.exp(), positive.log(), rows.neg(), rows.round(), positive.sqrt(),
            positive.rsqrt(), rows.sin(), rows.cos(), rows ** 2, rows + positive, rows - positive, rows * positive,
            rows / positive, torch.maximum(rows, positive), torch.minimum(rows, positive), rows.clamp(-1.0, 1.0),
            torch.cat([rows, positive, rows + 1.0], 1), rows[:, 1:4] + 1.0, rows.permute(1, 0) + 1.0, rows.reshape(2, -1) + 1.0,
            torch.bmm(rows[None], rows.t()[None]), rows.unsqueeze(-1) + 1.0, nn.functional.elu(rows),
            nn.functional.hardsigmoid(rows),
        ]
        return [*pooled, *pieces]


def delegate_doctor_model():
    return Delegated().eval()


def delegate_doctor_inputs():
    return (torch.randn(1, 4, 8, 8), torch.randn(4, 8))
