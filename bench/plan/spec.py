"""The spec text of a run: its model in the language, a cluster of its devices, and its layout."""
from math import ceil

# Cards between nodes, in Gb/s of a node: Selene and the A100 tables 8 x 200 (InfiniBand HDR, RoCE), nanotron's H100
# 32 x 100 (EFA).
LINKS = {"a100": ("nvlink3", "8 x 200 Gb/s, 5 us"), "h100": ("nvlink4", "8 x 400 Gb/s, 5 us")}



def padded_vocab(run):
    """Megatron pads so that each of tp ranks has a multiple of 128, and leaves the whole as it is."""
    return run.vocab if run.tp == 1 else ceil(run.vocab / run.tp / 128) * 128 * run.tp


def head_alone(run):
    """The last stage has the head, and no layer."""
    return run.pp > 1 and run.partition[-1][0] == 0


def written_attention(run):
    """Attention whose scores are in memory: Megatron's, with biases and dropout, or a Llama's."""
    gpt = not llama(run)
    names = ("q", "k", "v")
    lines = [f"h = {norm(run)} as attn_norm"]
    lines += [f"param w{n}[embed, head, key] ~ normal(0.02)" for n in names]
    lines += ["param wo[head, key, embed] ~ normal(0.02)"]
    if gpt:
        lines += [f"param b{n}[head, key] ~ zeros" for n in names] + ["param bo[embed] ~ zeros"]
    lines += [f"{n} = dot(h, w{n}, over = embed){f' + b{n}' if gpt else ''}" for n in names]
    if not gpt:
        lines += ["q = nn.rotate(q, seq, key)", "k = nn.rotate(k, seq, key)"]
    lines += ["s = dot(q, k[seq -> past], over = key) / sqrt(size(key))",
              "p = softmax(s, over = past, where = index(past) <= index(seq))",
              # without dropout, what is written here would be taken for the fused kernel; this keeps it written
              f"a = dot({'dropout(p, 0.1)' if gpt else 'p * min(p + 1, 1)'}, v[seq -> past], over = past)",
              f"y = dot(a, wo, over = (head, key)){' + bo' if gpt else ''}"]
    return lines


def gpt_mlp(run):
    """Its values have names, so that `recompute keep` may say them."""
    bias = run.framework != "composer"
    lines = [f"m = {norm(run)} as mlp_norm", "param w1[embed, ff] ~ normal(0.02)", "param w2[ff, embed] ~ normal(0.02)"]
    if bias:
        lines += ["param b1[ff] ~ zeros", "param b2[embed] ~ zeros"]
    return lines + [f"u = dot(m, w1, over = embed){' + b1' if bias else ''}", "g = gelu(u)",
                    f"z = dot(g, w2, over = ff){' + b2' if bias else ''}"]


def norm(run):
    return "nn.rmsnorm(x, embed)" if llama(run) else "nn.layernorm(x, embed)"


def llama(run):
    return run.framework in ("nanotron", "aleph")


def layer(run):
    attention = ("x = x + nn.attention(" + norm(run) + " as attn_norm, embed, head, key, seq, past, causal = true,"
                 f" bias = false, rope = {'true' if llama(run) else 'false'}) as attn")
    swiglu = f"x = x + nn.swiglu({norm(run)} as mlp_norm, embed, ff) as mlp"
    if run.framework in ("megatron", "vtrain"):
        return written_attention(run) + ["x = x + dropout(y, 0.1)"] + gpt_mlp(run) + ["x = x + dropout(z, 0.1)"]
    if run.framework == "composer":
        return [attention] + gpt_mlp(run) + ["x = x + z"]
    if run.kernel in ("torch", "fused"):
        return written_attention(run) + ["x = x + y", swiglu]
    return [attention, swiglu]


def model(run):
    gathers = run.framework == "aleph" and run.tp > 1  # its logits are whole before the loss
    alone, body = head_alone(run), "\n".join("    " + line for line in layer(run))
    return f"""model Model() {{
  axis batch
  axis seq = {run.seq}
  axis past like seq
  axis vocab = {padded_vocab(run)}
  {'axis word like vocab' if gathers else ''}
  {'axis place like seq' if gathers else ''}
  axis embed = {run.hidden}
  axis head = {run.heads}
  axis key = {run.hidden // run.heads}
  axis ff = {run.ff}
  input tokens[batch, seq] : int below vocab
  input labels[batch, {'place] : int below word' if gathers else 'seq] : int below vocab'}
  param wte[vocab, embed] ~ normal(0.02)
  {'param wpe[seq, embed] ~ normal(0.01)' if run.framework in ('megatron', 'vtrain') else ''}
  {'' if run.tied else 'param lm_head[vocab, embed] ~ normal(0.02)'}
  x = wte[vocab = tokens]{' + wpe' if run.framework in ('megatron', 'vtrain') else ''}
  {'x = dropout(x, 0.1)' if run.framework in ('megatron', 'vtrain') else ''}
  repeat layer = {run.layers} {{
{body}
  }}
  {'repeat last = 1 { x = ' + norm(run) + ' as final_norm }' if alone else 'x = ' + norm(run) + ' as final_norm'}
  logits = dot(x, {'wte' if run.tied else 'lm_head'}, over = embed)
  {'loss mean(cross_entropy(logits[vocab -> word, seq -> place], labels, over = word))' if gathers else 'loss mean(cross_entropy(logits, labels, over = vocab))'}
}}
"""


def pipeline(run):
    if run.pp == 1:
        return ""
    counts = [k for k, _ in run.partition]
    what = "layer"
    if head_alone(run):
        what, counts = "layer then last", counts[:-1] + [1]
    line = f"split {what} over pp with " + (f"interleaved({run.chunks})" if run.chunks > 1 else "1f1b")
    if len(set(counts)) > 1 or what != "layer":
        line += " as (" + ", ".join(map(str, counts)) + ")"
    return line


def layout(run):
    mesh = ", ".join(f"{name} = {size}" for name, size in (("pp", run.pp), ("dp", run.dp), ("tp", run.tp)) if size > 1)
    lines = [pipeline(run)]
    if run.dp > 1:
        lines.append("split batch over dp")
    if run.tp > 1:
        lines.append(f"split head, ff, vocab{', seq' if run.sequence else ''} over tp")
    if run.zero and run.dp > 1:
        lines.append("store " + {1: "optimizer", 2: "optimizer, gradients", 3: "optimizer, gradients, params"}[run.zero] +
                     " over dp")
    if not mesh:
        return "mesh(dp = 1) { split batch over dp }"
    return f"mesh({mesh}) {{ {'; '.join(line for line in lines if line)} }}"


def recompute(run):
    if run.recompute == "selective":
        return "recompute keep (h, q, k, v, a, m, u, g)"
    return f"recompute {run.recompute}" if run.recompute != "none" else ""


def cluster(run, machines):
    """Its devices, by the names that `machines` (a spec file) gives them; without one, those of the catalogue."""
    generation = run.device.split("_")[0]
    link, network = LINKS[generation]
    device = run.device
    if machines:
        device = f"{run.device}_{run.framework}_{run.kernel}"
        link, network = f"{link}_{run.framework}", f"net_{run.framework}"
    a_node = min(run.a_node, run.gpus)
    nodes = ceil(run.gpus / a_node)
    return (f"cluster rows {{ nodes {nodes} of {a_node} x {device}; link {link}" +
            (f"; network {network}" if nodes > 1 else "") + " }\n")


def text(run, machines=None):
    """The whole spec."""
    micro = f" in micro batches of {run.micro}" if run.micros > 1 else ""
    precision = ("compute bf16" + (", params bf16" if run.zero < 3 else "") +
                 (", reduce bf16" if run.zero == 3 and run.half_gradients else ""))
    lines = [
        "import nn", f'import "{machines}"' if machines else "import devices",
        model(run), cluster(run, machines),
        "train row {", "  model Model()", "  on rows", "  data synthetic(tokens) -> tokens, labels",
        f"  batch {run.batch}{micro}", "  steps 100",
        "  optimize adamw(lr = 1e-4, decay = 0.1, clip = 1.0)", f"  precision {precision}",
        f"  {recompute(run)}", f"  layout {layout(run)}", "}"]
    return "\n".join(line for line in "\n".join(lines).split("\n") if line.strip()) + "\n"
