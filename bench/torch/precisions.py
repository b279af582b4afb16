"""Training below fp32: PyTorch's autocast with its GradScaler, and operands of products rounded by hand."""
import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
CONTRACTIONS = {  # the places of the operands that are rounded
    aten.mm.default: (0, 1), aten.bmm.default: (0, 1), aten.addmm.default: (1, 2), aten.convolution.default: (0, 1),
    aten.convolution_backward.default: (0, 1, 2), aten._scaled_dot_product_flash_attention_for_cpu.default: (0, 1, 2),
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: (0, 1, 2, 3)}


def tf32(x):
    """10 bits of mantissa, ties to even."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def narrowed(kind):
    return lambda x: x.to(kind).float()


class Rounded(TorchDispatchMode):
    """Products, forward and backward, of operands that `to` has rounded; sums in fp32. Their results stay as they are,
    or, of a matrix product, are rounded, too, gradients of parameters among them."""

    def __init__(self, to, results):
        super().__init__()
        self.to, self.results = to, results

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        rounded = CONTRACTIONS.get(function, ())
        arguments = [self.to(a) if i in rounded else a for i, a in enumerate(arguments)]
        result = function(*arguments, **(keywords or {}))
        return self.to(result) if self.results and rounded and isinstance(result, torch.Tensor) else result


def autocast(kind):
    """PyTorch's, which is left before the backward pass: that takes the types of the forward pass."""
    return lambda forward: torch.autocast("cpu", kind, enabled=forward)


def rounded(to, results=False):
    return lambda forward: Rounded(to, results)


class Scaled:
    """A step with PyTorch's GradScaler, which starts from 65,536; without one where not asked."""

    def __init__(self, optimizer, scales):
        self.optimizer, self.scaler = optimizer, torch.amp.GradScaler("cpu", enabled=scales)

    def step(self, loss, s):
        """Returns the scale that the step was made with, and whether it was skipped."""
        scale = self.scaler.get_scale()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer.torch)
        self.optimizer.step(s, self.scaler.step)
        self.scaler.update()
        return scale, self.scaler.get_scale() < scale
