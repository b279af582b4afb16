// The layout of a random spec: its mesh, what splits what, stages, rings.
#include "test/composition/RandomSpec.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

namespace echelon::test {

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
      if (before.second && before.second + size >= stages.size)
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

/// Now and then two mesh axes split the queries of an attention, one of them with zigzag; keys behind them.
void RandomSpec::drawNested(Random &random) {
  const std::string model = text();
  std::vector<std::pair<std::string, std::string>> choices; // keys, queries
  for (size_t at = model.find(" like "); at != std::string::npos; at = model.find(" like ", at + 1)) {
    const size_t name = model.rfind(' ', at - 1) + 1, end = model.find_first_of(" ;\n", at + 6);
    if (model.compare(name, 4, "past") == 0)
      choices.push_back({model.substr(name, at - name), model.substr(at + 6, end - at - 6)});
  }
  if (choices.empty() || mesh.size() < 2)
    return;
  const auto &[keys, queries] = choices[below(random, choices.size())];
  const size_t zigzag = below(random, 2);
  for (size_t i = 0; i < 2; ++i) { // of others the first alone, else most would be refused
    std::vector<std::string> &list = mesh[i].list, others = std::move(list);
    const std::string way = i == zigzag ? " zigzag" : "";
    list = {queries + way};
    if (below(random, 2))
      list.push_back(keys + way);
    for (const std::string &axis : others)
      if (axis.substr(0, axis.find(' ')) != keys && axis.substr(0, axis.find(' ')) != queries && list.size() < 3)
        list.push_back(axis);
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
  Random nested(seed * 0x9e3779b97f4a7c15u + 7171 + attempt);
  if (attempt < kPlainFrom && !hasPolicy && !hasHop && below(nested, 3) == 0)
    drawNested(nested);
  Random rings(seed * 0x9e3779b97f4a7c15u + 5151 + attempt); // beside what layouts are without
  drawRing(rings);
  Random files(seed * 0x9e3779b97f4a7c15u + 6161 + attempt);
  offloads = below(files, 4) == 0 && keeps(optimizer);
  batch = (ranks % 3 ? 8 : 12) * (ranks * microBatches > 8 ? 2 : 1) * (microBatches == 4 ? 2 : 1);
}

} // namespace echelon::test
