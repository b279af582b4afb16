"""The data that the specs of this folder name, some of it with the mistakes of other people's files."""
import pathlib
import struct


def npy(path, kind, shape, values):
    """An array of NumPy's format 1.0; `kind` as in '<f4'."""
    letter = {"f4": "f", "f8": "d", "i4": "i", "i8": "q", "u1": "B"}[kind[1:]]
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    values = list(values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                     + struct.pack(f"{'>' if kind[0] == '>' else '<'}{len(values)}{letter}", *values))


def idx(path, sizes, values, magic=b"\0\0\x08"):
    path.write_bytes(magic + bytes([len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes) + bytes(values))


def make(folder):
    """40 pictures of 4 by 4 in 10 classes, houses with prices, texts: all of it repeats, none of it is random."""
    folder = pathlib.Path(folder)
    pixels = [i * 7 % 16 / 16 for i in range(40 * 16)]
    labels = [i * 3 % 10 for i in range(40)]
    npy(folder / "image.npy", "<f4", (40, 4, 4), pixels)
    npy(folder / "empty.npy", "<f4", (0, 4, 4), [])
    npy(folder / "flat.npy", "<f4", (40, 16), pixels)
    npy(folder / "bytes.npy", "|u1", (40, 4, 4), [i * 7 % 256 for i in range(40 * 16)])
    npy(folder / "swapped.npy", ">f4", (40, 4, 4), pixels)
    npy(folder / "hole.npy", "<f4", (40, 4, 4), [float("nan") if i == 200 else p for i, p in enumerate(pixels)])
    npy(folder / "label.npy", "<i8", (40,), labels)
    npy(folder / "label30.npy", "<i8", (30,), labels[:30])
    npy(folder / "column.npy", "<i8", (40, 1), labels)
    npy(folder / "real.npy", "<f8", (40,), labels)
    npy(folder / "from_one.npy", "<i8", (40,), [label + 1 for label in labels])
    npy(folder / "onehot.npy", "<f4", (40, 10), [label == k for label in labels for k in range(10)])
    npy(folder / "colour.npy", "<f4", (40, 8, 8, 3), [i % 5 / 5 for i in range(40 * 192)])
    npy(folder / "planes.npy", "<f4", (40, 3, 8, 8), [i % 5 / 5 for i in range(40 * 192)])
    (folder / "pickled.npy").write_bytes(b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00]\x94(K\x01K\x02e.")

    head, rows = "rooms,area,age,price", [f"{i % 5 + 1},{40 + i},{i % 30},{100 + 3 * i}" for i in range(20)]

    def csv(name, lines):
        (folder / name).write_text("\n".join(lines) + "\n")
    csv("houses.csv", [head] + rows)
    csv("headless.csv", rows)
    csv("semicolons.csv", [line.replace(",", ";") for line in [head] + rows])
    csv("beyond.csv", [head] + rows[:7] + ["3,1e400,12,130"] + rows[8:])
    csv("gap.csv", [head] + rows[:7] + ["3,,12,130"] + rows[8:])
    csv("words.csv", [head] + rows[:4] + ["3,60,new,130"] + rows[5:])
    csv("short.csv", [line.rsplit(",", 1)[0] for line in [head] + rows])
    csv("price_first.csv", [",".join(line.split(",")[::-1]) for line in [head] + rows])
    csv("iris.csv", ["length,width,kind"] + [f"{4 + i % 3},{2 + i % 2},{i % 3 + 1}" for i in range(12)])

    (folder / "book.txt").write_text("In the beginning there was a short text. " * 20)
    (folder / "haiku.txt").write_text("an old silent pond")
    (folder / "ids.bin").write_bytes(struct.pack("<200H", *(i * 37 % 600 for i in range(200))))
    for name in ("digits", "torn", "odd", "few"):
        part = folder / name
        part.mkdir(exist_ok=True)
        for lead, count in (("train", 12), ("t10k", 4)):
            magic = b"\0\0\x0d" if name == "odd" else b"\0\0\x08"
            idx(part / f"{lead}-images-idx3-ubyte", (count, 4, 4), [i % 256 for i in range(count * 16)], magic)
            idx(part / f"{lead}-labels-idx1-ubyte", (count - (name == "few"),), [i % 10 for i in range(count - (name == "few"))])
    torn = folder / "torn" / "train-images-idx3-ubyte"
    torn.write_bytes(torn.read_bytes()[:100])
    (folder / "cifar").mkdir(exist_ok=True)
    for name in ("data_batch_1", "test_batch"):
        (folder / "cifar" / name).write_bytes(b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training")
    (folder / "machines").mkdir(exist_ok=True)
