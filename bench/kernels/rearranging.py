"""Kernels that move, gather, reduce and sort, outside of delegates."""

import torch
from torch import nn


class Rearranging(nn.Module):
    def forward(self, x, image, volume, index, flag):
        moved = [
            x.clone(), x.permute(1, 0).clone(), x.t().clone(), x.transpose(0, 1) + 0.0, torch.cat([x, x + 1.0]),
            torch.stack([x, x + 1.0]), x.unsqueeze(1) + 0.0, x[:, None, :].squeeze(1) + 0.0, x[2] + 0.0, x[1:5] + 0.0,
            x[:, ::2] + 0.0, x.view(4, -1) + 0.0, x.expand(2, 8, 16) + 0.0, x.repeat(2, 1), x.flip(0), x.roll(1, 0),
            x.split(4)[1] + 0.0, x.split([3, 5])[0] + 0.0, x.unbind(0)[0] + 0.0, torch.gather(x, 1, index),
            x.scatter(1, index, 1.0), x.scatter_add(1, index, x), x.index_select(0, index[0, :4]), x[index[0, :4]],
            x.index_put((index[0, :4],), x[:4]), x.masked_scatter(flag, x), torch.full((3,), 2.0) + 0.0,
            torch.zeros(3) + 0.0, torch.ones(3) + 0.0, torch.arange(5) + 1, torch.full_like(x, 3.0) + 0.0,
            x.diagonal() + 0.0, x.as_strided((4, 4), (1, 2)) + 0.0, x.select_scatter(x[0], 0, 1),
            x.slice_scatter(x[:4], 0, 0, 4), x.narrow(0, 1, 3) + 0.0,
            nn.functional.pad(x, (1, 2)), nn.functional.pad(image, (1, 1, 1, 1), mode="reflect"),
            nn.functional.pad(image, (1, 1, 1, 1), mode="replicate"), nn.functional.pad(image[0], (1, 1), mode="reflect"),
            nn.functional.pad(image[0], (1, 1), mode="replicate"), nn.functional.pixel_shuffle(image, 2),
            nn.functional.pixel_unshuffle(image, 2), image.contiguous(memory_format=torch.channels_last).abs(),
            nn.functional.pad(volume, (1, 1, 1, 1, 1, 1), mode="replicate"),
        ]
        reduced = [
            x.sum(0), x.mean(1), x.mean(), x.amax(1), x.amin(1), x.max(1).values, x.min(1).values, x.max(), x.min(),
            x.argmax(1), x.argmin(1), x.any(), flag.any(1), flag.all(1), x.prod(), x.prod(1), x.var(1), x.std(1), x.cumsum(0),
            x.topk(3).values, x.norm(dim=1),
        ]
        layers = [
            x.softmax(0), x.float().log_softmax(1), nn.functional.layer_norm(x, (16,)), nn.functional.group_norm(image, 2),
            nn.functional.instance_norm(image), nn.functional.avg_pool2d(image, 3, 1, 1),
            nn.functional.adaptive_avg_pool2d(image, 3), nn.functional.max_pool2d(image, 2),
            nn.functional.interpolate(image, scale_factor=2.0), nn.functional.interpolate(image, (12, 12), mode="bilinear"),
            torch.cdist(x, x), x @ x.t(), torch.bmm(x[None], x.t()[None]), torch.addmm(x[0, :8], x, x.t()),
            nn.functional.conv2d(image, image[:, :, :3, :3].expand(4, 4, 3, 3)),
            nn.functional.grid_sample(image, image[:, :2].permute(0, 2, 3, 1)[:, :4, :4]),
        ]
        return [*moved, *reduced, *layers]


def delegate_doctor_model():
    return Rearranging()


def delegate_doctor_inputs():
    x = torch.randn(8, 16, dtype=torch.float64)
    image = torch.randn(1, 4, 8, 8, dtype=torch.float64)
    return (x, image, torch.randn(1, 2, 4, 4, 4, dtype=torch.float64), torch.randint(0, 8, (8, 16)), x > 0)
