"""The four specs' models in PyTorch, as functions of a dictionary of parameters named by Echelon's paths.

Each model is a function (params, state, batch, training, draws) -> (loss, accuracy). `batch` holds the inputs by name,
`draws` the random values of the step by name (survive's keep decisions), both as Echelon's `--dump` wrote them.
Stacked parameters (`layer.attn.wq`) have the repeat's axis first.
"""
import torch
import torch.nn.functional as F

EPSILON = 1e-5


def cross_entropy(logits, labels):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1).long())


def accuracy(logits, labels):
    return (logits.argmax(-1) == labels).double().mean()


def layer_norm(x, p, name, i=None):
    gamma, beta = p[name + ".gamma"], p[name + ".beta"]
    if i is not None:
        gamma, beta = gamma[i], beta[i]
    return F.layer_norm(x, x.shape[-1:], gamma, beta, EPSILON)


def attention(x, memory, p, name, i, causal):
    """x: (batch, seq, embed); weights (layer, embed, head, key), output (layer, head, key, embed)."""
    def project(y, which):
        w, b = p[f"{name}.w{which}"][i], p[f"{name}.b{which}"][i]
        embed, head, key = w.shape
        return F.linear(y, w.reshape(embed, -1).t(), b.reshape(-1)).view(*y.shape[:2], head, key).transpose(1, 2)
    q, k, v = project(x, "q"), project(memory, "k"), project(memory, "v")
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)
    wo = p[name + ".wo"][i]
    return F.linear(y, wo.reshape(-1, wo.shape[-1]).t(), p[name + ".bo"][i])


def mlp(x, p, name, i):
    h = F.gelu(F.linear(x, p[name + ".w1"][i].t(), p[name + ".b1"][i]))
    return F.linear(h, p[name + ".w2"][i].t(), p[name + ".b2"][i])


def mlp_mnist(p, state, batch, training=True, draws=None):
    x = batch["image"].flatten(1)
    h = F.relu(x @ p["w1"].reshape(-1, p["w1"].shape[-1]) + p["b1"])
    logits = h @ p["head.w"] + p["head.b"]
    return cross_entropy(logits, batch["label"]), accuracy(logits, batch["label"])


def gpt_shakespeare(p, state, batch, training=True, draws=None):
    x = p["wte"][batch["tokens"].long()] + p["wpe"]
    for i in range(p["layer.attn.wq"].shape[0]):
        y = layer_norm(x, p, "layer.layernorm", i)
        x = x + attention(y, y, p, "layer.attn", i, True)
        x = x + mlp(layer_norm(x, p, "layer.layernorm_2", i), p, "layer.mlp", i)
    logits = F.linear(layer_norm(x, p, "layernorm"), p["wte"])
    return cross_entropy(logits, batch["labels"]), accuracy(logits, batch["labels"])


def translate_digits(p, state, batch, training=True, draws=None):
    m = p["wte"][batch["source"].long()] + p["wsrc"]
    for i in range(p["encoder.attn.wq"].shape[0]):
        y = layer_norm(m, p, "encoder.layernorm", i)
        m = m + attention(y, y, p, "encoder.attn", i, False)
        m = m + mlp(layer_norm(m, p, "encoder.layernorm_2", i), p, "encoder.mlp", i)
    x = p["wte"][batch["target"].long()] + p["wdst"]
    for i in range(p["decoder.attn.wq"].shape[0]):
        y = layer_norm(x, p, "decoder.layernorm", i)
        x = x + attention(y, y, p, "decoder.attn", i, True)
        x = x + attention(layer_norm(x, p, "decoder.layernorm_2", i), m, p, "decoder.cross", i, False)
        x = x + mlp(layer_norm(x, p, "decoder.layernorm_3", i), p, "decoder.mlp", i)
    logits = F.linear(layer_norm(x, p, "layernorm"), p["wte"])
    return cross_entropy(logits, batch["answer"]), accuracy(logits, batch["answer"])


def resnet20_cifar(p, state, batch, training=True, draws=None, depth=3, p_last=0.5):
    def pick(name, i):
        return p[name] if i is None else p[name][i]

    def norm(x, name, i=None):
        mean, var = (state[f"{name}.running_mean"], state[f"{name}.running_var"])
        if i is not None:
            mean, var = mean[i], var[i]
        return F.batch_norm(x, mean, var, pick(name + ".gamma", i), pick(name + ".beta", i), training, 0.1, EPSILON)

    def conv(x, name, i=None, stride=1):
        return F.conv2d(x, pick(name + ".w", i), stride=stride, padding=1)

    def stage(x, s):
        for i in range(depth):
            name = f"stage{s}.residual"
            survival = 1 - (i + 1 + (s - 1) * depth) / (3 * depth) * (1 - p_last)
            h = F.relu(norm(conv(x, name + ".conv3x3", i), name + ".batchnorm", i))
            h = norm(conv(h, name + ".conv3x3_2", i), name + ".batchnorm_2", i)
            keep = draws[f"stage{s}"][i].view(-1, 1, 1, 1).to(h.dtype) if training else survival
            x = F.relu(x + keep * h)
        return x

    x = F.relu(norm(conv(batch["image"], "conv3x3"), "batchnorm"))
    x = stage(x, 1)
    x = F.relu(norm(conv(x, "conv3x3_2", stride=2), "batchnorm_2"))
    x = stage(x, 2)
    x = F.relu(norm(conv(x, "conv3x3_3", stride=2), "batchnorm_3"))
    x = stage(x, 3)
    logits = x.mean((2, 3)) @ p["head.w"] + p["head.b"]
    return cross_entropy(logits, batch["label"]), accuracy(logits, batch["label"])


MODELS = {f.__name__: f for f in (mlp_mnist, gpt_shakespeare, translate_digits, resnet20_cifar)}


def decayed(name):
    """Weight decay takes what a dot, conv or gather reads: no gains, biases, or added embeddings."""
    last = name.split(".")[-1]
    return last in ("wte", "w", "w1", "w2", "wq", "wk", "wv", "wo")


def optimizer(spec, params):
    """The spec's optimizer and its learning rate as a function of the step."""
    import math
    groups = [{"params": [v for k, v in params.items() if decayed(k)]},
              {"params": [v for k, v in params.items() if not decayed(k)], "weight_decay": 0.0}]
    if spec == "mlp_mnist":
        return torch.optim.SGD(params.values(), lr=0.1, momentum=0.9), lambda s: 0.1, None
    if spec == "gpt_shakespeare":
        def cosine(s):
            if s < 50:
                return 1e-3 * (s + 1) / 50
            return 1e-4 + 0.5 * (1e-3 - 1e-4) * (1 + math.cos(math.pi * (s - 50) / (500 - 50)))
        return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1), cosine, 1.0
    if spec == "translate_digits":
        return torch.optim.Adam(params.values(), lr=1e-3), lambda s: 1e-3 * min(1.0, (s + 1) / 100), None
    if spec == "resnet20_cifar":
        return (torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=1e-4),
                lambda s: 0.1 * (0.1 if s >= 500 else 1) * (0.1 if s >= 750 else 1), None)
    raise SystemExit(f"no optimizer known for {spec}")
