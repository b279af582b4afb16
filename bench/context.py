#!/usr/bin/env python3
"""How much faster a long sequence is on two ranks whose keys go round than on one.

    bench/context.py [--seq 4096] [--width 128] [--layers 2] [--steps 6] [--repeat 5]

A causal GPT on one sample. One rank on one core, and two on two under each way to split the sequence, take turns; a run's
figure is the median of its log's step_time_s. Prints medians over the repeats, and one rank's by theirs. Goal: 1.7 with
`zigzag` and `ring`.
"""
import argparse
import pathlib
import statistics
import tempfile

import steps

SPEC = """import nn
model GPT() {{
  axis batch; axis seq = {seq}; axis past like seq; axis vocab = 256; axis embed = {width}; axis head = 4
  axis key = {width} / 4; axis ff = 4 * {width}
  input tokens[batch, seq] : int below vocab
  input labels[batch, seq] : int below vocab
  param wte[vocab, embed] ~ normal(0.02)
  param wpe[seq, embed] ~ normal(0.01)
  x = wte[vocab = tokens] + wpe
  repeat layer = {layers} {{
    x = x + nn.attention(nn.layernorm(x, embed), embed, head, key, seq, past, causal = true) as attn
    x = x + nn.mlp(nn.layernorm(x, embed), embed, ff) as mlp
  }}
  loss mean(cross_entropy(dot(x, wte, over = embed), labels, over = vocab))
}}
train long {{
  model GPT(); data synthetic(tokens) -> tokens, labels
  batch 1; steps {steps}; optimize adamw(lr = 1e-3)
  layout {layout}
}}
"""
LAYOUTS = {
    "one rank": "mesh(dp = 1) { split batch over dp }",
    "gathered, blocks": "mesh(cp = 2) { split seq, past over cp }",
    "gathered, zigzag": "mesh(cp = 2) { split seq, past over cp with zigzag }",
    "ring, blocks": "mesh(cp = 2) { split seq, past over cp with ring }",
    "ring, zigzag": "mesh(cp = 2) { split seq, past over cp with zigzag with ring }",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("seq", 4096), ("width", 128), ("layers", 2), ("steps", 6), ("repeat", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        specs = {}
        for i, (name, layout) in enumerate(LAYOUTS.items()):
            specs[name] = folder / f"layout{i}.ech"
            specs[name].write_text(SPEC.format(layout=layout, **vars(options)))
            steps.seconds(specs[name], 1 if name == "one rank" else 2, folder)  # builds
        times = {name: [] for name in specs}
        for _ in range(options.repeat):
            for name, spec in specs.items():
                times[name].append(steps.seconds(spec, 1 if name == "one rank" else 2, folder))
        print("| layout | ms a step | one rank's by it | activations and scratch, MB |\n|" + " --- |" * 4)
        for name, spec in specs.items():
            ratios = [one / each for one, each in zip(times["one rank"], times[name])]
            print(f"| {name} | {1e3 * statistics.median(times[name]):.0f} | {statistics.median(ratios):.2f} | "
                  f"{steps.plan(spec)['memory_bytes']['activations'] / 1e6:.1f} |", flush=True)


if __name__ == "__main__":
    main()
