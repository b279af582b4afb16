// Gathers and scatters on the device against the CPU's, bit by bit: scatters add in the order of the indices.
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/cuda/Gather.h"
#include "test/runtime/kernels/Values.h"

namespace echelon::cuda {
namespace {

using runtime::labels;
using runtime::values;

template <typename T> struct GatherKernel : ::testing::Test {};
TYPED_TEST_SUITE(GatherKernel, runtime::Types);

// Whole tables and parts of them, rows of whole 16 bytes or not.
TYPED_TEST(GatherKernel, Rows) {
  using T = TypeParam;
  underSeeds([] {
    for (int64_t width : {1, 5, 8, 130})
      for (int32_t lo : {0, 7}) {
        const int64_t count = 70;
        const int32_t hi = 19, vocabulary = 25;
        auto table = values<T>((hi - lo) * width, 1);
        auto index = labels(count, vocabulary, 2);
        std::vector<T> expected(count * width);
        runtime::gather_rows(expected.data(), table.data(), index.data(), count, width, lo, hi);
        OnDevice<T> from(table), to(std::vector<T>(count * width));
        OnDevice<int32_t> at(index);
        gather_rows(nullptr, to.get(), from.get(), at.get(), count, width, lo, hi);
        EXPECT_EQ(to.host(), expected);
      }
  });
}

/// With and without a sort.
template <typename T> void compareScatter(std::vector<int32_t> index, int64_t width, int32_t lo, int32_t hi) {
  const int64_t count = static_cast<int64_t>(index.size());
  auto d = values<T>(count * width, 1), table = values<T>((hi - lo) * width, 2);
  auto expected = table;
  runtime::scatter_add_rows(expected.data(), d.data(), index.data(), count, width, lo, hi);
  OnDevice<T> from(d);
  OnDevice<int32_t> at(index);
  OnDevice<unsigned char> scratch(std::vector<unsigned char>(scatter_scratch(count)));
  for (bool sorts : {false, true}) {
    if (!sorts && hi - lo > 1000)
      continue; // it would look through all indices for each row
    OnDevice<T> to(table);
    scatter_add_rows(nullptr, to.get(), from.get(), at.get(), count, width, lo, hi, sorts ? scratch.get() : nullptr);
    EXPECT_EQ(to.host(), expected) << (sorts ? "sorted" : "searched");
  }
}

TYPED_TEST(GatherKernel, ScatteredRows) {
  using T = TypeParam;
  underSeeds([] {
    compareScatter<T>(labels(3, 8, 1), 5, 0, 8);
    compareScatter<T>(labels(700, 13, 2), 3, 0, 13);      // long segments, more than one block of the sort
    compareScatter<T>(labels(700, 300, 3), 140, 17, 290); // two digits, columns beyond a warp's, indices outside
    compareScatter<T>(std::vector<int32_t>(300, 4), 2, 0, 9);
    compareScatter<T>(std::vector<int32_t>(300, 9), 2, 0, 9); // all outside
    compareScatter<T>(labels(600, 70000, 5), 1, 100, 69000);  // three digits
    compareScatter<T>({}, 2, 0, 9);
  });
}

template <typename T>
void compareGather(std::vector<T> source, std::initializer_list<GatherDim> dims,
                   const std::vector<std::vector<int32_t>> &indices, std::vector<GatherIndex> axes) {
  int64_t count = 1;
  for (const GatherDim &dim : dims)
    count *= dim.size;
  auto d = values<T>(count, 9);
  std::vector<T> expected(count), sums = source;
  std::vector<OnDevice<int32_t>> onDevice;
  std::vector<GatherIndex> there = axes;
  for (size_t g = 0; g < axes.size(); ++g) {
    axes[g].index = indices[g].data();
    onDevice.emplace_back(indices[g]);
    there[g].index = onDevice.back().get();
  }
  const auto gatherBoth = [&](auto... g) {
    runtime::gather(expected.data(), source.data(), dims, {axes[g]...});
    runtime::scatter_add(sums.data(), d.data(), dims, {axes[g]...});
    OnDevice<T> from(source), to(std::vector<T>(count, T(7))), added(d);
    gather(nullptr, to.get(), static_cast<const T *>(from.get()), dims, {there[g]...});
    EXPECT_EQ(to.host(), expected);
    OnDevice<unsigned char> scratch(std::vector<unsigned char>(scatter_scratch(dims, {there[g]...})));
    for (void *memory : {static_cast<void *>(nullptr), static_cast<void *>(scratch.get())}) {
      OnDevice<T> target(source);
      scatter_add(nullptr, target.get(), static_cast<const T *>(added.get()), dims, {there[g]...}, memory);
      EXPECT_EQ(target.host(), sums) << (memory ? "sorted" : "one by one");
    }
  };
  if (axes.size() == 1)
    gatherBoth(0);
  else
    gatherBoth(0, 1);
}

TYPED_TEST(GatherKernel, AxesAndRuns) {
  using T = TypeParam;
  underSeeds([] {
    // x[batch, seq, key] at index[batch, slot]: batch is shared, key stays; all of seq, and a part.
    const int64_t batch = 3, seq = 6, key = 4, slot = 50;
    for (int32_t hi : {6, 4})
      compareGather<T>(values<T>(batch * seq * key, 1), {{batch, seq * key}, {slot, 0}, {key, 1}},
                       {labels(batch * slot, seq, 2)}, {{nullptr, {slot, 1, 0}, key, 0, hi}});
    // The gathered axis is the last one, in steps of its own.
    compareGather<T>(values<T>(batch * seq * key, 1), {{batch, seq * key}, {seq, key}, {slot, 0}},
                     {labels(batch * slot, key, 2)}, {{nullptr, {slot, 0, 1}, 1, 0, 4}});
    // A dimension that the source lacks, and no index varies along.
    compareGather<T>(values<T>(seq * key, 1), {{slot, 0}, {key, 1}, {2, 0}}, {labels(slot, seq, 2)},
                     {{nullptr, {1, 0, 0}, key, 0, 6}});
    // Two axes jointly, the second one held in part, the last position included.
    auto columns = labels(90, 6, 3);
    columns.back() = 4;
    compareGather<T>(values<T>(4 * 3, 1), {{90, 0}}, {labels(90, 4, 2), columns},
                     {{nullptr, {1}, 3, 0, 4}, {nullptr, {1}, 1, 2, 5}});
    compareGather<T>(values<T>(seq * key, 1), {{0, 0}, {key, 1}}, {labels(1, seq, 2)}, {{nullptr, {1, 0}, key, 0, 6}});
  });
}

} // namespace
} // namespace echelon::cuda
