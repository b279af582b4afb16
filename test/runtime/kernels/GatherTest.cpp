// Gathers and scatters, whole and split tables, one axis and several.
#include "runtime/kernels/Gather.h"
#include "Values.h"

namespace echelon::runtime {
namespace {

template <typename T> struct Gather : ::testing::Test {};
TYPED_TEST_SUITE(Gather, Types);

// Two halves of a table, summed over ranks, are the whole table's rows; scattering fills each half's part.
TYPED_TEST(Gather, SplitRowsEqualTheWhole) {
  using T = TypeParam;
  const int64_t count = 9, width = 5, vocab = 8;
  auto table = values<T>(vocab * width, 1), d = values<T>(count * width, 2);
  auto index = labels(count, vocab, 3);
  std::vector<T> whole(count * width), part(count * width), sum(count * width), dWhole(vocab * width),
      dSplit(vocab * width);
  gather_rows(whole.data(), table.data(), index.data(), count, width, 0, vocab);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < width; ++j)
      ASSERT_EQ(whole[i * width + j], table[index[i] * width + j]);
  scatter_add_rows(dWhole.data(), d.data(), index.data(), count, width, 0, vocab);
  std::vector<T> expected(vocab * width);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < width; ++j)
      expected[index[i] * width + j] += d[i * width + j];
  EXPECT_EQ(dWhole, expected);
  for (int32_t lo : {0, 4}) {
    gather_rows(part.data(), table.data() + lo * width, index.data(), count, width, lo, lo + 4);
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] += part[i];
    scatter_add_rows(dSplit.data() + lo * width, d.data(), index.data(), count, width, lo, lo + 4);
  }
  EXPECT_EQ(sum, whole);
  EXPECT_EQ(dSplit, dWhole);
}

// x[batch, seq, key] picked at index[batch, slot] along seq: batch is shared, key stays.
TYPED_TEST(Gather, SharedAxesAreMatched) {
  using T = TypeParam;
  const int64_t batch = 2, seq = 4, key = 3, slot = 5;
  auto x = values<T>(batch * seq * key, 1), d = values<T>(batch * slot * key, 2);
  auto index = labels(batch * slot, seq, 3);
  std::vector<T> out(batch * slot * key), dx(x.size()), expected(x.size());
  gather(out.data(), x.data(), {{batch, seq * key}, {slot, 0}, {key, 1}},
         {{index.data(), {slot, 1, 0}, key, 0, int32_t(seq)}});
  scatter_add(dx.data(), d.data(), {{batch, seq * key}, {slot, 0}, {key, 1}},
              {{index.data(), {slot, 1, 0}, key, 0, int32_t(seq)}});
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t s = 0; s < slot; ++s)
      for (int64_t k = 0; k < key; ++k) {
        int64_t from = (b * seq + index[b * slot + s]) * key + k, to = (b * slot + s) * key + k;
        ASSERT_EQ(out[to], x[from]);
        expected[from] += d[to];
      }
  EXPECT_EQ(dx, expected);
}

// Two axes gathered jointly, the indices varying along the innermost dimension; the second one held in part.
TYPED_TEST(Gather, SeveralAxesJointly) {
  using T = TypeParam;
  const int64_t rows = 4, columns = 6, count = 20;
  auto x = values<T>(rows * 3, 1); // columns 2 to 5
  auto r = labels(count, rows, 2), c = labels(count, columns, 3);
  std::vector<T> out(count), dx(x.size()), expected(x.size());
  gather(out.data(), x.data(), {{count, 0}}, {{r.data(), {1}, 3, 0, 4}, {c.data(), {1}, 1, 2, 5}});
  std::vector<T> ones(count, T(1));
  scatter_add(dx.data(), ones.data(), {{count, 0}}, {{r.data(), {1}, 3, 0, 4}, {c.data(), {1}, 1, 2, 5}});
  for (int64_t i = 0; i < count; ++i) {
    bool here = c[i] >= 2 && c[i] < 5;
    ASSERT_EQ(out[i], here ? x[r[i] * 3 + c[i] - 2] : T(0));
    if (here)
      expected[r[i] * 3 + c[i] - 2] += 1;
  }
  EXPECT_EQ(dx, expected);
}

} // namespace
} // namespace echelon::runtime
