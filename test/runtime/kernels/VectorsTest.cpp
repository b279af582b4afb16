// What loops over vectors are made of: stores into the cache and past it, at every address and length.
#include "runtime/kernels/cpu/Vectors.h"
#include "Values.h"

namespace echelon::runtime {
namespace {

template <typename T> struct Vectors : ::testing::Test {};
using VectorTypes = ::testing::Types<float, double, int32_t, uint8_t>;
TYPED_TEST_SUITE(Vectors, VectorTypes);

// Just the elements asked for are written, whatever the address and wherever they go.
TYPED_TEST(Vectors, StoresReachEveryElement) {
  using T = TypeParam;
  const int64_t most = 3 * 32 / sizeof(T) + 2;
  for (int64_t bytes : {int64_t(0), detail::Stores::kPast})
    for (int64_t start = 0; start <= int64_t(32 / sizeof(T)); ++start)
      for (int64_t n = 0; n <= most; ++n) {
        std::vector<T> x(most), y(most + 64, T(7)), expected(most + 64, T(7));
        for (int64_t i = 0; i < most; ++i)
          x[i] = T(i + 10);
        std::copy_n(x.begin(), n, expected.begin() + start);
        {
          detail::Stores stores(bytes);
          stores.write(y.data() + start, n, [&](auto at, int64_t i) { return at.load(x.data() + i); });
        }
        ASSERT_EQ(y, expected) << "start " << start << ", n " << n << ", " << bytes << " bytes";
      }
}

// Every lane of a mask is one bit.
TYPED_TEST(Vectors, BitsOfMasks) {
  using T = TypeParam;
  constexpr int64_t width = detail::Lanes<T>::width;
  for (int64_t lane = 0; lane < width; ++lane) {
    detail::Vector<T> v = {};
    v[lane] = T(1);
    EXPECT_EQ(detail::bits_of<T>(v == detail::every(T(1))), 1u << lane);
  }
}

} // namespace
} // namespace echelon::runtime
