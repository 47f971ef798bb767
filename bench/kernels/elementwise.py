"""Every kernel that works on single elements, on doubles and integers, which no delegate takes."""

import torch
from torch import nn


class Elementwise(nn.Module):
    def forward(self, x, positive, unit, n, m, flag):
        unary = [
            x.abs(), unit.acos(), (positive + 1.0).acosh(), unit.asin(), x.asinh(), x.atan(), (unit * 0.9).atanh(),
            x.ceil(), x.cos(), x.cosh(), x.erf(), x.exp(), x.expm1(), x.floor(), x.isinf(), x.isnan(),
            positive.log(), positive.log10(), positive.log1p(), positive.log2(), (positive * 0.1).clamp(0.01, 0.9).logit(),
            -x, positive.reciprocal(), x.relu(), x.round(), positive.rsqrt(), x.sigmoid(), x.sign(), x.sin(), x.sinh(),
            positive.sqrt(), unit.tan(), x.tanh(), x.trunc(), n.bitwise_not(), flag.logical_not(),
        ]
        activations = [
            nn.functional.elu(x), nn.functional.gelu(x), nn.functional.glu(x), nn.functional.hardtanh(x),
            nn.functional.leaky_relu(x), x.clamp(-1.0, 1.0),
        ]
        binary = [
            x + positive, x.atan2(positive), x / positive, x.div(positive, rounding_mode="floor"), n // m, x.fmod(positive),
            torch.maximum(x, positive), torch.minimum(x, positive), x * positive, positive ** x, x ** 3.0, 2.0 ** x,
            x.remainder(positive), torch.rsub(x, 1.0), x - positive, n & m, n | m, n ^ m,
            x == positive, x != positive, x < positive, x <= positive, x > positive, x >= positive, x > 0.5, x < 0.5,
            flag & ~flag, torch.logical_and(flag, flag), torch.logical_or(flag, flag), torch.logical_xor(flag, flag),
            torch.where(flag, x, positive), x.masked_fill(flag, 0.0), x.tril(), x.triu(), x.to(torch.float32),
            x + 1.5, x * 1.5, x - 1.5, x / 1.5,
        ]
        return [*unary, *activations, *binary]


def delegate_doctor_model():
    return Elementwise()


def delegate_doctor_inputs():
    shape = (8, 16)
    x = torch.randn(shape, dtype=torch.float64)
    n = torch.randint(1, 9, shape, dtype=torch.int32)
    return (x, x.abs() + 0.1, x.tanh() * 0.9, n, n + 1, x > 0)
