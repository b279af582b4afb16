#include "CollectiveChecks.h"
#include "Ranks.h"

namespace echelon::runtime::test {
namespace {

const std::vector<Algorithm> kAlgorithms = {Algorithm::direct, Algorithm::ring, Algorithm::butterfly, Algorithm::tree,
                                            Algorithm::one_to_all};

struct Case {
  std::string transport;
  int ranks;
  bool isShared; // buffers from Transport::allocate
};
class Collectives : public testing::TestWithParam<Case> {};

// Each collective with each algorithm, type and count gives what a sequential computation gives.
TEST_P(Collectives, EqualTheSequentialResult) {
  onRanks(GetParam().transport, GetParam().ranks, [&](Transport &t) {
    checkGroup(t, t.world(), kAlgorithms, GetParam().isShared,
               GetParam().ranks == 3  ? Extent::Large
               : GetParam().ranks < 5 ? Extent::All
                                      : Extent::Some);
  });
}

// Sums in floating point are the same bits on all ranks and in all runs.
TEST_P(Collectives, GiveTheSameBits) {
  onRanks(GetParam().transport, GetParam().ranks, [&](Transport &t) { checkSameBits(t, t.world(), kAlgorithms); });
}

// A NaN of any rank reaches all through a maximum.
TEST_P(Collectives, KeepNan) {
  onRanks(GetParam().transport, GetParam().ranks, [&](Transport &t) { checkNan(t, t.world(), kAlgorithms); });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int ranks : {1, 2, 3, 4, 5, 8}) {
    all.push_back({"threads", ranks, false});
    all.push_back({"shm", ranks, false});
    all.push_back({"shm", ranks, true});
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
  for (const char *transport : {"threads", "shm"})
    for (const Mesh &mesh : meshes) {
      int ranks = 1;
      for (int size : mesh.sizes)
        ranks *= size;
      onRanks(transport, ranks, [&](Transport &t) {
        std::vector<Group> groups;
        for (const auto &over : mesh.over)
          groups.push_back(t.makeGroup(mesh.sizes, over));
        for (const Group &g : groups)
          checkGroup(t, g, {Algorithm::direct, Algorithm::butterfly}, ranks <= 4, Extent::Some);
      });
    }
}

} // namespace
} // namespace echelon::runtime::test
