// Pieces are templates: {| a || b |} is one of a and b; $F is the feature axis (embed or channel) and $Y its size, $P a
// place axis (seq or height) and $Z its size, $W the window axes, $K declares a kernel's axes and $k names them, $X is
// x without width, $n the piece's number, $s a drawn size, $c a drawn number; @ is where a loop holds other pieces.
// Lines that begin with "axis" and "outside" stand apart; those of "[S]" are of sequences alone.
#include "test/composition/RandomSpec.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <random>
#include <set>
#include <sstream>

namespace echelon::test {

namespace {

using Random = std::mt19937_64;
size_t below(Random &random, size_t n) { return random() % n; }

const std::vector<std::string> kPieces = {
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
param b$n[$P, past$n] ~ normal(0.4)
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

const std::vector<std::string> kHeads = {
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

void replaceAll(std::string &text, const std::string &what, const std::string &by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

/// One alternative of each {| … || … |}.
void choose(std::string &text, Random &random) {
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
    text.replace(open, close + 2 - open, parts[below(random, parts.size())]);
  }
}

struct Family {
  bool image;
  int64_t places, features;
  std::string at(const char *sequence, const char *picture) const { return image ? picture : sequence; }
};

/// Even sizes mostly, so that meshes divide them.
int64_t drawSize(Random &random) {
  static const int64_t sizes[] = {4, 4, 4, 6, 8, 8, 12, 3, 5};
  return sizes[below(random, std::size(sizes))];
}

Piece fill(std::string text, const Family &family, int number, Random &random) {
  std::string features = family.at("embed", "channel"), places = family.at("seq", "height");
  choose(text, random);
  std::ostringstream c;
  c << 0.1 * double(2 + below(random, 5));
  replaceAll(text, "$n", std::to_string(number));
  replaceAll(text, "$Y/2", std::to_string(family.features / 2));
  for (auto &[mark, by] : std::map<std::string, std::string>{
           {"$F", features},
           {"$P", places},
           {"$W", family.at("seq", "(height, width)")},
           {"$K", family.image ? "axis ka" + std::to_string(number) + " = 3\naxis kb" + std::to_string(number) + " = 3"
                               : "axis ka" + std::to_string(number) + " = 3"},
           {"$k", family.image ? "ka" + std::to_string(number) + ", kb" + std::to_string(number)
                               : "ka" + std::to_string(number)},
           {"$X", family.at("x", "mean(x, over = width)")},
           {"$Z", std::to_string(family.places)},
           {"$Y", std::to_string(family.features)},
           {"$s", std::to_string(drawSize(random))},
           {"$c", c.str()}})
    replaceAll(text, mark, by);
  Piece piece;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("[S] ", 0) == 0)
      line = line.substr(4);
    if (line.rfind("axis ", 0) == 0)
      piece.axes += "  " + line + "\n";
    else if (line.rfind("outside ", 0) == 0)
      piece.outside += line.substr(8) + "\n";
    else
      piece.body += "  " + line + "\n";
  }
  piece.allSamples =
      text.find("over = except(" + features) != std::string::npos && text.find("next") == std::string::npos;
  piece.allSamples |=
      text.find("except(" + places) != std::string::npos || text.find("over = batch)") != std::string::npos;
  piece.batchStatistics = piece.allSamples || text.find("batchnorm") != std::string::npos;
  return piece;
}

bool any(const std::vector<Piece> &pieces, bool Piece::*what) {
  return std::any_of(pieces.begin(), pieces.end(), [&](const Piece &p) { return p.*what || any(p.inner, what); });
}

void print(const std::vector<Piece> &pieces, std::string Piece::*part, std::string &text) {
  for (const Piece &piece : pieces) {
    std::string own = piece.*part, inner;
    print(piece.inner, part, inner);
    size_t at = part == &Piece::body ? own.find("  @\n") : std::string::npos;
    text += at == std::string::npos ? own + inner : own.replace(at, 4, inner);
  }
}

} // namespace

RandomSpec::RandomSpec(uint64_t seed) : seed(seed) {
  Random random(seed * 0x9e3779b97f4a7c15u + 12345);
  Family family{below(random, 3) == 0, int64_t(below(random, 3) ? 4 : 6), int64_t(below(random, 3) ? 4 : 8)};
  int64_t classes = 3 + int64_t(below(random, 2)), words = below(random, 2) ? 4 : 6;
  std::string p = family.at("seq", "height"), f = family.at("embed", "channel");
  axes = "  axis batch\n  axis " + p + " = " + std::to_string(family.places) + "\n" +
         (family.image ? "  axis width = 4\n" : "") + "  axis " + f + " = " + std::to_string(family.features) +
         "\n  axis class = " + std::to_string(classes) + "\n  axis vocab = " + std::to_string(words) +
         "\n  axis two = 2\n  axis three = 3\n";
  std::vector<std::string> all =
      family.image ? std::vector<std::string>{f, p, "width"} : std::vector<std::string>{p, f};
  std::vector<int64_t> sizes = family.image ? std::vector<int64_t>{family.features, family.places, 4}
                                            : std::vector<int64_t>{family.places, family.features};
  inputs = {{"first", all, sizes, 0},
            {"goal", all, sizes, 0},
            {"mark", {p}, {family.places}, words},
            {"keep", {p}, {family.places}, 1},
            {"label", {}, {}, classes}};

  int number = 0;
  std::function<std::vector<Piece>(int, int)> draw = [&](int count, int depth) {
    std::vector<Piece> list;
    while (int(list.size()) < count) {
      const std::string &text = kPieces[below(random, kPieces.size())];
      bool loop = text.find("repeat") != std::string::npos, own = text.find("next ") != std::string::npos;
      if ((family.image && text.rfind("[S]", 0) == 0) || (depth && (own || text.rfind("[S]", 0) == 0)) ||
          (loop && depth > 1))
        continue;
      Piece piece = fill(text, family, number++, random);
      if (piece.body.find("@") != std::string::npos)
        piece.inner = draw(1 + int(below(random, 2)), depth + 1);
      list.push_back(piece);
    }
    return list;
  };
  pieces = draw(2 + int(below(random, 5)), 0);
  head = fill(kHeads[below(random, kHeads.size())], family, number++, random).body;
  static const std::vector<std::string> optimizers = {
      "optimize sgd(lr = 0.05{| ||, clip = 0.5|})",
      "optimize sgd(lr = 0.05, momentum = 0.9{| ||, nesterov = true|}{| ||, decay = 0.01|}{| ||, clip = 1.0|})",
      "optimize adam(lr = 0.01{| ||, decay = 0.01||, clip = 0.3|})",
      "optimize adamw(lr = 0.01, betas = (0.9, 0.95), decay = 0.1{| ||, clip = 0.5|})",
      "optimize lamb(lr = 0.01, betas = (0.9, 0.95){| ||, decay = 0.1|}{| ||, clip = 0.5|})"};
  optimizer = optimizers[below(random, optimizers.size())];
  choose(optimizer, random);
  averages = below(random, 4) == 0;
  // Of the packings the one that is linear and divides by nothing: others jump at ties and at 0, where models by chance
  // have gradients that are nothing but rounding.
  if (seed % 5 == 0 && !any(pieces, &Piece::batchStatistics))
    compress = std::string("randomk(30%)") + (seed % 10 ? " feedback" : "");
  if (below(random, 3) == 0 && !any(pieces, &Piece::batchStatistics))
    microBatches = below(random, 3) ? 2 : 4;
  drawLayout(0);
}

/// Those that are declared and that a tensor has: not only `below vocab`.
std::vector<std::string> RandomSpec::modelAxes() const {
  std::string model = text();
  model.resize(model.find("\ntrain "));
  for (char &c : model)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_')
      c = ' ';
  std::vector<std::string> declared, names;
  std::set<std::string> used;
  std::istringstream words(model);
  for (std::string before, word; words >> word; before = word)
    if (before == "axis")
      declared.push_back(word);
    else if (before != "below" && before != "like")
      used.insert(word);
  for (const std::string &name : declared)
    if (used.count(name))
      names.push_back(name);
  return names;
}

void RandomSpec::drawLayout(int attempt) {
  Random random(seed * 0x9e3779b97f4a7c15u + 777 + attempt);
  static const std::vector<std::vector<int64_t>> meshes{{2}, {2}, {4}, {3}, {2, 2}, {2, 2}, {2, 3}, {4, 2}, {2, 2, 2}};
  mesh.clear();
  std::vector<std::string> names = modelAxes();
  int64_t ranks = 1;
  for (int64_t size : meshes[below(random, meshes.size())]) {
    MeshLine line{std::string(1, char('a' + mesh.size())), size, {}, below(random, 3) == 0};
    std::vector<std::string> order = names;
    std::shuffle(order.begin(), order.end(), random);
    if (below(random, 3) == 0)
      order.insert(order.begin(), "batch"), order.erase(std::find(order.begin() + 1, order.end(), "batch"));
    order.resize(std::min<size_t>(order.size(), below(random, 6)));
    for (std::string &axis : order)
      if (below(random, 8) == 0)
        axis += " padded";
    line.list = order;
    line.stores |= order.empty();
    mesh.push_back(line);
    ranks *= size;
  }
  batch = (ranks % 3 ? 8 : 12) * (ranks * microBatches > 8 ? 2 : 1) * (microBatches == 4 ? 2 : 1);
}

bool RandomSpec::evaluates() const { return !any(pieces, &Piece::allSamples); }

std::string RandomSpec::text() const {
  std::string outside, lines = axes, body, names, held, layout;
  print(pieces, &Piece::outside, outside);
  print(pieces, &Piece::axes, lines);
  for (const RandomInput &input : inputs) {
    std::string list = "batch";
    for (const std::string &axis : input.axes)
      list += ", " + axis;
    lines += "  input " + input.name + "[" + list + "] : " +
             (input.below == 0   ? "float"
              : input.below == 1 ? "bool"
                                 : std::string("int below ") + (input.name == "mark" ? "vocab" : "class")) +
             "\n";
    bool start = names.empty();
    (names += start ? "" : ", ") += input.name;
    (held += start ? "" : ", ") += "\"" + input.name + ".held.npy\"";
  }
  std::string files = held;
  replaceAll(files, ".held", "");
  print(pieces, &Piece::body, body);
  int64_t over = 1;
  bool packs = !compress.empty() && mesh.empty(); // where ranks have samples of their own
  for (const MeshLine &line : mesh)
    packs |= !compress.empty() && !line.list.empty() && line.list.front().rfind("batch", 0) == 0;
  for (const MeshLine &line : mesh) {
    layout += (layout.empty() ? "" : ", ") + line.name + " = " + std::to_string(line.size);
    for (const std::string &axis : line.list)
      over *= axis.rfind("batch", 0) == 0 ? line.size : 1;
  }
  layout = "  layout mesh(" + layout + ") {\n";
  for (const MeshLine &line : mesh) {
    for (const std::string &axis : line.list)
      layout += "    split " + axis.substr(0, axis.find(' ')) + " over " + line.name +
                (axis.find(' ') == std::string::npos ? "\n" : " with padding\n");
    if (line.stores)
      layout += "    store optimizer over " + line.name + "\n";
  }
  std::string micro = microBatches > 1
                          ? " in micro batches of " + std::to_string(std::max<int64_t>(1, batch / microBatches / over))
                          : "";
  return "import nn\n" + outside + "model M() {\n" + lines + "  param scale[" + inputs[0].axes.back() +
         "] ~ normal(0.5)\n  x = first * (1 + 0.3 * scale)\n" + body + head + "}\ntrain t {\n  model M()\n  data npy(" +
         files + ") -> " + names + "\n  batch " + std::to_string(batch) + micro + "\n  steps 3\n  " + optimizer +
         "\n  seed " + std::to_string(seed) + "\n  precision fp64\n" +
         (evaluates() ? "  evaluate held on npy(" + held + ") every 3 steps\n" : "") +
         (evaluates() && averages ? "  average ema(0.5)\n" : "") +
         (packs ? "  compress gradients with " + compress + "\n" : "") + (mesh.empty() ? "" : layout + "  }\n") + "}\n";
}

std::vector<RandomSpec> RandomSpec::simpler() const {
  std::vector<RandomSpec> list;
  auto with = [&](auto change) {
    list.push_back(*this);
    change(list.back());
  };
  for (size_t i = 0; i < pieces.size(); ++i) {
    with([&](RandomSpec &s) { s.pieces.erase(s.pieces.begin() + i); });
    for (size_t j = 0; j < pieces[i].inner.size(); ++j) {
      with([&](RandomSpec &s) { s.pieces[i] = pieces[i].inner[j]; });
      with([&](RandomSpec &s) { s.pieces[i].inner.erase(s.pieces[i].inner.begin() + j); });
    }
  }
  if (mesh.size() > 1)
    for (size_t m = 0; m < mesh.size(); ++m)
      with([&](RandomSpec &s) { s.mesh.erase(s.mesh.begin() + m); });
  for (size_t m = 0; m < mesh.size(); ++m) {
    for (size_t i = 0; i < mesh[m].list.size() && mesh[m].list.size() + mesh[m].stores > 1; ++i)
      with([&](RandomSpec &s) { s.mesh[m].list.erase(s.mesh[m].list.begin() + i); });
    if (mesh[m].stores && !mesh[m].list.empty())
      with([&](RandomSpec &s) { s.mesh[m].stores = false; });
  }
  if (microBatches > 1)
    with([](RandomSpec &s) { s.microBatches = 1; });
  if (averages)
    with([](RandomSpec &s) { s.averages = false; });
  if (!compress.empty())
    with([](RandomSpec &s) { s.compress.clear(); });
  if (optimizer != "optimize sgd(lr = 0.05)")
    with([](RandomSpec &s) { s.optimizer = "optimize sgd(lr = 0.05)"; });
  // axes that went with their pieces are in no list
  for (RandomSpec &s : list) {
    std::vector<std::string> names = s.modelAxes();
    for (MeshLine &line : s.mesh) {
      line.list.erase(std::remove_if(line.list.begin(), line.list.end(),
                                     [&](const std::string &axis) {
                                       std::string name = axis.substr(0, axis.find(' '));
                                       return std::find(names.begin(), names.end(), name) == names.end();
                                     }),
                      line.list.end());
      line.stores |= line.list.empty();
    }
  }
  return list;
}

} // namespace echelon::test
