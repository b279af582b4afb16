// The scalar functions of printed loops: the float ones against <cmath> in double, derivatives against differences.
#include "runtime/kernels/Elementwise.h"
#include "Values.h"
#include <functional>

namespace echelon::runtime {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

/// The largest relative error of f over [lo, hi]; below `floor` in size, errors count against `floor`.
double worst(const std::function<float(float)> &f, const std::function<double(double)> &exact, float lo, float hi,
             double floor = 0) {
  double largest = 0;
  const int points = 200001;
  for (int i = 0; i < points; ++i) {
    float x = static_cast<float>(lo + (double(hi) - lo) * i / (points - 1));
    double e = exact(x), error = std::abs(double(f(x)) - e);
    largest = std::max(largest, error == 0 ? 0 : error / std::max({std::abs(e), floor, 1e-37}));
  }
  return largest;
}

double geluExact(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

// Functions with a promise of 3e-7 keep it over their whole range.
TEST(Elementwise, FloatFunctionsAreAccurate) {
  auto f = [](auto g) { return std::function<float(float)>(g); };
  EXPECT_LT(
      worst(f([](float x) { return math::exp(x); }), [](double x) { return std::exp(x); }, -86.98f, 88.72f), 3e-7);
  EXPECT_LT(worst(f([](float x) { return math::exp(x); }), [](double x) { return std::exp(x); }, 88.3f, 88.72f), 3e-7);
  EXPECT_LT(worst(f([](float x) { return math::log(x); }), [](double x) { return std::log(x); }, 1e-3f, 4), 3e-7);
  EXPECT_LT(worst(f([](float x) { return math::log(x); }), [](double x) { return std::log(x); }, 4, 1e30f), 3e-7);
  EXPECT_LT(worst(f([](float x) { return math::log(x); }), [](double x) { return std::log(x); }, 1e-45f, 1e-38f), 3e-7);
  EXPECT_LT(
      worst(f([](float x) { return math::rsqrt(x); }), [](double x) { return 1 / std::sqrt(x); }, 1e-6f, 10), 3e-7);
  EXPECT_LT(worst(f([](float x) { return math::sin(x); }), [](double x) { return std::sin(x); }, -1000, 1000), 3e-7);
  EXPECT_LT(worst(f([](float x) { return math::cos(x); }), [](double x) { return std::cos(x); }, -1e6f, 1e6f), 3e-7);
  EXPECT_LT(worst(f([](float x) { return math::tanh(x); }), [](double x) { return std::tanh(x); }, -10, 10), 3e-7);
  EXPECT_LT(worst(f([](float x) { return math::erf(x); }), [](double x) { return std::erf(x); }, -5, 5), 3e-7);
  EXPECT_LT(worst(
                f([](float x) { return math::sigmoid(x); }), [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 30),
            3e-7);
  EXPECT_LT(
      worst(f([](float x) { return math::silu(x); }), [](double x) { return x / (1 + std::exp(-x)); }, -80, 30), 4e-7);
  EXPECT_LT(worst(f([](float x) { return math::gelu(x); }), geluExact, -12, 12, 1), 3e-7);
}

// sin and cos keep it at every size, where multiples of pi / 2 are hardest to take away as well.
TEST(Elementwise, SinAndCosAreAccurateAtEverySize) {
  auto check = [](float x) {
    const double sine = std::sin(double(x)), cosine = std::cos(double(x));
    EXPECT_LE(std::abs(math::sin(x) - sine), 3e-7 * std::abs(sine)) << "sin " << x;
    EXPECT_LE(std::abs(math::cos(x) - cosine), 3e-7 * std::abs(cosine)) << "cos " << x;
  };
  for (int exponent = -30; exponent < 128; ++exponent)
    for (int i = 0; i < 500; ++i)
      for (float sign : {1.0f, -1.0f})
        check(sign * std::ldexp(1 + i / 500.0f, exponent));
  // of all floats in their range these come nearest to a multiple of pi / 2
  for (float x : {1.57079637f, 3.14159274f, 16367173.0f * 0x1p+72f, 11.0f, 710.0f, 103993.0f, 3.40282347e38f})
    check(x);
  EXPECT_TRUE(std::signbit(math::sin(-0.0f)));
  EXPECT_EQ(math::cos(-0.0f), 1.0f);
}

// gelu's derivative and the tanh approximation agree with double to rounding.
TEST(Elementwise, FloatActivationsFollowTheDoubleOnes) {
  auto same = [](auto g, double slack) {
    return worst([g](float x) { return g(x); }, [g](double x) { return g(x); }, -12, 12, slack);
  };
  EXPECT_LT(same([](auto x) { return math::gelu_tanh(x); }, 1), 4e-7);
  EXPECT_LT(same([](auto x) { return math::gelu_grad(x); }, 1), 4e-7);
  EXPECT_LT(same([](auto x) { return math::gelu_tanh_grad(x); }, 1), 1e-6);
  EXPECT_LT(same([](auto x) { return math::silu_grad(x); }, 1), 4e-7);
}

// Far out an activation's derivative is 0 or 1, and not what is left of a size that fp32 does not hold.
TEST(Elementwise, DerivativesOfActivationsEndAtZeroAndOne) {
  for (float x : {100.0f, 1e4f, 1e8f, 1e12f, 1e19f, 1e25f, 3e38f}) {
    EXPECT_NEAR(math::gelu_tanh_grad(x), 1, 1e-7) << x;
    EXPECT_NEAR(math::gelu_tanh_grad(-x), 0, 1e-30) << -x;
    EXPECT_NEAR(math::silu_grad(x), 1, 1e-7) << x;
    EXPECT_NEAR(math::silu_grad(-x), 0, 1e-30) << -x;
    EXPECT_NEAR(math::gelu_tanh_grad(-double(x)), 0, 1e-40) << -x;
    EXPECT_NEAR(math::silu_grad(-double(x)), 0, 1e-40) << -x;
  }
  for (float x : {100.0f, 1e12f, 1e19f, 3e38f}) {
    EXPECT_NEAR(math::gelu_grad(x), 1, 1e-6) << x;
    EXPECT_NEAR(math::gelu_grad(-x), 0, 1e-6) << -x;
  }
}

// A loss that is not finite must be seen: NaN comes out wherever it goes in.
TEST(Elementwise, NanPropagates) {
  for (float y : {math::exp(kNan),       math::log(kNan),       math::sqrt(kNan),
                  math::rsqrt(kNan),     math::sin(kNan),       math::cos(kNan),
                  math::tanh(kNan),      math::erf(kNan),       math::sigmoid(kNan),
                  math::relu(kNan),      math::gelu(kNan),      math::gelu_tanh(kNan),
                  math::silu(kNan),      math::abs(kNan),       math::floor(kNan),
                  math::mod(kNan, 2.0f), math::max(kNan, 1.0f), math::max(1.0f, kNan),
                  math::min(kNan, 1.0f), math::min(1.0f, kNan), math::clamp(kNan, 0.0f, 1.0f),
                  math::pow(kNan, 2.0f), math::gelu_grad(kNan), math::gelu_tanh_grad(kNan),
                  math::silu_grad(kNan)})
    EXPECT_TRUE(y != y) << y;
}

// To the nearest of the numbers of E4M3, all of which are listed; ties to those with an even mantissa.
TEST(Elementwise, RoundsToNumbersOfEightBits) {
  auto all = [](int mantissa, int least, int most, float largest) {
    std::vector<float> numbers;
    for (int k = 0; k < 1 << mantissa; ++k)
      numbers.push_back(std::ldexp(static_cast<float>(k), least - mantissa));
    for (int e = least; e <= most; ++e)
      for (int k = 0; k < 1 << mantissa; ++k)
        if (float x = std::ldexp(static_cast<float>((1 << mantissa) + k), e - mantissa); x <= largest)
          numbers.push_back(x);
    return numbers;
  };
  auto check = [](const std::vector<float> &numbers, float (*round)(float)) {
    for (size_t i = 0; i + 1 < numbers.size(); ++i) {
      const float low = numbers[i], high = numbers[i + 1], middle = low + (high - low) / 2;
      for (float sign : {1.0f, -1.0f}) {
        ASSERT_EQ(round(sign * low), sign * low);
        ASSERT_EQ(round(sign * std::nextafter(middle, 0.0f)), sign * low) << middle;
        ASSERT_EQ(round(sign * middle), sign * (i % 2 ? high : low)) << middle;
        ASSERT_EQ(round(sign * std::nextafter(middle, kInf)), sign * high) << middle;
        ASSERT_EQ(round(sign * high), sign * high);
      }
    }
    EXPECT_EQ(round(kInf), kInf);
    EXPECT_TRUE(std::isnan(round(kNan)));
    EXPECT_TRUE(std::isnan(round(__builtin_bit_cast(float, 0x7fffffff))));
  };
  check(all(3, -6, 8, 448), math::round_e4m3);
  check(all(2, -14, 15, 57344), math::round_e5m2);
}

TEST(Elementwise, PowerOfTwoIsTheNextBelow) {
  EXPECT_EQ(math::power_of_two(1), 1);
  EXPECT_EQ(math::power_of_two(448), 256);
  EXPECT_EQ(math::power_of_two(std::nextafter(256.0f, 0.0f)), 128);
  EXPECT_EQ(math::power_of_two(0.3f), 0.25f);
  EXPECT_EQ(math::power_of_two(kInf), std::ldexp(1.0f, 126)); // what 448 / 0 leaves room for
  EXPECT_EQ(math::power_of_two(0), 0);
  EXPECT_TRUE(std::isnan(math::power_of_two(kNan)));
}

// To 10 bits of mantissa, to the nearest, ties to even; up to infinity; infinities and NaN stay.
TEST(Elementwise, RoundTf32KeepsTenBitsOfMantissa) {
  const float step = std::ldexp(1.0f, -10);
  EXPECT_EQ(math::round_tf32(1 + step), 1 + step);
  EXPECT_EQ(math::round_tf32(1 + 0.5f * step), 1);
  EXPECT_EQ(math::round_tf32(1 + 1.5f * step), 1 + 2 * step);
  EXPECT_EQ(math::round_tf32(-(1 + 0.501f * step)), -(1 + step));
  EXPECT_EQ(math::round_tf32(2 - 0.1f * step), 2);
  EXPECT_EQ(math::round_tf32(std::numeric_limits<float>::max()), kInf);
  EXPECT_EQ(math::round_tf32(-kInf), -kInf);
  EXPECT_TRUE(std::isnan(math::round_tf32(kNan)));
  EXPECT_TRUE(std::isnan(math::round_tf32(__builtin_bit_cast(float, 0x7fffffff))));
  for (int32_t bits = 0; bits >= 0 && bits < 0x7f7ff000; bits += 65521) {
    const float x = __builtin_bit_cast(float, bits), y = math::round_tf32(x);
    const float unit = std::ldexp(1.0f, std::max(std::ilogb(x), -126) - 10);
    ASSERT_EQ(y, unit * std::nearbyint(x / unit)) << x;
  }
}

// Limits, overflow and underflow come out as in <cmath>.
TEST(Elementwise, LimitsAreThoseOfCmath) {
  EXPECT_EQ(math::exp(kInf), kInf);
  EXPECT_EQ(math::exp(89.0f), kInf);
  EXPECT_EQ(math::exp(-kInf), 0.0f);
  EXPECT_EQ(math::exp(-110.0f), 0.0f);
  EXPECT_EQ(math::exp(-100.0f), 0.0f); // below the least normal value
  EXPECT_EQ(math::exp(0.0f), 1.0f);
  EXPECT_EQ(math::log(0.0f), -kInf);
  EXPECT_EQ(math::log(-0.0f), -kInf);
  EXPECT_EQ(math::log(kInf), kInf);
  EXPECT_EQ(math::log(1.0f), 0.0f);
  EXPECT_TRUE(std::isnan(math::log(-1.0f)));
  EXPECT_TRUE(std::isnan(math::log(-kInf)));
  EXPECT_EQ(math::tanh(kInf), 1.0f);
  EXPECT_EQ(math::tanh(-kInf), -1.0f);
  EXPECT_EQ(math::erf(kInf), 1.0f);
  EXPECT_EQ(math::erf(-kInf), -1.0f);
  EXPECT_EQ(math::sigmoid(kInf), 1.0f);
  EXPECT_EQ(math::sigmoid(-kInf), 0.0f);
  EXPECT_TRUE(std::isnan(math::sin(kInf)));
  EXPECT_TRUE(std::isnan(math::sqrt(-1.0f)));
  EXPECT_EQ(math::relu(-kInf), 0.0f);
  EXPECT_EQ(math::relu(kInf), kInf);
}

// pow agrees with std::pow, special cases included.
TEST(Elementwise, PowFollowsCmath) {
  for (float x : {-kInf, -3.5f, -1.0f, -0.25f, -0.0f, 0.0f, 1e-40f, 0.3f, 1.0f, 2.0f, 7.25f, 1e20f, kInf})
    for (float y : {-kInf, -3.0f, -2.5f, -1.0f, 0.0f, 0.5f, 1.0f, 2.0f, 3.0f, 7.5f, kInf}) {
      if (std::isinf(y) && std::abs(x) == 1)
        continue;
      float expected = std::pow(x, y), actual = math::pow(x, y);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(actual)) << x << " ^ " << y << " = " << actual;
      } else if (std::isinf(expected) || expected == 0) {
        EXPECT_TRUE(actual == expected && std::signbit(actual) == std::signbit(expected))
            << x << " ^ " << y << " = " << actual;
      } else {
        EXPECT_NEAR(actual / expected, 1, std::abs(expected) < 1e-37 ? 1e-2 : 3e-7) << x << " ^ " << y;
      }
    }
}

// mod takes the divisor's sign and stays below it.
TEST(Elementwise, ModIsFloored) {
  EXPECT_EQ(math::mod(-1, 3), 2);
  EXPECT_EQ(math::mod(7, 3), 1);
  EXPECT_EQ(math::mod(7, -3), -2);
  EXPECT_EQ(math::mod(-6, 3), 0);
  EXPECT_EQ(math::mod(std::numeric_limits<int32_t>::min(), -1), 0);
  EXPECT_FLOAT_EQ(math::mod(-1.5f, 2.0f), 0.5f);
  EXPECT_FLOAT_EQ(math::mod(5.5f, 2.0f), 1.5f);
  EXPECT_FLOAT_EQ(math::mod(5.5f, -2.0f), -0.5f);
  for (int i = -1000; i < 1000; ++i) {
    float r = math::mod(i * 0.1f, 0.3f);
    EXPECT_TRUE(r >= 0 && r < 0.3f) << i;
  }
}

// mod is fmod's remainder with the divisor's sign, however large or small the quotient is.
TEST(Elementwise, ModIsExact) {
  for (float x : {0.0f, 1e-45f, 1e-30f, 0.1f, 0.5f, 1.0f, 2.5f, 12345.0f, 16777216.0f, 1e8f, 1e19f, 1e30f, 3e38f})
    for (float y : {1e-45f, 1e-40f, 1e-30f, 0.1f, 0.3f, 0.7f, 1.0f, 3.0f, 12345.0f, 1e8f, 1e19f, 3e38f, kInf})
      for (int signs = 0; signs < 4; ++signs) {
        const float a = signs & 1 ? -x : x, b = signs & 2 ? -y : y;
        double r = std::fmod(double(a), double(b));
        r = r != 0 && (r < 0) != (b < 0) ? r + double(b) : r;
        EXPECT_EQ(math::mod(a, b), float(r)) << a << " mod " << b;
        if (std::isfinite(b)) {
          EXPECT_EQ(math::mod(double(a), double(b)), r) << a << " mod " << b;
        }
      }
  EXPECT_TRUE(std::isnan(math::mod(kInf, 3.0f)));
  EXPECT_TRUE(std::isnan(math::mod(1.0f, 0.0f)));
}

// At the kinks a derivative is 0.
TEST(Elementwise, KinksHaveDerivativeZero) {
  EXPECT_EQ(math::step(0.0), 0.0);
  EXPECT_EQ(math::sign(0.0f), 0.0f);
  EXPECT_EQ(math::relu_grad(0.0f, 5.0f), 0.0f);
  EXPECT_EQ(math::relu_grad(1.0f, 5.0f), 5.0f);
  EXPECT_EQ(math::sign(-2.0), -1.0);
}

// Derivatives in double agree with central differences.
TEST(Elementwise, DerivativesMatchDifferences) {
  auto check = [](auto f, auto df, const char *what) {
    for (double x = -4; x <= 4; x += 0.37)
      EXPECT_NEAR(df(x), (f(x + 1e-5) - f(x - 1e-5)) / 2e-5, 1e-9) << what << " at " << x;
  };
  check([](double x) { return math::gelu(x); }, [](double x) { return math::gelu_grad(x); }, "gelu");
  check([](double x) { return math::gelu_tanh(x); }, [](double x) { return math::gelu_tanh_grad(x); }, "gelu_tanh");
  check([](double x) { return math::silu(x); }, [](double x) { return math::silu_grad(x); }, "silu");
  check([](double x) { return math::erf(x); }, [](double x) { return math::erf_grad(x); }, "erf");
  check([](double x) { return math::sigmoid(x); }, [](double x) { return math::sigmoid_grad(math::sigmoid(x)); },
        "sigmoid");
  check([](double x) { return math::tanh(x); }, [](double x) { return math::tanh_grad(math::tanh(x)); }, "tanh");
}

} // namespace
} // namespace echelon::runtime
