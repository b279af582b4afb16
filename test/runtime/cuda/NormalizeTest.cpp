// Norms and their parts on the device against the CPU's.
#include "runtime/cuda/Normalize.h"
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/kernels/Normalize.h"
#include "test/runtime/kernels/Values.h"

namespace echelon::cuda {
namespace {

constexpr double kEps = 1e-5;

template <typename T> struct NormalizeOnDevice : ::testing::Test {};
TYPED_TEST_SUITE(NormalizeOnDevice, runtime::Types);

// Rows for warps and blocks, held and not, of whole packs and not; none.
const std::pair<int64_t, int64_t> kRows[] = {{1, 1},    {3, 5},    {9, 128},  {2, 1001}, {2, 1024},
                                             {3, 1030}, {1, 4100}, {1, 9000}, {1, 9001}, {0, 8}};

/// rstd, mean, variance and mean_low, of so many rows or channels.
template <typename T> struct Statistics {
  std::vector<T> rstd, mean, variance, low;
  explicit Statistics(int64_t n) : rstd(n), mean(n), variance(n), low(n) {}
};
template <typename T> struct StatisticsOnDevice {
  OnDevice<T> rstd, mean, variance, low;
  explicit StatisticsOnDevice(int64_t n)
      : rstd(std::vector<T>(n, T(9))), mean(std::vector<T>(n, T(9))), variance(std::vector<T>(n, T(9))),
        low(std::vector<T>(n, T(9))) {}
  void expect(const Statistics<T> &of) const {
    expectNear(rstd.host(), of.rstd, tolerance<T>(), "rstd");
    expectNear(mean.host(), of.mean, tolerance<T>(), "mean");
    expectNear(variance.host(), of.variance, tolerance<T>(), "variance");
    expectNear(low.host(), of.low, tolerance<T>(), "mean_low");
  }
};

TYPED_TEST(NormalizeOnDevice, RowsEqualTheCpu) {
  using T = TypeParam;
  underSeeds([] {
    for (auto [rows, n] : kRows) {
      SCOPED_TRACE(std::to_string(rows) + " " + std::to_string(n));
      const auto x = randomValues<T>(rows * n, 1, 3, 10);
      std::vector<T> y(x.size());
      Statistics<T> of(rows);
      runtime::normalize(y.data(), of.rstd.data(), x.data(), rows, n, kEps, of.mean.data(), of.variance.data(),
                         of.low.data());
      const OnDevice<T> from(x), to(std::vector<T>(x.size(), T(9)));
      const StatisticsOnDevice<T> found(rows), again(rows);
      normalize<T>(nullptr, to.get(), found.rstd.get(), from.get(), rows, n, kEps, found.mean.get(),
                   found.variance.get(), found.low.get());
      if (n > 1) // else rstd is 1 / sqrt(eps)
        found.expect(of);
      expectNear(to.host(), y, 4 * tolerance<T>(), "y");
      normalize<T>(nullptr, from.get(), again.rstd.get(), from.get(), rows, n, kEps);
      EXPECT_EQ(from.host(), to.host()) << "in place";
      EXPECT_EQ(again.rstd.host(), found.rstd.host());

      runtime::rms_normalize(y.data(), of.rstd.data(), x.data(), rows, n, kEps);
      const OnDevice<T> source(x);
      rms_normalize<T>(nullptr, to.get(), found.rstd.get(), source.get(), rows, n, kEps);
      expectNear(to.host(), y, tolerance<T>(), "rms");
      expectNear(found.rstd.host(), of.rstd, tolerance<T>(), "rms rstd");
      rms_normalize<T>(nullptr, source.get(), found.rstd.get(), source.get(), rows, n, kEps);
      EXPECT_EQ(source.host(), to.host()) << "in place";
    }
  });
}

TYPED_TEST(NormalizeOnDevice, DerivativesEqualTheCpu) {
  using T = TypeParam;
  underSeeds([] {
    for (auto [rows, n] : kRows) {
      SCOPED_TRACE(std::to_string(rows) + " " + std::to_string(n));
      const auto dy = randomValues<T>(rows * n, 1, 2, 1), y = randomValues<T>(rows * n, 2),
                 rstd = randomValues<T>(rows, 3);
      for (bool centers : {true, false}) {
        std::vector<T> dx(dy.size());
        const OnDevice<T> onDy(dy), onY(y), onRstd(rstd), onDx(std::vector<T>(dy.size(), T(9)));
        (centers ? runtime::normalize_grad<T> : runtime::rms_normalize_grad<T>)(dx.data(), dy.data(), y.data(),
                                                                                rstd.data(), rows, n);
        const auto grad = centers ? normalize_grad<T> : rms_normalize_grad<T>;
        grad(nullptr, onDx.get(), onDy.get(), onY.get(), onRstd.get(), rows, n);
        expectNear(onDx.host(), dx, 2 * tolerance<T>(), centers ? "layer" : "rms");
        grad(nullptr, onDy.get(), onDy.get(), onY.get(), onRstd.get(), rows, n);
        EXPECT_EQ(onDy.host(), onDx.host()) << "in place";
      }
    }
  });
}

/// What ranks do with their parts, each step against the CPU's.
TYPED_TEST(NormalizeOnDevice, PartsOfRowsEqualTheCpu) {
  using T = TypeParam;
  underSeeds([] {
    for (auto [rows, n] : {std::pair<int64_t, int64_t>{5, 12}, {3, 333}, {2, 1500}, {0, 3}}) {
      SCOPED_TRACE(std::to_string(rows) + " " + std::to_string(n));
      const int64_t total = 2 * n;
      const auto x = randomValues<T>(rows * n, 1, 3, 5), y = randomValues<T>(rows * n, 2);
      std::vector<T> out(x.size());
      Statistics<T> of(rows);
      const OnDevice<T> onX(x), onY(y), to(std::vector<T>(x.size(), T(9)));
      const StatisticsOnDevice<T> found(rows);

      std::vector<double> gathered(2 * 3 * rows), moments(3 * rows), sums(2 * rows), one(rows);
      const OnDevice<double> onGathered(gathered), onMoments(moments), onSums(sums), onOne(one);
      runtime::local_moments(gathered.data(), x.data(), 1, rows, n);
      runtime::local_moments(gathered.data() + 3 * rows, y.data(), 1, rows, n);
      runtime::combine_moments(moments.data(), gathered.data(), 2, rows);
      runtime::normalize_finish(out.data(), of.rstd.data(), x.data(), moments.data(), rows, n, kEps, of.mean.data(),
                                of.variance.data(), of.low.data());
      local_moments<T>(nullptr, onGathered.get(), onX.get(), 1, rows, n);
      local_moments<T>(nullptr, onGathered.get() + 3 * rows, onY.get(), 1, rows, n);
      combine_moments(nullptr, onMoments.get(), onGathered.get(), 2, rows);
      expectNear(onMoments.host(), moments, tolerance<T>(), "moments");
      normalize_finish<T>(nullptr, to.get(), found.rstd.get(), onX.get(), onMoments.get(), rows, n, kEps,
                          found.mean.get(), found.variance.get(), found.low.get());
      expectNear(to.host(), out, tolerance<T>(), "layer");
      found.expect(of);

      runtime::normalize_grad_local(sums.data(), x.data(), y.data(), rows, n);
      runtime::normalize_grad_finish(out.data(), x.data(), y.data(), of.rstd.data(), sums.data(), rows, n, total);
      normalize_grad_local<T>(nullptr, onSums.get(), onX.get(), onY.get(), rows, n);
      expectNear(onSums.host(), sums, 2 * tolerance<T>() * double(n), "sums");
      normalize_grad_finish<T>(nullptr, to.get(), onX.get(), onY.get(), found.rstd.get(), onSums.get(), rows, n, total);
      expectNear(to.host(), out, 2 * tolerance<T>(), "layer dx");

      runtime::rms_local(one.data(), x.data(), rows, n);
      runtime::rms_finish(out.data(), of.rstd.data(), x.data(), one.data(), rows, n, total, kEps);
      rms_local<T>(nullptr, onOne.get(), onX.get(), rows, n);
      expectNear(onOne.host(), one, tolerance<T>(), "squares");
      rms_finish<T>(nullptr, to.get(), found.rstd.get(), onX.get(), onOne.get(), rows, n, total, kEps);
      expectNear(to.host(), out, tolerance<T>(), "rms");
      expectNear(found.rstd.host(), of.rstd, tolerance<T>(), "rms rstd");

      runtime::rms_grad_local(one.data(), x.data(), y.data(), rows, n);
      runtime::rms_grad_finish(out.data(), x.data(), y.data(), of.rstd.data(), one.data(), rows, n, total);
      rms_grad_local<T>(nullptr, onOne.get(), onX.get(), onY.get(), rows, n);
      expectNear(onOne.host(), one, 2 * tolerance<T>() * double(n), "rms sums");
      rms_grad_finish<T>(nullptr, to.get(), onX.get(), onY.get(), found.rstd.get(), onOne.get(), rows, n, total);
      expectNear(to.host(), out, 2 * tolerance<T>(), "rms dx");
    }
  });
}

template <typename T> void compareChannels(int64_t outer, int64_t channels, int64_t inner) {
  SCOPED_TRACE(std::to_string(outer) + " " + std::to_string(channels) + " " + std::to_string(inner));
  const auto x = randomValues<T>(outer * channels * inner, 1, 3, 10);
  Statistics<T> of(channels);
  std::vector<double> moments(3 * channels);
  runtime::channel_statistics(of.rstd.data(), x.data(), outer, channels, inner, kEps, of.mean.data(),
                              of.variance.data(), of.low.data());
  runtime::local_moments(moments.data(), x.data(), outer, channels, inner);
  const OnDevice<T> from(x);
  const OnDevice<double> scratch{std::vector<double>(kChannelScratch)}, to(moments);
  for (double *memory : {static_cast<double *>(nullptr), scratch.get()}) {
    const StatisticsOnDevice<T> found(channels), finished(channels);
    channel_statistics<T>(nullptr, found.rstd.get(), from.get(), outer, channels, inner, kEps, found.mean.get(),
                          found.variance.get(), found.low.get(), memory);
    found.expect(of);
    local_moments<T>(nullptr, to.get(), from.get(), outer, channels, inner, memory);
    expectNear(to.host(), moments, tolerance<T>(), "moments");
    channel_statistics_finish<T>(nullptr, finished.rstd.get(), to.get(), channels, kEps, finished.mean.get(),
                                 finished.variance.get(), finished.low.get());
    finished.expect(of);
  }
}
TYPED_TEST(NormalizeOnDevice, ChannelsEqualTheCpu) {
  underSeeds([] {
    for (int64_t outer : {1, 6, 70})
      for (int64_t channels : {1, 3, 33})
        for (int64_t inner : {2, 4, 17, 48, 500})
          compareChannels<TypeParam>(outer, channels, inner);
    compareChannels<TypeParam>(40, 65, 1);
    compareChannels<TypeParam>(5, 0, 4);
  });
}
// Channels that are cut into pieces: of long runs, and of short ones.
TYPED_TEST(NormalizeOnDevice, LargeChannelsEqualTheCpu) {
  compareChannels<TypeParam>(37, 3, 5000);
  compareChannels<TypeParam>(9001, 2, 15);
  compareChannels<TypeParam>(5003, 40, 1);
}

// A rank without elements does not disturb the others' moments.
TEST(MomentsOnDevice, EmptyPartsDoNotEnter) {
  const OnDevice<double> gathered({0, 0, 0, 4, 2, 8, 0, 0, 0}), moments(std::vector<double>(3));
  combine_moments(nullptr, moments.get(), gathered.get(), 3, 1);
  EXPECT_EQ(moments.host(), (std::vector<double>{4, 2, 8}));
  const OnDevice<float> none(std::vector<float>{});
  local_moments<float>(nullptr, moments.get(), none.get(), 0, 1, 5);
  EXPECT_EQ(moments.host()[0], 0);
}

// Values far from 0 beside their deviation, or too large to be squared; a first value far from all others.
TEST(MomentsOnDevice, LargeValuesTakeNoDigits) {
  struct Case {
    double mean, deviation;
    int64_t n;
    double first;
  };
  const double u = std::numeric_limits<float>::epsilon() / 2;
  underSeeds([&] {
    for (Case of : {Case{0, 1, 768, 0},
                    {1e4, 1e-3, 768, 1e4},
                    {1e5, 0.1, 37, 1e5},
                    {1e6, 0.1, 9000, 1e6},
                    {0, 1e19, 768, 0},
                    {3e19, 1e19, 100, 0},
                    {0, 1, 9000, 1e9},
                    {0, 1e30, 5000, 1e30}}) {
      auto x = randomValues<float>(of.n, 7, of.deviation, of.mean);
      x[0] = static_cast<float>(of.first);
      long double mean = 0, squares = 0;
      for (float v : x)
        mean += static_cast<long double>(v) / of.n;
      for (float v : x)
        squares += (v - mean) * (v - mean) / of.n;
      const double variance = double(squares), rstd = 1 / std::sqrt(variance + kEps);
      const OnDevice<float> from(x), to(x), r({0}), m({0}), low({0}), v({0});
      const auto expectStatistics = [&](const char *what) {
        EXPECT_NEAR(r.host()[0], rstd, 4 * u * rstd) << what << " " << of.mean;
        EXPECT_NEAR(double(m.host()[0]) + double(low.host()[0]), double(mean),
                    4 * u * std::sqrt(variance) + 4 * u * u * std::abs(double(mean)))
            << what << " " << of.mean;
      };
      normalize<float>(nullptr, to.get(), r.get(), from.get(), 1, of.n, kEps, m.get(), v.get(), low.get());
      expectStatistics("rows");
      const auto y = to.host();
      for (int64_t i = 0; i < of.n; ++i) {
        const double wanted = double((x[i] - mean) * rstd);
        ASSERT_NEAR(y[i], wanted, 8 * u * std::max(1.0, std::abs(wanted))) << of.mean << " at " << i;
      }
      for (int64_t inner : {int64_t(1), of.n}) {
        channel_statistics<float>(nullptr, r.get(), from.get(), of.n / inner, 1, inner, kEps, m.get(), v.get(),
                                  low.get());
        expectStatistics("channels");
      }
    }
  });
}

// What is not finite shows.
TYPED_TEST(NormalizeOnDevice, BadValuesAreSeen) {
  using T = TypeParam;
  for (int64_t at : {0, 7})
    for (T odd : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
      auto x = randomValues<T>(20, 1);
      x[at] = odd;
      const OnDevice<T> from(x), to(x), rstd({T(0)});
      normalize<T>(nullptr, to.get(), rstd.get(), from.get(), 1, 20, kEps);
      for (T y : to.host())
        EXPECT_NE(y, y);
    }
}

// Stored in two bytes, computed in float: against the CPU's of the same numbers in float.
template <typename T> void compareNarrow(int64_t rows, int64_t n) {
  const auto x = randomValues<T>(rows * n, 1, 3, 2), dy = randomValues<T>(rows * n, 2);
  const std::vector<float> wide(x.begin(), x.end()), wideDy(dy.begin(), dy.end());
  for (bool centers : {true, false}) {
    std::vector<float> y(x.size()), rstd(rows), dx(x.size());
    const OnDevice<T> from(x), to(x), onDy(dy);
    const OnDevice<float> onRstd(rstd);
    if (centers) {
      runtime::normalize(y.data(), rstd.data(), wide.data(), rows, n, kEps);
      normalize<T>(nullptr, to.get(), onRstd.get(), from.get(), rows, n, kEps);
      runtime::normalize_grad(dx.data(), wideDy.data(), wide.data(), rstd.data(), rows, n);
      normalize_grad<T>(nullptr, onDy.get(), onDy.get(), from.get(), onRstd.get(), rows, n);
    } else {
      runtime::rms_normalize(y.data(), rstd.data(), wide.data(), rows, n, kEps);
      rms_normalize<T>(nullptr, to.get(), onRstd.get(), from.get(), rows, n, kEps);
      runtime::rms_normalize_grad(dx.data(), wideDy.data(), wide.data(), rstd.data(), rows, n);
      rms_normalize_grad<T>(nullptr, onDy.get(), onDy.get(), from.get(), onRstd.get(), rows, n);
    }
    expectNear(onRstd.host(), rstd, 1e-5, "rstd");
    expectNear(to.host(), y, tolerance<T>(), "y");
    expectNear(onDy.host(), dx, tolerance<T>(), "dx");
  }
}
TEST(NormalizeOfNarrow, EqualsTheCpu) {
  underSeeds([] {
    for (auto [rows, n] : {std::pair<int64_t, int64_t>{5, 64}, {3, 77}, {2, 2048}, {1, 9008}}) {
      compareNarrow<bf16>(rows, n);
      compareNarrow<fp16>(rows, n);
    }
  });
}

} // namespace
} // namespace echelon::cuda
