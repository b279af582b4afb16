// Norms against plain loops and differences; pieces against the whole.
#include "runtime/kernels/Normalize.h"
#include "Values.h"

namespace echelon::runtime {
namespace {

constexpr double kEps = 1e-5;
template <typename T> struct Normalize : ::testing::Test {};
TYPED_TEST_SUITE(Normalize, Types);

TYPED_TEST(Normalize, RowsMatchTheReference) {
  using T = TypeParam;
  for (int64_t rows : {1, 4})
    for (int64_t n : {1, 5, 128, 700, 9000}) { // the last in pieces
      auto x = values<T>(rows * n, 1);
      for (T &v : x)
        v = v * 3 + 100; // a mean far from 0
      std::vector<T> y(x.size()), rstd(rows), expected(x.size()), expectedRstd(rows), mean(rows), variance(rows);
      normalize(y.data(), rstd.data(), x.data(), rows, n, kEps, mean.data(), variance.data());
      reference::normalize(expected.data(), expectedRstd.data(), x.data(), 1, rows, n, kEps, true);
      expectClose(y, expected, "layer", 3);
      if (n > 1)
        expectClose(rstd, expectedRstd, "rstd");
      for (int64_t r = 0; r < rows; ++r)
        EXPECT_NEAR(rstd[r] * std::sqrt(variance[r] + kEps), 1, tolerance<T>());
      rms_normalize(y.data(), rstd.data(), x.data(), rows, n, kEps);
      reference::normalize(expected.data(), expectedRstd.data(), x.data(), 1, rows, n, kEps, false);
      expectClose(y, expected, "rms");
      expectClose(rstd, expectedRstd, "rms rstd");
    }
}

TYPED_TEST(Normalize, StatisticsOfChannelsMatchTheReference) {
  using T = TypeParam;
  for (int64_t outer : {1, 6})
    for (int64_t channels : {1, 3, 300})
      for (int64_t inner : {1, 4, 50, channels == 3 ? 5000 : 17}) { // 5000: in pieces
        auto x = values<T>(outer * channels * inner, 1);
        std::vector<T> y(x.size()), rstd(channels), mean(channels), variance(channels), expected(x.size()),
            expectedRstd(channels);
        channel_statistics(rstd.data(), x.data(), outer, channels, inner, kEps, mean.data(), variance.data());
        reference::normalize(expected.data(), expectedRstd.data(), x.data(), outer, channels, inner, kEps, true);
        expectClose(rstd, expectedRstd, "rstd", 3);
        for (size_t i = 0; i < x.size(); ++i)
          y[i] = (x[i] - mean[i / inner % channels]) * rstd[i / inner % channels];
        expectClose(y, expected, "y", 3);
        for (int64_t c = 0; c < channels; ++c)
          EXPECT_NEAR(rstd[c] * std::sqrt(variance[c] + kEps), 1, tolerance<T>());
      }
}

TEST(NormalizeGradient, RowsMatchDifferences) {
  const int64_t rows = 3, n = 6;
  auto x = values<double>(rows * n, 1), dy = values<double>(rows * n, 2);
  std::vector<double> y(x.size()), rstd(rows), dx(x.size());
  for (bool center : {true, false}) {
    auto forward = [&](const std::vector<double> &v) {
      std::vector<double> out(v.size()), kept(rows);
      reference::normalize(out.data(), kept.data(), v.data(), 1, rows, n, kEps, center);
      return out;
    };
    if (center) {
      normalize(y.data(), rstd.data(), x.data(), rows, n, kEps);
      normalize_grad(dx.data(), dy.data(), y.data(), rstd.data(), rows, n);
    } else {
      rms_normalize(y.data(), rstd.data(), x.data(), rows, n, kEps);
      rms_normalize_grad(dx.data(), dy.data(), y.data(), rstd.data(), rows, n);
    }
    expectGradient(x, dy, dx, forward, center ? "layer" : "rms");
  }
}

// Batch norm over ranks that hold 2 and 3 samples, moments gathered by hand: the statistics of the whole batch.
TYPED_TEST(Normalize, SplitChannelsEqualTheWhole) {
  using T = TypeParam;
  const int64_t sizes[2] = {2, 3}, starts[2] = {0, 2}, channels = 4, inner = 5, one = channels * inner, batch = 5;
  auto x = values<T>(batch * one, 1);
  std::vector<T> rstd(channels), mean(channels), variance(channels);
  std::vector<double> gathered(2 * channels * 3), moments(channels * 3);
  channel_statistics(rstd.data(), x.data(), batch, channels, inner, kEps, mean.data(), variance.data());
  for (int p = 0; p < 2; ++p)
    local_moments(&gathered[p * channels * 3], &x[starts[p] * one], sizes[p], channels, inner);
  combine_moments(moments.data(), gathered.data(), 2, channels);
  std::vector<T> rstdSplit(channels), meanSplit(channels), varianceSplit(channels);
  channel_statistics_finish(rstdSplit.data(), moments.data(), channels, kEps, meanSplit.data(), varianceSplit.data());
  expectClose(rstdSplit, rstd, "rstd");
  expectClose(meanSplit, mean, "mean");
  expectClose(varianceSplit, variance, "variance");
}

// Layer and RMS norm over a row of which two ranks hold half each.
TYPED_TEST(Normalize, SplitRowsEqualTheWhole) {
  using T = TypeParam;
  const int64_t rows = 3, part = 8, n = 2 * part;
  auto x = values<T>(rows * n, 1), dy = values<T>(rows * n, 2);
  auto half = [&](const std::vector<T> &v, int p) {
    std::vector<T> out(rows * part);
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(&v[r * n + p * part], part, &out[r * part]);
    return out;
  };
  std::vector<T> whole(x.size()), rstd(rows), dWhole(x.size()), y(rows * part), rstdSplit(rows), dx(rows * part);
  normalize(whole.data(), rstd.data(), x.data(), rows, n, kEps);
  normalize_grad(dWhole.data(), dy.data(), whole.data(), rstd.data(), rows, n);
  std::vector<double> gathered(2 * rows * 3), moments(rows * 3), sums(rows * 2), local(rows * 2);
  for (int p = 0; p < 2; ++p) {
    local_moments(&gathered[p * rows * 3], half(x, p).data(), 1, rows, part);
    normalize_grad_local(local.data(), half(dy, p).data(), half(whole, p).data(), rows, part);
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += local[i];
  }
  combine_moments(moments.data(), gathered.data(), 2, rows);
  for (int p = 0; p < 2; ++p) {
    normalize_finish(y.data(), rstdSplit.data(), half(x, p).data(), moments.data(), rows, part, kEps);
    expectClose(y, half(whole, p), "layer");
    normalize_grad_finish(dx.data(), half(dy, p).data(), y.data(), rstdSplit.data(), sums.data(), rows, part, n);
    expectClose(dx, half(dWhole, p), "layer dx", 2);
  }

  rms_normalize(whole.data(), rstd.data(), x.data(), rows, n, kEps);
  rms_normalize_grad(dWhole.data(), dy.data(), whole.data(), rstd.data(), rows, n);
  std::vector<double> squares(rows), products(rows), one(rows);
  for (int p = 0; p < 2; ++p) {
    rms_local(one.data(), half(x, p).data(), rows, part);
    for (int64_t r = 0; r < rows; ++r)
      squares[r] += one[r];
    rms_grad_local(one.data(), half(dy, p).data(), half(whole, p).data(), rows, part);
    for (int64_t r = 0; r < rows; ++r)
      products[r] += one[r];
  }
  for (int p = 0; p < 2; ++p) {
    rms_finish(y.data(), rstdSplit.data(), half(x, p).data(), squares.data(), rows, part, n, kEps);
    expectClose(y, half(whole, p), "rms");
    rms_grad_finish(dx.data(), half(dy, p).data(), y.data(), rstdSplit.data(), products.data(), rows, part, n);
    expectClose(dx, half(dWhole, p), "rms dx", 2);
  }
}

// A rank without elements does not disturb the others' moments.
TEST(Moments, EmptyPartsDoNotEnter) {
  std::vector<double> gathered = {0, 0, 0, 4, 2, 8, 0, 0, 0}, moments(3);
  combine_moments(moments.data(), gathered.data(), 3, 1);
  EXPECT_EQ(moments, (std::vector<double>{4, 2, 8}));
}

// Values far from 0 beside their deviation, or too large to be squared: the statistics are those of the same numbers in
// double, rounded once, and the results have the error of three rounded operations. On one rank, as rows and as
// channels, and over two ranks.
TEST(Moments, LargeValuesTakeNoDigits) {
  struct Case {
    double mean, deviation;
    int64_t n;
    bool equal = false;
  };
  const double u = std::numeric_limits<float>::epsilon() / 2;
  for (Case of : {Case{0, 1, 768},
                  {1e4, 1e-3, 768},
                  {1e4, 1, 5000},
                  {1e5, 0.1, 37},
                  {-1e6, 1, 768},
                  {1e6, 0.1, 9000},
                  {1e6, 0, 700, true},
                  {16777217, 0, 300, true},
                  {0, 1e19, 768},
                  {3e19, 1e19, 100},
                  {0, 1e30, 5000},
                  {1e4, 1e-3, 2}}) {
    const int64_t n = of.n, part = n / 2;
    auto x = values<float>(n, 7);
    for (float &v : x)
      v = of.equal ? static_cast<float>(of.mean) : static_cast<float>(of.mean + of.deviation * v);
    x[0] = of.mean == 0 ? x[0] : static_cast<float>(of.mean);
    long double mean = 0, squares = 0;
    for (float v : x)
      mean += v;
    mean /= n;
    for (float v : x)
      squares += (v - mean) * (v - mean) / n;
    const double variance = double(squares), rstd = 1 / std::sqrt(variance + kEps);
    auto expectStatistics = [&](float r, float m, float v, float low, const char *what) {
      EXPECT_NEAR(r, rstd, 4 * u * rstd) << what << " " << of.mean;
      if (variance < std::numeric_limits<float>::max()) {
        EXPECT_NEAR(v, variance, 8 * u * variance) << what << " " << of.mean;
      }
      EXPECT_NEAR(double(m) + double(low), double(mean),
                  4 * u * std::sqrt(variance) + 4 * u * u * std::abs(double(mean)))
          << what << " " << of.mean;
    };
    auto expectResults = [&](const std::vector<float> &y, const char *what) {
      for (int64_t i = 0; i < n; ++i) {
        const double wanted = double((x[i] - mean) * rstd);
        ASSERT_NEAR(y[i], wanted, 8 * u * std::max(1.0, std::abs(wanted))) << what << " " << of.mean << " at " << i;
      }
    };
    std::vector<float> y(n), half(n);
    float r, m, v, low;
    normalize(y.data(), &r, x.data(), 1, n, kEps, &m, &v, &low);
    expectStatistics(r, m, v, low, "rows");
    expectResults(y, "rows");
    for (int64_t inner : {int64_t(1), n}) { // short runs, and one
      channel_statistics(&r, x.data(), n / inner, 1, inner, kEps, &m, &v, &low);
      expectStatistics(r, m, v, low, "channels");
      for (int64_t i = 0; i < n; ++i)
        y[i] = (x[i] - m) * r - low * r;
      expectResults(y, "channels");
    }
    double gathered[6], all[3];
    local_moments(gathered, x.data(), 1, 1, part);
    local_moments(gathered + 3, x.data() + part, 1, 1, n - part);
    combine_moments(all, gathered, 2, 1);
    normalize_finish(y.data(), &r, x.data(), all, 1, part, kEps, &m, &v, &low);
    normalize_finish(y.data() + part, &r, x.data() + part, all, 1, n - part, kEps, &m, &v, &low);
    expectStatistics(r, m, v, low, "split rows");
    expectResults(y, "split rows");
    double scale = 0;
    for (float e : x)
      scale += double(e) * double(e) / double(n);
    const double factor = 1 / std::sqrt(scale + kEps);
    rms_normalize(y.data(), &r, x.data(), 1, n, kEps);
    EXPECT_NEAR(r, factor, 4 * u * factor) << "rms " << of.mean;
  }
}

} // namespace
} // namespace echelon::runtime
