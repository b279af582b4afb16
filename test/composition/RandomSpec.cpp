// What of a spec is drawn, how it is printed, and what is simpler.
#include "test/composition/RandomSpec.h"

#include <algorithm>
#include <map>
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
  if (seed % 4 == 2) // what zigzag and blocks divide in turn
    family.places = 8;
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

bool splitsBatch(const std::string &entry) { return entry.substr(0, entry.find(' ')) == "batch"; }

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

bool RandomSpec::evaluates() const { return !any(pieces, &Piece::allSamples); }

/// Whether a loop of the model has parameters: a call with a name, or its own.
static bool hasLoopOfParams(const std::string &body) {
  for (size_t at = body.find("  repeat ly"); at != std::string::npos; at = body.find("  repeat ly", at + 1)) {
    const std::string inside = body.substr(at, body.find("\n  }", at) - at);
    if (inside.find(") as ") != std::string::npos || inside.find("param ") != std::string::npos)
      return true;
  }
  return false;
}

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
  const bool takesParams = seed % 3 && !onGpu && !clause("sync") && hasLoopOfParams(body);
  if (offloads)
    layout += std::string("    offload optimizer") + (takesParams ? ", params" : "") + " to " +
              (onGpu && seed % 2 ? "host\n" : "\".\"\n");
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
