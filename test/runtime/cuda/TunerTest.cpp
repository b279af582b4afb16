// The tuner's plugin, loaded and asked as NCCL does.
#include "runtime/cuda/tuner/Plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

using echelon::cuda::TunerPlugin;
constexpr int kAllGather = 2, kReduceScatter = 3, kAllReduce = 4, kTree = 0, kRing = 1;
constexpr int kAlgorithms = 7, kProtocols = 3;

const TunerPlugin &plugin() {
  void *library = dlopen(ECHELON_NCCL_TUNER, RTLD_NOW);
  EXPECT_NE(library, nullptr) << dlerror();
  return *static_cast<const TunerPlugin *>(dlsym(library, "ncclTunerPlugin_v5"));
}

/// A communicator that is made while these rows are said.
class Communicator {
public:
  explicit Communicator(const char *rows) {
    setenv("ECHELON_TUNER", rows, 1);
    status = plugin().init(&context, 1, 8, 1, nullptr, nullptr, nullptr);
    unsetenv("ECHELON_TUNER");
  }
  ~Communicator() {
    if (status == 0)
      plugin().finalize(context);
  }
  /// "ring-ll ring-simple": what is left to choose from.
  std::string ask(int collective, bool hasTree = true, size_t bytes = 1000) {
    static const char *const algorithms[] = {"tree", "ring"};
    static const char *const protocols[] = {"ll", "ll128", "simple"};
    float times[kAlgorithms][kProtocols];
    for (int a = 0; a < kAlgorithms; ++a)
      for (int p = 0; p < kProtocols; ++p) // tree with ll128 is never possible
        times[a][p] = a == kRing || (a == kTree && hasTree && p != 1) ? 5 : -1;
    channels = 0;
    EXPECT_EQ(plugin().getCollInfo(context, collective, bytes, 1, reinterpret_cast<float **>(times), kAlgorithms,
                                   kProtocols, 0, &channels),
              0);
    std::string left;
    for (int a = 0; a <= kRing; ++a)
      for (int p = 0; p < kProtocols; ++p)
        if (times[a][p] >= 0)
          left += std::string(left.empty() ? "" : " ") + algorithms[a] + "-" + protocols[p];
    return left;
  }
  int status = 0;
  int channels = 0; ///< that were named at the last question; 0: none

private:
  void *context = nullptr;
};

// What a row names is all that NCCL may choose from; what none is about it chooses freely.
TEST(Tuner, NamesAlgorithms) {
  Communicator c("all_reduce tree; all_gather ring");
  EXPECT_EQ(c.ask(kAllReduce), "tree-ll tree-simple");
  EXPECT_EQ(c.ask(kAllGather), "ring-ll ring-ll128 ring-simple");
  EXPECT_EQ(c.ask(kReduceScatter), "tree-ll tree-simple ring-ll ring-ll128 ring-simple");
}

// Each communicator has the rows that were said as it was made.
TEST(Tuner, IsOfACommunicator) {
  Communicator dp("all_reduce ring"), tp("all_reduce tree"), none("");
  EXPECT_EQ(dp.ask(kAllReduce), "ring-ll ring-ll128 ring-simple");
  EXPECT_EQ(tp.ask(kAllReduce), "tree-ll tree-simple");
  EXPECT_EQ(none.ask(kAllReduce), "tree-ll tree-simple ring-ll ring-ll128 ring-simple");
}

// What is not possible is left to NCCL.
TEST(Tuner, LeavesTheImpossible) {
  Communicator c("all_reduce tree");
  EXPECT_EQ(c.ask(kAllReduce, /*hasTree=*/false), "ring-ll ring-ll128 ring-simple");
  Communicator protocol("all_reduce tree ll128 0 0"); // which this table has not
  EXPECT_EQ(protocol.ask(kAllReduce), "tree-ll tree-simple ring-ll ring-ll128 ring-simple");
}

// Rows of a collective hold up to their bytes, the first one that fits, and name protocol and channels.
TEST(Tuner, GoesByBytes) {
  Communicator c("all_reduce ring ll 2 65536; all_reduce any ll128 0 1000000; all_reduce tree simple 0 0");
  EXPECT_EQ(c.ask(kAllReduce, true, 65536), "ring-ll");
  EXPECT_EQ(c.channels, 2);
  EXPECT_EQ(c.ask(kAllReduce, true, 65537), "ring-ll128");
  EXPECT_EQ(c.channels, 0);
  EXPECT_EQ(c.ask(kAllReduce, true, 1000001), "tree-simple");
  EXPECT_EQ(c.ask(kAllGather, true, 1000), "tree-ll tree-simple ring-ll ring-ll128 ring-simple");
}

// Rows that say nothing NCCL knows are refused: it then fails as the communicator is made.
TEST(Tuner, RefusesWrongRows) {
  for (const char *rows :
       {"all_reduce", "all_rduce ring", "all_reduce wheel", "all_reduce ring simple", "all_reduce ring simple 0",
        "any ring", "all_reduce ring fast 0 0", "all_reduce ring simple -1 0", "all_reduce ring ll 0 0 0"})
    EXPECT_NE(Communicator(rows).status, 0) << rows;
}

} // namespace
