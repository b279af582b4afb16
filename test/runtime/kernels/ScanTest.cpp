// Running sums and the k largest.
#include "runtime/kernels/Scan.h"
#include "Values.h"

namespace echelon::runtime {
namespace {

TEST(Cumsum, RunsBothWays) {
  std::vector<double> x = {1, 2, 3, 4, 5, 6}, y(6);
  cumsum(y.data(), x.data(), 1, 6, 1);
  EXPECT_EQ(y, (std::vector<double>{1, 3, 6, 10, 15, 21}));
  cumsum(y.data(), x.data(), 1, 3, 2);
  EXPECT_EQ(y, (std::vector<double>{1, 2, 4, 6, 9, 12}));
  cumsum(x.data(), x.data(), 2, 3, 1, true);
  EXPECT_EQ(x, (std::vector<double>{6, 5, 3, 15, 11, 6}));
  std::vector<int32_t> i = {1, 1, 1};
  cumsum(i.data(), i.data(), 1, 3, 1);
  EXPECT_EQ(i, (std::vector<int32_t>{1, 2, 3}));
}

// The derivative of a running sum is the running sum the other way.
TEST(Cumsum, ReverseIsTheDerivative) {
  auto x = values<double>(2 * 5 * 3, 1), d = values<double>(2 * 5 * 3, 2);
  std::vector<double> dx(x.size());
  cumsum(dx.data(), d.data(), 2, 5, 3, true);
  auto forward = [](const std::vector<double> &v) {
    std::vector<double> y(v.size());
    cumsum(y.data(), v.data(), 2, 5, 3);
    return y;
  };
  expectGradient(x, d, dx, forward, "cumsum");
}

TEST(TopK, LargestFirstLowestIndexAtTies) {
  std::vector<float> x = {1, 5, 5, 3, 9, 5};
  std::vector<int32_t> index(4);
  top_k(index.data(), x.data(), 1, 6, 1, 4);
  EXPECT_EQ(index, (std::vector<int32_t>{4, 1, 2, 5}));
  top_k(index.data(), x.data(), 1, 3, 2, 2); // columns (1, 5, 9) and (5, 3, 5)
  EXPECT_EQ(index, (std::vector<int32_t>{2, 0, 1, 2}));
  x[3] = NAN;
  top_k(index.data(), x.data(), 1, 6, 1, 2);
  EXPECT_EQ(index[0], 3);
  EXPECT_EQ(index[1], 4);
}

} // namespace
} // namespace echelon::runtime
