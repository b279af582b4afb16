// Running sums in double (integers in their own type), so that long float axes keep their accuracy; the k largest by a
// partial sort of positions.
#include "runtime/kernels/Scan.h"
#include <algorithm>
#include <numeric>
#include <type_traits>
#include <vector>

namespace echelon::runtime {

template <typename T> void cumsum(T *y, const T *x, int64_t outer, int64_t n, int64_t inner, bool reverse) {
  using Wide = std::conditional_t<std::is_integral_v<T>, T, double>;
  std::vector<Wide> sum(inner);
  for (int64_t o = 0; o < outer; ++o) {
    std::fill(sum.begin(), sum.end(), Wide(0));
    for (int64_t step = 0; step < n; ++step) {
      int64_t start = (o * n + (reverse ? n - 1 - step : step)) * inner;
      for (int64_t j = 0; j < inner; ++j)
        y[start + j] = static_cast<T>(sum[j] += x[start + j]);
    }
  }
}

template <typename T> void top_k(int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner, int64_t k) {
  std::vector<int32_t> order(n);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t j = 0; j < inner; ++j) {
      auto at = [&](int32_t i) { return x[(o * n + i) * inner + j]; };
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int32_t p, int32_t q) {
        T a = at(p), b = at(q);
        bool nanA = a != a, nanB = b != b;
        if (nanA || nanB)
          return nanA && nanB ? p < q : nanA;
        return a > b || (a == b && p < q);
      });
      for (int64_t r = 0; r < k; ++r)
        index[(o * k + r) * inner + j] = order[r];
    }
}

#define INSTANTIATE(T)                                                                                                 \
  template void cumsum<T>(T *, const T *, int64_t, int64_t, int64_t, bool);                                            \
  template void top_k<T>(int32_t *, const T *, int64_t, int64_t, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(int32_t)
#undef INSTANTIATE

} // namespace echelon::runtime
