// The tuner's plugin, loaded and asked as NCCL does.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

struct Plugin { // NCCL's interface of tuners, version 5
  const char *name;
  int (*init)(void **context, uint64_t comm, size_t ranks, size_t nodes, void *, void *, void *);
  int (*getCollInfo)(void *context, int collective, size_t bytes, int, float **times, int algorithms, int protocols,
                     int, int *channels);
  int (*finalize)(void *context);
};
constexpr int kReduceScatter = 3, kAllReduce = 4, kTree = 0, kRing = 1, kSimple = 2;
constexpr int kAlgorithms = 7, kProtocols = 3;

const Plugin &plugin() {
  void *library = dlopen(ECHELON_NCCL_TUNER, RTLD_NOW);
  EXPECT_NE(library, nullptr) << dlerror();
  return *static_cast<const Plugin *>(dlsym(library, "ncclTunerPlugin_v5"));
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
  /// "ring-ll ring-simple 4": what is left to choose from, and the channels if they are said.
  std::string ask(int collective, size_t bytes) const {
    static const char *const algorithms[] = {"tree", "ring", "collnet_direct", "collnet_chain",
                                             "nvls", "nvls_tree", "pat"};
    static const char *const protocols[] = {"ll", "ll128", "simple"};
    float times[kAlgorithms][kProtocols];
    for (int a = 0; a < kAlgorithms; ++a)
      for (int p = 0; p < kProtocols; ++p)
        times[a][p] = a <= kRing && !(a == kTree && p == 1) ? 5 : -1; // tree with ll128: not possible here
    int channels = 0;
    EXPECT_EQ(plugin().getCollInfo(context, collective, bytes, 1, reinterpret_cast<float **>(times), kAlgorithms,
                                   kProtocols, 0, &channels),
              0);
    std::string left;
    for (int a = 0; a < kAlgorithms; ++a)
      for (int p = 0; p < kProtocols; ++p)
        if (times[a][p] >= 0)
          left += std::string(left.empty() ? "" : " ") + algorithms[a] + "-" + protocols[p];
    return channels ? left + " " + std::to_string(channels) : left;
  }
  int status = 0;

private:
  void *context = nullptr;
};

// What a row names is all that NCCL may choose from; what none is about it chooses freely.
TEST(Tuner, NamesAlgorithms) {
  const Communicator c("all_reduce 0 65536 tree; all_reduce 65536 - ring simple 8");
  EXPECT_EQ(c.ask(kAllReduce, 1000), "tree-ll tree-simple");
  EXPECT_EQ(c.ask(kAllReduce, 65536), "ring-simple 8");
  EXPECT_EQ(c.ask(kReduceScatter, 1000), "tree-ll tree-simple ring-ll ring-ll128 ring-simple");
}

// Each communicator has the rows that were said as it was made.
TEST(Tuner, IsOfACommunicator) {
  const Communicator dp("all_reduce 0 - ring"), tp("all_reduce 0 - tree"), none("");
  EXPECT_EQ(dp.ask(kAllReduce, 1000), "ring-ll ring-ll128 ring-simple");
  EXPECT_EQ(tp.ask(kAllReduce, 1000), "tree-ll tree-simple");
  EXPECT_EQ(none.ask(kAllReduce, 1000), "tree-ll tree-simple ring-ll ring-ll128 ring-simple");
}

// What is not possible is left to NCCL.
TEST(Tuner, LeavesTheImpossible) {
  const Communicator c("all_reduce 0 - nvls; reduce_scatter 0 - tree ll128");
  EXPECT_EQ(c.ask(kAllReduce, 1000), "tree-ll tree-simple ring-ll ring-ll128 ring-simple");
  EXPECT_EQ(c.ask(kReduceScatter, 1000), "tree-ll tree-simple ring-ll ring-ll128 ring-simple");
}

// Rows that say nothing NCCL knows are refused: it then fails as the communicator is made.
TEST(Tuner, RefusesWrongRows) {
  for (const char *rows : {"all_reduce", "all_reduce 0 -", "all_rduce 0 - ring", "all_reduce 0 - wheel",
                           "all_reduce 8 8 ring", "all_reduce 0 - ring ll256", "all_reduce 0 - ring ll -1"})
    EXPECT_NE(Communicator(rows).status, 0) << rows;
}

} // namespace
