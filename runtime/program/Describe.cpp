// How a program tells of its tensors: shapes as text.
#include "runtime/launch/Fail.h"
#include "runtime/program/Program.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace echelon::runtime {

namespace {
int meshIndex(const std::vector<MeshAxis> &mesh, const std::string &name) {
  auto at = std::find_if(mesh.begin(), mesh.end(), [&](const MeshAxis &axis) { return axis.name == name; });
  if (at == mesh.end())
    fail("internal error, please report: no mesh axis is called " + name);
  return static_cast<int>(at - mesh.begin());
}

/// Those of the model: an axis "@pp" has one position, which says who holds the tensor.
std::vector<std::string> namesOf(const Layout &layout) {
  std::vector<std::string> names;
  for (const AxisPiece &axis : layout.axes)
    if (axis.name.front() != '@')
      names.push_back(axis.name);
  return names;
}

/// Of "cp:zigzag", of "pp:2", cyclic, and of "pp:1:7,8,8,7", with the sizes of chunks, what is behind the mesh axis.
OwnerMap mapOf(const std::string &text) {
  if (text == "zigzag")
    return OwnerMap::zigzag();
  std::istringstream words(text);
  OwnerMap map;
  char separator = 0;
  words >> map.chunks;
  for (int64_t size = 0; words >> separator >> size;)
    map.sizes.push_back(size);
  return map;
}
} // namespace

Layout layoutOf(const std::vector<MeshAxis> &mesh, const std::string &shape) {
  Layout layout;
  std::istringstream words(shape);
  for (std::string word; words >> word;) {
    if (word == "|") { // flat cuts lie below
      layout.aboveFlat = layout.axes.size();
      continue;
    }
    std::istringstream parts(word);
    std::string head, over;
    std::getline(parts, head, '/');
    std::vector<int> cuts;
    std::vector<OwnerMap> maps;
    while (std::getline(parts, over, '/')) {
      const size_t colon = over.find(':');
      cuts.push_back(meshIndex(mesh, over.substr(0, colon)));
      maps.push_back(colon == std::string::npos ? OwnerMap() : mapOf(over.substr(colon + 1)));
    }
    const size_t equals = head.find('=');
    if (equals == std::string::npos) { // "flat"
      layout.flatCuts = cuts;
      continue;
    }
    const size_t colon = head.find(':', equals);
    layout.axes.push_back({head.substr(0, equals), std::stoll(head.substr(equals + 1)), cuts,
                           colon == std::string::npos ? 0 : std::stoll(head.substr(colon + 1)), maps});
  }
  return layout;
}

void Course::adaptLossScale(bool isGood, bool hasOverflowed) {
  constexpr int64_t patience = 2000, largest = int64_t(1) << 24;
  if (hasOverflowed)
    lossScale = std::max<int64_t>(lossScale / 2, 1);
  goodSteps = isGood ? goodSteps + 1 : 0;
  if (goodSteps >= patience) {
    lossScale = std::min(2 * lossScale, largest);
    goodSteps = 0;
  }
}

bool Until::isMetBy(double measured) const {
  switch (comparison) {
  case Above:
    return measured > value;
  case AtLeast:
    return measured >= value;
  case Below:
    return measured < value;
  case AtMost:
    return measured <= value;
  }
  return false;
}

std::string Until::text() const {
  static const char *const signs[] = {" > ", " >= ", " < ", " <= "};
  char number[40];
  std::snprintf(number, sizeof(number), "%g", value);
  return metric + signs[comparison] + number;
}

void Program::store(Stored::Kind kind, const std::string &path, const std::string &shape, Init init, int64_t offset,
                    ElementType type) {
  Layout layout = layoutOf(mesh, shape);
  stored.push_back({kind, path, namesOf(layout), layout, type, init, offset});
}

/// Each worker has one: an axis before the others. One rank that works for all of them has them in a row.
static void addWorkers(Stored &stored, Program &program) {
  SyncPolicy &sync = program.sync;
  if (sync.meshAxes.empty()) {
    const int64_t bytes = localCount(stored.layout, program.mesh) * int64_t(bytesOf(stored.type));
    const int64_t row = (program.stateBytes + 63) / 64 * 64;
    program.stateBytes = row + sync.workers * bytes;
    sync.rows.push_back({stored.offset, row, bytes});
    stored.offset = row;
  }
  std::string name = "worker";
  while (std::find(stored.axes.begin(), stored.axes.end(), name) != stored.axes.end())
    name += "s";
  stored.axes.insert(stored.axes.begin(), name);
  stored.layout.axes.insert(stored.layout.axes.begin(), {name, sync.workers, sync.meshAxes});
  ++stored.layout.aboveFlat;
  stored.isOfWorkers = true;
}

void Program::storeOfWorkers(const std::string &path, const std::string &shape, Init init, int64_t offset,
                             ElementType type) {
  store(Stored::Optimizer, path, shape, init, offset, type);
  addWorkers(stored.back(), *this);
}

/// Stored tensors as the parameters are, `bytes` after them.
static void storeLikeParams(std::vector<Stored> &stored, Stored::Kind kind, const std::string &prefix, int64_t bytes) {
  const std::vector<Stored> known = stored;
  for (const Stored &param : known)
    if (param.kind == Stored::Param) {
      Stored other = param;
      other.kind = kind;
      other.path = prefix + param.path;
      other.init = {};
      other.offset += bytes;
      stored.push_back(other);
    }
}

void Program::storeMoments(const std::string &name, int64_t bytes) {
  const size_t before = stored.size();
  storeLikeParams(stored, Stored::Optimizer, "optimizer." + name + ".", bytes);
  if (sync.kind == SyncPolicy::Local && (sync.workers > 1 || !sync.meshAxes.empty()) && name != "outer_momentum")
    for (size_t i = before; i < stored.size(); ++i)
      addWorkers(stored[i], *this);
}

void Program::storeAverages(int64_t bytes) { storeLikeParams(stored, Stored::Average, "average.", bytes); }

void Program::take(const std::string &name, int output, const std::string &shape, ElementType type, int64_t below,
                   const std::vector<PlaceOfInput> &places) {
  Layout whole = layoutOf({}, shape);
  Input input{name, output, namesOf(whole), {}, type, below, {}};
  for (const AxisPiece &axis : whole.axes)
    input.sizes.push_back(axis.size);
  for (const PlaceOfInput &place : places)
    input.places.push_back({layoutOf(mesh, place.shape), type, place.offset, place.renamed});
  inputs.push_back(input);
}

} // namespace echelon::runtime
