// The squared norm and the search for what is not finite.
#include "runtime/kernels/Check.h"
#include "Values.h"

namespace echelon::runtime {
namespace {

template <typename T> struct Check : ::testing::Test {};
TYPED_TEST_SUITE(Check, Types);

TYPED_TEST(Check, SumsSquares) {
  for (int64_t n : {0, 1, 255, 1000}) {
    auto x = values<TypeParam>(n, 1);
    long double expected = 0;
    for (TypeParam v : x)
      expected += (long double)v * v;
    EXPECT_NEAR(sum_of_squares(x.data(), n), double(expected), 1e-12 * double(expected));
  }
}

// The first of several places, whatever its position in a block.
TYPED_TEST(Check, FindsTheFirstThatIsNotFinite) {
  std::vector<TypeParam> x(3000, TypeParam(1));
  EXPECT_EQ(check_finite(x.data(), 3000), -1);
  x[2999] = NAN;
  EXPECT_EQ(check_finite(x.data(), 3000), 2999);
  x[1024] = -INFINITY;
  EXPECT_EQ(check_finite(x.data(), 3000), 1024);
  x[0] = INFINITY;
  EXPECT_EQ(check_finite(x.data(), 3000), 0);
  EXPECT_EQ(check_finite(x.data(), 0), -1);
}

} // namespace
} // namespace echelon::runtime
