"""The GPTs of gpt.py: what Echelon's spec, PyTorch's model and the floor are told of them."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Size:
    layers: int
    heads: int
    width: int
    length: int
    words: int
    batch: int


# The text is bytes, whatever the vocabulary.
SIZES = {
    "124M_4x64": Size(12, 12, 768, 64, 50257, 4),
    "124M_4x256": Size(12, 12, 768, 256, 50257, 4),
    "10.8M_4x256": Size(6, 6, 384, 256, 256, 4),
    "0.84M_4x64": Size(4, 4, 128, 64, 256, 4),
    "0.84M_64x64": Size(4, 4, 128, 64, 256, 64),
}
