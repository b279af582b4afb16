#include "runtime/program/StartValues.h"

#include "runtime/program/Assemble.h"
#include "runtime/program/Offload.h"

#include <algorithm>
#include <vector>

namespace echelon::runtime {

namespace {

template <class T>
void fill(T *to, const Stored &stored, const Layout &layout, const std::vector<std::string> &names, Rank &rank) {
  const Init &init = stored.init;
  const RandomKey key = {rank.seed(), path_hash(stored.path), 0};
  forEachRun(layout, names, rank.program().mesh, rank.coordinates(), [&](const Run &run) {
    const SliceAxis axes[2] = {{1, run.logical, 1}, {run.count, 0, run.stride}};
    auto draw = [&](auto *into) {
      if (init.kind == Init::Normal)
        fill_random(into, key, Distribution::Normal, 0, init.a, axes);
      else
        fill_random(into, key, Distribution::Uniform, init.a, init.b, axes);
    };
    const bool isDrawn = init.kind == Init::Normal || init.kind == Init::Uniform;
    if constexpr (std::is_floating_point_v<T>) {
      if (isDrawn)
        return draw(to + run.local);
    } else if constexpr (isNarrow<T>) { // as fp32, rounded
      if (isDrawn) {
        std::vector<float> wide(run.count);
        draw(wide.data());
        std::transform(wide.begin(), wide.end(), to + run.local, [](float x) { return T(x); });
        return;
      }
    }
    const double value = init.kind == Init::Ones ? 1 : init.kind == Init::Constant ? init.a : 0;
    for (int64_t i = 0; i < run.count; ++i)
      to[run.local + i] = T(value);
  });
}

} // namespace

void fillStartValue(Rank &rank, const Stored &stored) {
  if (!holdsSome(rank, stored.layout))
    return;
  Layout layout = stored.layout;
  std::vector<std::string> names = stored.axes;
  if (stored.isOfWorkers) { // all of them start alike
    layout.axes.erase(layout.axes.begin());
    names.erase(names.begin());
  }
  const int64_t all = localCount(stored.layout, rank.program().mesh), own = localCount(layout, rank.program().mesh);
  std::byte *data = rank.state<std::byte>(stored.offset);
  const bool isOffloaded = rank.offloaded() && rank.offloaded()->holds(data);
  const int64_t bytes = all * int64_t(bytesOf(stored.type));
  if (isOffloaded && stored.init.kind == Init::Zeros)
    return rank.offloaded()->clear(data, bytes);
  visitElement(stored.type, [&](auto zero) {
    for (int64_t at = 0; at < all; at += own)
      fill(rank.state<decltype(zero)>(stored.offset) + at, stored, layout, names, rank);
  });
  if (isOffloaded)
    rank.offloaded()->letGo(data, bytes);
}

void fillStartValues(Rank &rank) {
  for (const Stored &stored : rank.program().stored)
    fillStartValue(rank, stored);
}

} // namespace echelon::runtime
