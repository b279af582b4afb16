#include "CollectiveChecks.h"
#include "Ranks.h"

namespace echelon::runtime::test {
namespace {

std::vector<Algorithm> algorithmsOf(const Transport &t) {
  return {ownAlgorithm(t), Algorithm::ring, Algorithm::butterfly, Algorithm::tree, Algorithm::one_to_all};
}

struct Case {
  std::string transport;
  int ranks;
  bool isShared; // buffers from Transport::allocate
};
class Collectives : public testing::TestWithParam<Case> {};

// Each collective with each algorithm, type and count gives what a sequential computation gives; long messages on three
// ranks, where they are copied from place to place and where they go through sockets.
TEST_P(Collectives, EqualTheSequentialResult) {
  onRanks(GetParam().transport, GetParam().ranks, [&](Transport &t) {
    checkGroup(t, t.world(), algorithmsOf(t), GetParam().isShared,
               GetParam().ranks == 3 && (GetParam().isShared || GetParam().transport == "tcp") ? Extent::Large
               : GetParam().ranks < 5                                                          ? Extent::All
                                                                                               : Extent::Some);
  });
}

// Sums in floating point are the same bits on all ranks and in all runs.
TEST_P(Collectives, GiveTheSameBits) {
  onRanks(GetParam().transport, GetParam().ranks, [&](Transport &t) { checkSameBits(t, t.world(), algorithmsOf(t)); });
}

// A NaN of any rank reaches all through a maximum.
TEST_P(Collectives, KeepNan) {
  onRanks(GetParam().transport, GetParam().ranks, [&](Transport &t) { checkNan(t, t.world(), algorithmsOf(t)); });
}

// Summands that travel in two bytes: rounded once, also a place's own, and added up in floats in order of places. In
// place, in rows, in runs, at once and started.
template <class N> void checkRoundedSums(Transport &t, Algorithm algorithm, int64_t count) {
  const Group &g = t.world();
  const int p = g.size();
  auto value = [&](int rank, int64_t i) { return 1.0f + 0.37f * float(rank) + 0.0123f * float(i % 1009); };
  auto sumAt = [&](int64_t i) {
    if (p == 1)
      return value(0, i);
    float sum = float(N(value(0, i)));
    for (int rank = 1; rank < p; ++rank)
      sum += float(N(value(rank, i)));
    return sum;
  };
  auto expect = [&](const char *what, float got, float wanted) {
    if (got != wanted)
      throw std::string(what) + ": " + std::to_string(got) + ", not " + std::to_string(wanted);
  };
  auto own = [&](int64_t n) {
    std::vector<float> values(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      values[size_t(i)] = value(g.index, i);
    return values;
  };
  for (bool isStarted : {false, true}) {
    std::vector<float> data = own(count);
    if (isStarted)
      all_reduce_start(t, g, data.data(), count, Sum, algorithm).wait();
    else
      all_reduce(t, g, data.data(), count, Sum, algorithm);
    for (int64_t i = 0; i < count; ++i)
      expect("all_reduce", data[size_t(i)], sumAt(i));
    const std::vector<float> rows = own(p * count);
    std::vector<float> out(static_cast<size_t>(count));
    if (isStarted)
      reduce_scatter_start(t, g, out.data(), rows.data(), count, Sum, algorithm).wait();
    else
      reduce_scatter(t, g, out.data(), rows.data(), count, Sum, algorithm);
    for (int64_t i = 0; i < count; ++i)
      expect("reduce_scatter", out[size_t(i)], sumAt(g.index * count + i));
    if (count % 3)
      continue;
    reduce_scatter_inner(t, g, out.data(), rows.data(), 3, count / 3, Sum, algorithm);
    for (int64_t i = 0; i < count; ++i)
      expect("reduce_scatter_inner", out[size_t(i)],
             sumAt((i / (count / 3) * p + g.index) * (count / 3) + i % (count / 3)));
  }
}
TEST_P(Collectives, RoundSummands) {
  onRanks(GetParam().transport, GetParam().ranks, [&](Transport &t) {
    for (int64_t count : {1, 3, 7, 30000}) {
      checkRoundedSums<bf16>(t, Algorithm::bf16_summands, count);
      checkRoundedSums<fp16>(t, Algorithm::fp16_summands, count);
    }
  });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int ranks : {1, 2, 3, 4, 5, 8}) {
    all.push_back({"threads", ranks, false});
    all.push_back({"shm", ranks, false});
    all.push_back({"shm", ranks, true});
    all.push_back({"tcp", ranks, false});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, Collectives, testing::ValuesIn(cases()), [](const auto &info) {
  return info.param.transport + std::to_string(info.param.ranks) + (info.param.isShared ? "Shared" : "");
});

// Groups over the axes of a mesh: rows, columns and both, side by side.
TEST(GroupCollectives, OverMeshAxes) {
  struct Mesh {
    std::vector<int> sizes;
    std::vector<std::vector<int>> over;
  };
  const std::vector<Mesh> meshes = {
      {{2, 2}, {{0}, {1}, {0, 1}}}, {{2, 3}, {{0}, {1}, {0, 1}}}, {{2, 2, 2}, {{0, 2}, {1}, {1, 2}}}};
  for (const char *transport : {"threads", "shm", "tcp"})
    for (const Mesh &mesh : meshes) {
      int ranks = 1;
      for (int size : mesh.sizes)
        ranks *= size;
      onRanks(transport, ranks, [&](Transport &t) {
        std::vector<Group> groups;
        for (const auto &over : mesh.over)
          groups.push_back(t.makeGroup(mesh.sizes, over));
        for (const Group &g : groups)
          checkGroup(t, g, {ownAlgorithm(t), Algorithm::butterfly}, ranks <= 4, Extent::Some);
      });
    }
}

} // namespace
} // namespace echelon::runtime::test
