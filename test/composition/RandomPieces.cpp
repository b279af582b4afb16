// Pieces are templates: {| a || b |} is one of a and b; $F is the feature axis (embed or channel) and $Y its size, $P a
// place axis (seq or height) and $Z its size, $W the window axes, $K declares a kernel's axes and $k names them, $X is
// x without width, $n the piece's number, $s a drawn size, $c a drawn number; @ is where a loop holds other pieces.
// Lines that begin with "axis" and "outside" stand apart; those of "[S]" are of sequences alone.
#include "test/composition/RandomPieces.h"

#include <algorithm>

const std::vector<std::string> echelon::test::kPieces = {
    // element-wise functions
    R"(x = x + $c * {|exp(-x ^ 2)||log(x ^ 2 + 1.5)||sqrt(x ^ 2 + 0.5)||rsqrt(x ^ 2 + 0.5)||sin(x)||cos(2 * x)|})",
    R"(x = x + $c * {|tanh(x)||erf(x)||sigmoid(x)||relu(x)||gelu(x)||gelu(x, tanh = true)||silu(x)||abs(x)|})",
    R"(x = x + $c * {|erf(x)||sigmoid(x)||gelu(x, tanh = true)||floor(2 * x)||max(x, logsumexp(x, over = $F))|})",
    R"(x = x + $c * {|floor(3 * x)||mod(x, 0.7)||max(x, 0.2)||min(x, 0.3)||clamp(x, -0.6, 0.5)||-x||(x ^ 2 + 0.1) ^ 0.7|})",
    R"(x = x + $c * {|x / (1 + x ^ 2)||stop_gradient(x) * x||where(x > 0.1, x, tanh(x))||where(not (x < 0.2) or x <= -0.4, x * 0.5, 0.3)|})",
    R"(x = x + $c * {|(x ^ 2 + 0.1) ^ 0.7||(1 + abs(x)) ^ (0.3 * tanh(x))||2 ^ tanh(x)|})",
    R"(x = {|where(keep, x, 0.5 * x)||where(keep and x >= 0, 0.7 * x, x)||where(mark == 1, 0.3 * x, x)||where(mark != 1, x, sin(x))|})",
    R"(param g$n[{|$F||$P, $F||$P|}] ~ {|normal(0.5)||uniform(-0.5, 0.5)||ones|}
x = {|x * (1 + 0.3 * g$n)||max(x, g$n)||min(x, g$n)||where(x > g$n, x, g$n * x)||x - g$n||x / (1 + g$n ^ 2)||g$n - 0.5 * x|})",
    R"(x = x + {|0.1 * sin(index($F) * 0.5) * cos(index($P))||outer(0.1 * index($P) + 0.2 * index($F))||0.2 * where(mod(index($F), 2) == 0, 1, 0)|})",
    // contractions
    R"(axis ff$n = $s
x = x + $c * nn.linear(tanh(nn.linear(x, $F, ff$n) as up$n), ff$n, $F, bias = {|true||false|}) as down$n)",
    R"(axis ff$n = $s
axis gg$n = {|2||3||4|}
param w$n[$F, ff$n, gg$n] ~ normal(0.4)
param v$n[ff$n, gg$n, $F] ~ normal(0.3)
x = x + tanh(dot({|gelu||relu||silu||sin|}(dot(x, w$n, over = $F)), v$n, over = (ff$n, gg$n))))",
    R"(axis ff$n = $s
axis mm$n like ff$n
h$n = tanh(nn.linear(x, $F, ff$n) as once$n)
h$n = h$n + nn.linear(sin(x), $F, ff$n) with once$n
param v$n[mm$n, $F] ~ normal(0.3)
x = x + $c * dot(h$n[ff$n -> mm$n], v$n, over = mm$n))",
    R"(x = x + $c * dot(x, tanh(x), over = {|$P||$F|}) * 0.3)",
    // reductions
    R"(r$n = {|sum||mean||max||min||logsumexp|}(x, over = {|$P||$F|}{| ||, where = keep||, where = mark > 1|})
x = x + $c * tanh(r$n))",
    R"(x = x * (1 + 0.2 * tanh({|mean||max||min||logsumexp|}(x, over = {|except(batch)||except($F)||except($P)||except(batch, $F)||batch|}))))",
    R"(x = x + $c * tanh({|softmax||log_softmax||cumsum|}(x, over = {|$P||$F|})))",
    R"(x = x + $c * {|softmax||cumsum|}(x, over = $P, where = {|keep||mark > 0|}))",
    R"(axis lk$n like $F
param t$n[lk$n, {|$F||$P|}] ~ normal(0.5)
x = x + $c * t$n[lk$n = argmax(x, over = $F)])",
    R"(axis ch$n = 2
axis lk$n like $F
param t$n[lk$n] ~ normal(0.7)
k$n = top(x, over = $F, k = 2, into = ch$n)
x = x + $c * {|sum(t$n[lk$n = k$n], over = ch$n)||mean(x[$F = k$n] * t$n[lk$n = k$n], over = ch$n)|})",
    // places
    R"(param t$n[vocab, $F] ~ normal(0.5)
x = x + $c * t$n[vocab = mark])",
    R"(axis va$n like vocab
param t$n[vocab, va$n{| ||, $F||, $P|}] ~ normal(0.5)
x = x + $c * t$n[vocab = mark, va$n = mark])",
    R"(param t$n[three, $F] ~ kaiming(over = three)
x = x + $c * (t$n[three = {|0||1||2|}] + x[$P = {|0||1|}]))",
    R"(x = x + $c * {|tanh||gelu||sin|}(x[{|$P||$F|} = {|0||1||2|}]))", // what one place holds is seen by all
    R"(param t$n[two, $P] ~ normal(0.5)
x = x + $c * t$n[two = {|0||1|}] * x[$F = {|0||2|}])",
    R"(x = concat(x[$P = 1..$Z], x[$P = 0..1] * $c, over = $P))",
    R"(x = concat(x[$F = 0..2], x[$F = 2..$Y] * $c, over = $F))",
    R"(x = x + $c * tanh({|sum||mean||max|}(x[$P = 0..2], over = $P)))",
    R"(x = x + $c * tanh({|sum||mean||min|}(x[$F = 1..3], over = $F)))",
    R"(axis qq$n like $P
param w$n[qq$n, $P] ~ normal(0.4)
x = x + $c * dot(x[$P -> qq$n], w$n, over = qq$n))",
    R"(axis fa$n = 2
axis fb$n = $Y/2
param g$n[{|fa$n||fb$n||fa$n, fb$n|}] ~ normal(0.5)
y$n = x[$F -> (fa$n, fb$n)]
x = (y$n + $c * tanh({|y$n * g$n||g$n + y$n|}))[(fa$n, fb$n) -> $F])",
    R"(axis jj$n = $Z * $Y
axis ff$n = $s
param w$n[jj$n, ff$n] ~ normal(0.3)
param v$n[ff$n, $F] ~ normal(0.3)
x = x + $c * dot(tanh(dot(x[($P, $F) -> jj$n], w$n, over = jj$n)), v$n, over = ff$n))",
    R"(param t$n[$F] ~ normal(0.5)
x = x + $c * sin(t$n[{|+ $P||+ batch||+ $P, + batch|}] * {|1.5||0.5|}) * x)",
    // windows
    R"(axis co$n = $s
$K
param w$n[co$n, $F, $k] ~ normal(0.3)
param v$n[co$n, $F] ~ normal(0.3)
x = x + $c * dot(gelu(conv(x, w$n, over = $F, window = $W, pad = same)), v$n, over = co$n))",
    R"(axis co$n = $s
$K
param w$n[co$n, $F, $k] ~ normal(0.3)
param v$n[co$n, $F] ~ normal(0.3)
h$n = tanh(conv(x, w$n, over = $F, window = $W, stride = 2, pad = {|1||same|}))
x = x + $c * dot({|mean||sum|}(h$n, over = $W), v$n, over = co$n))",
    R"(x = x + $c * {|maxpool||avgpool|}(x, window = $W, size = 3, stride = 1, pad = 1))",
    R"(x = x + $c * {|mean||sum|}({|maxpool||avgpool|}(x, window = $P, size = 2, stride = {|1||2|}), over = $P))",
    // attention
    R"(axis hd$n = {|2||4|}
axis ky$n = {|2||4|}
axis past$n like $P
x = x + $c * nn.attention({|x||nn.layernorm(x, $F)|}, $F, hd$n, ky$n, $P, past$n, causal = {|true||false|}, bias = {|true||false|}, rope = {|true||false|}) as attn$n)",
    R"(axis gr$n = 2
axis hd$n = 2
axis ky$n = 2
axis past$n like $P
x = x + $c * nn.gqa(nn.rmsnorm(x, $F), $F, gr$n, hd$n, ky$n, $P, past$n) as gqa$n)",
    R"(axis hd$n = 2
axis ky$n = {|2||3|}
axis src$n like $P
x = x + $c * nn.cross_attention(x, tanh(x)[$P -> src$n], $F, hd$n, ky$n, src$n) as cross$n)",
    R"(axis ky$n = $s
axis past$n like $P
q$n = nn.linear(x, $F, ky$n) as q$n
k$n = (nn.linear(x, $F, ky$n) as k$n)[$P -> past$n]
v$n = (nn.linear(x, $F, ky$n) as v$n)[$P -> past$n]
param b$n[{|$P, ||$P, || |}past$n] ~ normal(0.4)
a$n = attention(q$n, k$n, v$n, over = past$n, key = ky$n{| ||, causal = true||, mask = keep[$P -> past$n]||, mask = index($P) >= index(past$n)|}{| ||, bias = b$n|}, scale = 0.6)
x = x + $c * nn.linear(a$n, ky$n, $F) as o$n + 0.1 * mean(b$n))",
    R"(axis ky$n = $s
axis past$n like $P
q$n = nn.linear(x, $F, ky$n) as q$n
k$n = nn.linear(x, $F, ky$n) as k$n
v$n = nn.linear(x, $F, ky$n) as v$n
s$n = dot(q$n, k$n[$P -> past$n], over = ky$n) * 0.7
{| ||s$n = where(index($P) >= index(past$n), s$n, -1e9)|}
a$n = dot(softmax(s$n, over = past$n), v$n[$P -> past$n], over = past$n)
x = x + $c * nn.linear(a$n, ky$n, $F) as o$n)",
    // chance
    R"(x = {|dropout(x, 0.3)||x + dropout(tanh(x), 0.2)||x + survive(0.3 * tanh(x), 0.7)|})",
    R"(random e$n[{|$F||batch, $F||$P, $F||batch|}] ~ {|normal(1)||uniform(-1, 1)|}
x = x + 0.2 * e$n)",
    // norms
    R"(x = {|nn.layernorm(x, $F)||nn.rmsnorm(x, $F)||nn.layernorm(x, $P)|} as norm$n)",
    R"(x = x + $c * nn.batchnorm(x, $F) as bn$n)",
    // state
    R"(state s$n[$F] = 0.5
x = x + 0.1 * s$n
next s$n = 0.9 * s$n + 0.1 * mean(x, over = except($F)))",
    R"(state c$n[two] = {|0||1|}
x = x * (1 + 0.05 * c$n[two = 0])
next c$n = c$n + {|1||mean(x ^ 2)|})",
    // blocks
    R"(outside block unit$n(x, from: axis, to: axis, deep = false) {
outside   param w[from, to] ~ normal(0.4)
outside   y = tanh(dot(x, w, over = from))
outside   if deep {
outside     param b[to] ~ normal(0.3)
outside     y = y + b
outside   } else { y = 0.5 * y }
outside   param v[to, from] ~ normal(0.4)
outside   loss small = 0.01 * mean(y ^ 2)
outside   return dot(y, v, over = to)
outside }
axis ff$n = $s
x = x + $c * unit$n(x, $F, ff$n, deep = {|true||false|}) as own$n)",
    R"(axis ff$n = $s
x = x + $c * {|nn.mlp||nn.swiglu|}(x, $F, ff$n) as mlp$n)",
    // experts
    R"(axis ff$n = $s
axis ex$n = {|2||4||3|}
x = x + $c * nn.moe({|x||nn.layernorm(x, $F)|}, $F, ff$n, ex$n, $P, top = {|1||2|}, capacity = {|0.5||1||1.25|}) as moe$n)",
    // losses
    R"(loss extra$n = 0.05 * mean({|x ^ 2||abs(x)||log_softmax(x, over = $F) * -0.1|}{| ||, where = keep||, where = mark > 1|})
metric most$n = {|mean(x)||sum(x)||mean(x, where = keep) ^ 2||tanh(mean(x))||mean(x, where = x > 0.1)|})",
    // loops
    R"(repeat ly$n = {|2||3|} {
x = x * (1 - 0.1 * index(ly$n))
@
})",
    R"(z$n = 0.5 * x
repeat ly$n = 2 {
@
z$n = z$n + 0.3 * tanh(x)
}
x = x + $c * z$n)",
    R"(c$n = sum(where(keep, 1, 0))
m$n = 0.5
repeat ly$n = {|2||3|} {
@
c$n = c$n + sum(where(mark {|>||==|} index(ly$n), 1, 0))
m$n = m$n + {|mean(x, where = mark >= index(ly$n))||tanh(mean(x ^ 2, where = keep))||max(mean(x), 0.1)|}
loss deep$n = 0.02 * {|mean(x ^ 2, where = mark {|>||!=|} index(ly$n))||sum(x ^ 2) / (1 + sum(where(mark == index(ly$n), 1, 0)))|}
}
loss wide$n = 0.1 * sum(x ^ 2) / c$n
metric far$n = m$n / c$n)",
    R"([S] axis hi$n = $s
[S] axis ot$n like hi$n
[S] param u$n[$F, hi$n] ~ normal(0.4)
[S] param w$n[hi$n, ot$n] ~ normal(0.4)
[S] param st$n[hi$n] ~ normal(0.4)
[S] param v$n[hi$n, $F] ~ normal(0.4)
[S] h$n = st$n[+ batch]
[S] repeat along seq {
[S] h$n = tanh(dot(x, u$n, over = $F) + dot(h$n, w$n, over = hi$n)[ot$n -> hi$n])
[S] y$n = h$n * {|1||0.5|}
[S] }
[S] x = x + $c * dot(y$n + 0.1 * h$n, v$n, over = hi$n))",
};

const std::vector<std::string> echelon::test::kHeads = {
    R"(logits = nn.linear(mean(x, over = $W), $F, class) as head
loss mean(cross_entropy(logits, label, over = class))
metric accuracy = mean(argmax(logits, over = class) == label))",
    R"(param out[$F, vocab] ~ normal(0.4)
scores = dot($X, out, over = $F)
loss mean(cross_entropy(scores, mark, over = vocab){| ||, where = keep|})
metric hits = mean(argmax(scores, over = vocab) == mark))",
    R"(loss data = {|0.5||1|} * mean((x - goal) ^ 2)
metric far = mean(max(abs(x - goal), over = except(batch))))",
    R"(logits = nn.linear(sum(x, over = $W), $F, class) as head
loss mean(cross_entropy(logits, softmax(nn.linear(mean(goal, over = $W), $F, class) as teacher, over = class), over = class)))",
};

void echelon::test::replaceAll(std::string &text, const std::string &what, const std::string &by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

void echelon::test::choose(std::string &text, Random *random) {
  for (size_t open; (open = text.rfind("{|")) != std::string::npos;) {
    size_t close = text.find("|}", open);
    std::vector<std::string> parts;
    for (size_t at = open + 2;;) {
      size_t end = std::min(text.find("||", at), close);
      parts.push_back(text.substr(at, end - at));
      if (end == close)
        break;
      at = end + 2;
    }
    text.replace(open, close + 2 - open, parts[random ? below(*random, parts.size()) : 0]);
  }
}
