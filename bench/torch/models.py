"""The models of the examples in PyTorch, as functions of a dictionary of parameters named by Echelon's paths.

A model is a function (p, state, batch, draws) -> (loss, accuracy, further losses ...), of which training makes the sum
small. `p` holds the parameters and `state` the running
statistics by path, `batch` the inputs and `draws` the random values of the step by path, all as `echelon run --dump`
writes them; `draws` is None in evaluation. What a repeat stacks (`layer.attn.wq`) has the repeat's axis first.
"""
import math

import torch
import torch.nn.functional as F

EPSILON = 1e-5  # of every norm
image_format = torch.contiguous_format  # or channels_last: of what convolutions read, and so of what they make


def outcome(logits, labels):
    """Mean cross-entropy and accuracy over all samples and positions."""
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1).long())
    return loss, (logits.argmax(-1) == labels).double().mean()


def at(value, i):
    """The part of a stacked value that belongs to iteration i; the value itself outside a repeat."""
    return value if i is None else value[i]


def layer_norm(x, p, name, i=None):
    return F.layer_norm(x, x.shape[-1:], at(p[name + ".gamma"], i), at(p[name + ".beta"], i), EPSILON)


def batch_norm(x, p, state, training, name, i=None):
    """Running statistics are changed in place in training: 0.9 old + 0.1 new, the variance unbiased."""
    return F.batch_norm(x, at(state[name + ".running_mean"], i), at(state[name + ".running_var"], i),
                        at(p[name + ".gamma"], i), at(p[name + ".beta"], i), training, 0.1, EPSILON)


def conv3x3(x, p, name, i=None, stride=1):
    return F.conv2d(x.contiguous(memory_format=image_format), at(p[name + ".w"], i), stride=stride, padding=1)


def linear(x, p, name):
    return x @ p[name + ".w"] + p[name + ".b"]


def attention(x, memory, p, name, i, causal):
    """x: (batch, seq, embed); weights [embed, head, key], output [head, key, embed]."""
    def project(y, which):
        w, b = p[f"{name}.w{which}"][i], p[f"{name}.b{which}"][i]
        embed, head, key = w.shape
        return F.linear(y, w.reshape(embed, -1).t(), b.reshape(-1)).view(*y.shape[:2], head, key).transpose(1, 2)
    q, k, v = project(x, "q"), project(memory, "k"), project(memory, "v")
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)
    wo = p[name + ".wo"][i]
    return F.linear(y, wo.reshape(-1, wo.shape[-1]).t(), p[name + ".bo"][i])


def feed_forward(x, p, name, i):
    h = F.gelu(F.linear(x, p[name + ".w1"][i].t(), p[name + ".b1"][i]))
    return F.linear(h, p[name + ".w2"][i].t(), p[name + ".b2"][i])


def experts(x, p, name, i, top=2, capacity=1.25):
    """(y, the balance loss): nn.moe, expert by expert, on the positions that each has room for."""
    router, w1, w3, w2 = (p[f"{name}.{w}"][i] for w in ("router", "w1", "w3", "w2"))
    count, seq = router.shape[-1], x.shape[1]
    slots = min(math.ceil(capacity * top * seq / count), seq)
    share = F.softmax(x @ router, -1)
    weight, chosen = share.topk(top, -1)
    weight = weight / weight.sum(-1, keepdim=True)
    wanted = F.one_hot(chosen, count).sum(2)  # (batch, seq, count)
    kept = (wanted.cumsum(1) - wanted).gather(2, chosen) < slots
    y = torch.zeros_like(x)
    for e in range(count):
        b, s, c = ((chosen == e) & kept).nonzero(as_tuple=True)
        h = x[b, s]
        made = (F.silu(h @ w1[e]) * (h @ w3[e])) @ w2[e]
        y = y.index_put((b, s), weight[b, s, c, None] * made, accumulate=True)
    return y, 0.01 * count / top * (wanted.to(x.dtype).mean(1) * share.mean(1)).sum(-1).mean()


def MLP(p, state, batch, draws):
    x = batch["image"].flatten(1)
    h = F.relu(x @ p["w1"].flatten(0, 1) + p["b1"])
    return outcome(linear(h, p, "head"), batch["label"])


def ConvNet(p, state, batch, draws):
    training = draws is not None
    x = batch["picture"].unsqueeze(1)
    x = F.relu(batch_norm(conv3x3(x, p, "conv3x3"), p, state, training, "batchnorm"))
    x = F.max_pool2d(x, 2)
    x = F.relu(batch_norm(conv3x3(x, p, "conv3x3_2"), p, state, training, "batchnorm_2"))
    x = F.max_pool2d(x, 2)
    return outcome(linear(x.mean((2, 3)), p, "head"), batch["label"])


def GPT(p, state, batch, draws):
    def norm(*names):  # a spec may call its norms
        return next(name for name in names if name + ".gamma" in p)

    before_attn, before_mlp = norm("layer.attn_norm", "layer.layernorm"), norm("layer.mlp_norm", "layer.layernorm_2")
    x = p["wte"][batch["tokens"].long()] + p["wpe"]
    for i in range(p["layer.attn.wq"].shape[0]):
        y = layer_norm(x, p, before_attn, i)
        x = x + attention(y, y, p, "layer.attn", i, True)
        x = x + feed_forward(layer_norm(x, p, before_mlp, i), p, "layer.mlp", i)
    return outcome(F.linear(layer_norm(x, p, norm("final_norm", "layernorm")), p["wte"]), batch["labels"])


def Mixture(p, state, batch, draws):
    x, balance = p["wte"][batch["tokens"].long()] + p["wpe"], 0
    for i in range(p["layer.attn.wq"].shape[0]):
        y = layer_norm(x, p, "layer.attn_norm", i)
        x = x + attention(y, y, p, "layer.attn", i, True)
        y, of_layer = experts(layer_norm(x, p, "layer.mlp_norm", i), p, "layer.moe", i, capacity=0.8)
        x, balance = x + y, balance + of_layer
    return *outcome(F.linear(layer_norm(x, p, "final_norm"), p["wte"]), batch["labels"]), balance


def Seq2Seq(p, state, batch, draws):
    m = p["wte"][batch["source"].long()] + p["wsrc"]
    for i in range(p["encoder.attn.wq"].shape[0]):
        y = layer_norm(m, p, "encoder.layernorm", i)
        m = m + attention(y, y, p, "encoder.attn", i, False)
        m = m + feed_forward(layer_norm(m, p, "encoder.layernorm_2", i), p, "encoder.mlp", i)
    x = p["wte"][batch["target"].long()] + p["wdst"]
    for i in range(p["decoder.attn.wq"].shape[0]):
        y = layer_norm(x, p, "decoder.layernorm", i)
        x = x + attention(y, y, p, "decoder.attn", i, True)
        x = x + attention(layer_norm(x, p, "decoder.layernorm_2", i), m, p, "decoder.cross", i, False)
        x = x + feed_forward(layer_norm(x, p, "decoder.layernorm_3", i), p, "decoder.mlp", i)
    return outcome(F.linear(layer_norm(x, p, "layernorm"), p["wte"]), batch["answer"])


def ResNet(p, state, batch, draws, depth=3, p_last=0.5):
    training = draws is not None

    def norm(x, name, i=None):
        return batch_norm(x, p, state, training, name, i)

    def stage(x, s):
        name = f"stage{s}.residual"
        for i in range(depth):
            h = F.relu(norm(conv3x3(x, p, name + ".conv3x3", i), name + ".batchnorm", i))
            h = norm(conv3x3(h, p, name + ".conv3x3_2", i), name + ".batchnorm_2", i)
            if training:
                kept = draws[name + ".survive"][i].view(-1, 1, 1, 1).to(h.dtype)
            else:
                kept = 1 - (i + 1 + (s - 1) * depth) / (3 * depth) * (1 - p_last)
            x = F.relu(x + kept * h)
        return x

    x = F.relu(norm(conv3x3(batch["image"], p, "conv3x3"), "batchnorm"))
    x = stage(x, 1)
    x = F.relu(norm(conv3x3(x, p, "conv3x3_2", stride=2), "batchnorm_2"))
    x = stage(x, 2)
    x = F.relu(norm(conv3x3(x, p, "conv3x3_3", stride=2), "batchnorm_3"))
    x = stage(x, 3)
    return outcome(linear(x.mean((2, 3)), p, "head"), batch["label"])


MODELS = {f.__name__: f for f in (MLP, ConvNet, GPT, Mixture, Seq2Seq, ResNet)}


def decayed(name):
    """Weight decay takes what a dot, conv or gather reads: no gains, biases, nor embeddings that are only added."""
    return name.split(".")[-1] in ("wte", "w", "w1", "w2", "w3", "router", "wq", "wk", "wv", "wo")


def repeated(name):
    """Whether a repeat stacks it, along its first axis."""
    return name.split(".")[0] in ("layer", "encoder", "decoder", "stage1", "stage2", "stage3")
