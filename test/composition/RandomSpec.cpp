// What of a spec is drawn, how it is printed, and what is simpler.
#include "test/composition/RandomSpec.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

namespace echelon::test {

namespace {

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
  choose(text, &random);
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
  piece.hasLargeNumbers = text.find("e9") != std::string::npos;
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

/// Those of the model itself that products read, by their names; else any.
static std::vector<std::string> factorsIn(const std::string &body) {
  std::vector<std::string> names;
  std::istringstream words(body);
  for (std::string before, word; words >> word && word != "repeat"; before = word) // inside, names are longer
    if (before == "param" && (word[0] == 'w' || word[0] == 'v' || word.rfind("out", 0) == 0))
      names.push_back(word.substr(0, word.find('[')));
  return names.empty() ? std::vector<std::string>{"*"} : names;
}

RandomSpec::RandomSpec(uint64_t seed, bool withClauses) : seed(seed) {
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
  choose(optimizer, &random);
  const bool averages = below(random, 4) == 0;
  Random others(seed);
  if (withClauses) {
    prepareFor(drawClauses(seed, others));
  } else {
    // Of the packings the one that is linear and divides by nothing: others jump at ties and at 0, where models by
    // chance have gradients that are nothing but rounding.
    if (seed % 5 == 0 && !any(pieces, &Piece::batchStatistics))
      clauses.push_back(drawClause("compress randomk", others));
    if (averages)
      clauses.push_back(drawClause("average ema", others));
  }
  if (below(random, 3) == 0 && !any(pieces, &Piece::batchStatistics))
    microBatches = below(random, 3) ? 2 : 4;
  if (std::any_of(clauses.begin(), clauses.end(), needsWholeBatch))
    microBatches = 1;
  drawLayout(0);
}

/// Takes clauses, and out of the model what does not go with them.
void RandomSpec::prepareFor(const std::vector<Clause> &drawn) {
  clauses = drawn;
  auto leaveOut = [&](bool Piece::*what) {
    pieces.erase(std::remove_if(pieces.begin(), pieces.end(), [&](const Piece &piece) { return any({piece}, what); }),
                 pieces.end());
  };
  if (std::any_of(clauses.begin(), clauses.end(), needsOwnSamples))
    leaveOut(&Piece::batchStatistics);
  if (std::any_of(clauses.begin(), clauses.end(), needsEvaluation))
    leaveOut(&Piece::allSamples);
  if (std::any_of(clauses.begin(), clauses.end(), needsSmallNumbers))
    leaveOut(&Piece::hasLargeNumbers);
}

const Clause *RandomSpec::clause(const std::string &group) const {
  auto found = std::find_if(clauses.begin(), clauses.end(), [&](const Clause &c) { return c.group() == group; });
  return found == clauses.end() ? nullptr : &*found;
}

std::vector<std::string> RandomSpec::clauseNames() const {
  std::vector<std::string> names;
  for (const Clause &clause : clauses)
    names.push_back(clause.name);
  if (microBatches > 1)
    names.push_back(kMicroBatches);
  for (const char *what : {kStoreOptimizer, kStoreGradients, kStoreParams})
    if (std::any_of(mesh.begin(), mesh.end(), [&](const MeshLine &line) {
          const std::string stored = std::string(what).substr(sizeof("store"));
          return line.stores && std::count(line.stored.begin(), line.stored.end(), stored) > 0;
        }))
      names.push_back(what);
  if (hasLocal(clauses) && clause("compress"))
    names.push_back(kDeltas);
  return names;
}

/// Gradients come to be stale after as many updates as there are workers; a loss scale halves some times at first.
int64_t RandomSpec::steps() const {
  const Clause *sync = clause("sync"), *precision = clause("precision");
  if (hasLocal(clauses))
    return 7;
  if (sync)
    return 3 + 2 * workersOf(*sync).count;
  if (precision && precision->name == "precision fp16_dynamic")
    return 8;
  return clause("until") ? 6 : 3;
}

/// A multiple of the steps from one meeting of local workers to the next.
int64_t RandomSpec::evaluatesEvery() const { return hasLocal(clauses) ? 6 : 3; }

static bool splitsBatch(const std::string &entry) { return entry.substr(0, entry.find(' ')) == "batch"; }

/// Of a policy the outermost that split samples alone, of a hop those that split samples first.
WorkerAxes RandomSpec::workersOf(const Clause &clause) const {
  WorkerAxes workers;
  workers.areNamed = workerLines > 0;
  for (const MeshLine &line : mesh) {
    const bool is =
        !line.list.empty() && splitsBatch(line.list.front()) && (!needsWorkers(clause) || line.list.size() == 1);
    if ((workers.areNamed && int(workers.names.size()) == workerLines) || (!is && needsWorkers(clause)))
      break;
    if (is) {
      workers.names.push_back(line.name);
      workers.count *= line.size;
    }
  }
  return workers;
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
    if (used.erase(name)) // blocks may declare one name twice
      names.push_back(name);
  return names;
}

/// " as (2, 1, 3)", " as balanced": one part each of so many iterations; nothing where they can be equal, and are.
static std::string drawParts(Random &random, int64_t iterations, int64_t parts) {
  if (iterations % parts == 0 && below(random, 2))
    return "";
  if (below(random, 3) == 0)
    return " as balanced";
  std::vector<int64_t> counts(size_t(parts), 1);
  for (int64_t left = iterations - parts; left > 0; --left)
    ++counts[below(random, counts.size())];
  std::string text;
  for (int64_t n : counts)
    text += (text.empty() ? " as (" : ", ") + std::to_string(n);
  return text + ")";
}

/// Of the repeats of the model itself, one in stages over one of the mesh axes that are not larger, or two that follow
/// each other in one row. Where samples are a policy's or travel packed, it is a mesh axis that splits none.
void RandomSpec::drawStages(Random &random) {
  const bool hasWorkers = clause("sync") || clause("compress");
  const bool hasGroups = clause("recompute") && clause("recompute")->name == "recompute every"; // which divide parts
  struct Choice {
    MeshLine *line;
    std::string axis;
    int64_t iterations;
  };
  std::vector<Choice> choices;
  std::pair<std::string, int64_t> before; // the repeat before
  std::istringstream lines(text());
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word, axis, equal;
    int64_t size = 0;
    if (line.rfind("  repeat ", 0) != 0 || !(words >> word >> axis >> equal >> size))
      continue;
    for (MeshLine &stages : mesh) {
      if (hasWorkers && std::any_of(stages.list.begin(), stages.list.end(), splitsBatch))
        continue;
      if (size >= stages.size)
        choices.push_back({&stages, axis, size});
      if (!hasWorkers && !hasGroups && !onGpu && before.second && before.second + size >= stages.size)
        choices.push_back({&stages, before.first + " then " + axis, before.second + size});
    }
    before = {axis, size};
  }
  if (choices.empty())
    return;
  const Choice &choice = choices[below(random, choices.size())];
  static const char *ways[] = {"", " 1f1b", " gpipe", " zero_bubble"};
  std::string way = ways[below(random, std::size(ways))];
  int64_t parts = choice.line->size;
  if (choice.iterations >= 2 * parts && below(random, 2)) {
    way = " interleaved(2)";
    parts *= 2;
  }
  if (hasGroups && choice.iterations % parts != 0)
    return;
  choice.line->list = {choice.axis + way + (hasGroups ? "" : drawParts(random, choice.iterations, parts))};
}

/// Where a mesh axis splits queries and, behind them, keys of an attention, these may go round.
void RandomSpec::drawRing(Random &random) {
  if (onGpu)
    return;
  const std::string model = text();
  for (MeshLine &line : mesh) {
    auto placeOf = [&](const std::string &axis) {
      return std::find_if(line.list.begin(), line.list.end(),
                          [&](const std::string &listed) { return listed == axis || listed == axis + " zigzag"; });
    };
    for (size_t at = model.find(" like "); at != std::string::npos; at = model.find(" like ", at + 1)) {
      const size_t name = model.rfind(' ', at - 1) + 1, end = model.find_first_of(" ;\n", at + 6);
      const std::string keys = model.substr(name, at - name), queries = model.substr(at + 6, end - at - 6);
      const auto first = placeOf(queries);
      if (keys.rfind("past", 0) == 0 && first != line.list.end() && placeOf(keys) > first &&
          placeOf(keys) != line.list.end() && first == line.list.begin())
        line.ring = below(random, 2);
    }
  }
}

/// Whether it has moments.
static bool keeps(const std::string &optimizer) {
  return optimizer.find("sgd") == std::string::npos || optimizer.find("momentum") != std::string::npos;
}

/// From this attempt on a mesh axis splits one axis at most, which seldom is refused.
static constexpr int kPlainFrom = 8;

void RandomSpec::drawLayout(int attempt) {
  Random random(seed * 0x9e3779b97f4a7c15u + 777 + attempt);
  Random others(seed * 0x9e3779b97f4a7c15u + 4242 + attempt); // zigzag and stages, beside what layouts are without
  static const std::vector<std::vector<int64_t>> meshes{{2}, {2}, {4}, {3}, {2, 2}, {2, 2}, {2, 3}, {4, 2}, {2, 2, 2}};
  mesh.clear();
  std::vector<std::string> names = modelAxes();
  std::vector<int64_t> sizes = meshes[below(random, meshes.size())];
  const bool hasPolicy = clause("sync"), hasHop = clause("compress");
  size_t workers = 0; // mesh axes of a policy's
  workerLines = 0;
  if (hasPolicy || hasHop) {
    workers = hasPolicy ? 1 + (sizes.size() > 1 && below(random, 4) == 0) : 0;
    workerLines = int(below(random, 2) * std::max<size_t>(workers, 1));
  }
  int64_t ranks = 1;
  for (int64_t size : sizes) {
    MeshLine line{std::string(1, char('a' + mesh.size())), size, {}, below(random, 3) == 0};
    std::vector<std::string> order = names;
    std::shuffle(order.begin(), order.end(), random);
    if (below(random, 3) == 0 || (hasHop && mesh.empty()))
      order.insert(order.begin(), "batch"), order.erase(std::find(order.begin() + 1, order.end(), "batch"));
    order.resize(std::min<size_t>(order.size(), below(random, 6) + (hasHop && mesh.empty())));
    if (mesh.size() < workers) {
      order = {"batch"};
      line.stores = false;
    } else if ((hasPolicy && !workerLines) || (hasHop && order.size() > 1 && order.front() != "batch")) {
      order.erase(std::remove(order.begin(), order.end(), "batch"), order.end());
    }
    if (attempt >= kPlainFrom && order.size() > 1)
      order.resize(1);
    for (std::string &axis : order)
      if (below(random, 8) == 0 && !(hasPolicy && axis == "batch"))
        axis += " padded";
      else if (seed % 4 == 0 && below(others, 3) == 0 && axis != "batch")
        axis += " zigzag";
    line.list = order;
    line.stores |= order.empty();
    static const std::vector<std::string> kStored[] = {
        {"optimizer"}, {"optimizer", "gradients"}, {"optimizer", "gradients", "params"}, {"params"}, {"gradients"}};
    line.stored = kStored[(seed + uint64_t(attempt) + mesh.size()) % std::size(kStored)];
    mesh.push_back(line);
    ranks *= size;
  }
  if (attempt < kPlainFrom && seed % 2 == 0 && below(others, 2)) // of odd ones, loops' gradients travel alone
    drawStages(others);
  Random rings(seed * 0x9e3779b97f4a7c15u + 5151 + attempt); // beside what layouts are without
  drawRing(rings);
  Random files(seed * 0x9e3779b97f4a7c15u + 6161 + attempt);
  offloads = below(files, 4) == 0 && keeps(optimizer);
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
  std::string more;
  for (const Clause &clause : clauses) {
    if (body.find(clause.model) == std::string::npos) // two clauses may act on one piece
      body += clause.model;
    if (!needsEvaluation(clause) || evaluates())
      more += print(clause, workersOf(clause), factorsIn(body));
  }
  if (!clause("precision"))
    more += "  precision fp64\n";
  int64_t over = 1;
  for (const MeshLine &line : mesh) {
    layout += (layout.empty() ? "" : ", ") + line.name + " = " + std::to_string(line.size);
    for (const std::string &axis : line.list)
      over *= axis.rfind("batch", 0) == 0 ? line.size : 1;
  }
  layout = "  layout mesh(" + layout + ") {\n";
  for (const MeshLine &line : mesh) {
    for (const std::string &axis : line.list) {
      const size_t chained = axis.rfind(" then "); // repeats in a row
      const size_t way = axis.find(' ', chained == std::string::npos ? 0 : chained + 6);
      layout += "    split " + axis.substr(0, way) + " over " + line.name +
                (way == std::string::npos            ? ""
                 : axis.substr(way) == " padded"     ? " with padding"
                 : axis.compare(way, 4, " as ") == 0 ? axis.substr(way)
                                                     : " with" + axis.substr(way)) +
                (line.ring && &axis == &line.list.front() ? " with ring\n" : "\n");
    }
    if (line.stores)
      for (const std::string &what : line.stored)
        layout += "    store " + what + " over " + line.name + "\n";
  }
  if (offloads)
    layout += onGpu && seed % 2 ? "    offload optimizer to host\n" : "    offload optimizer to \".\"\n";
  std::string micro = microBatches > 1
                          ? " in micro batches of " + std::to_string(std::max<int64_t>(1, batch / microBatches / over))
                          : "";
  return "import nn\n" + outside + "model M() {\n" + lines + "  param scale[" + inputs[0].axes.back() +
         "] ~ normal(0.5)\n  x = first * (1 + 0.3 * scale)\n" + body + head + "}\ntrain t {\n  model M()\n  data npy(" +
         files + ") -> " + names + "\n  batch " + std::to_string(batch) + micro + "\n  steps " +
         std::to_string(steps()) + "\n  " + optimizer + "\n  seed " + std::to_string(seed) + "\n" +
         (evaluates() ? "  evaluate held on npy(" + held + ") every " + std::to_string(evaluatesEvery()) + " steps\n"
                      : "") +
         more + (mesh.empty() ? "" : layout + "  }\n") + "}\n";
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
    if (mesh[m].ring)
      with([&](RandomSpec &s) { s.mesh[m].ring = false; });
    if (mesh[m].stores && mesh[m].stored.size() > 1)
      for (size_t i = 0; i < mesh[m].stored.size(); ++i)
        with([&](RandomSpec &s) { s.mesh[m].stored.erase(s.mesh[m].stored.begin() + i); });
  }
  if (microBatches > 1)
    with([](RandomSpec &s) { s.microBatches = 1; });
  for (size_t i = 0; i < clauses.size(); ++i) {
    with([&](RandomSpec &s) { s.clauses.erase(s.clauses.begin() + i); });
    if (clauses[i].text != clauses[i].plain)
      with([&](RandomSpec &s) { s.clauses[i].text = clauses[i].plain; });
  }
  if (workerLines)
    with([](RandomSpec &s) { s.workerLines = 0; });
  if (offloads)
    with([](RandomSpec &s) { s.offloads = false; });
  if (optimizer != "optimize sgd(lr = 0.05)")
    with([](RandomSpec &s) {
      s.optimizer = "optimize sgd(lr = 0.05)";
      s.offloads = false;
    });
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
