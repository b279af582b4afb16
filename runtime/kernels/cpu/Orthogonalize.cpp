#include "runtime/kernels/Orthogonalize.h"

#include <algorithm>
#include <cmath>

namespace echelon::runtime {

namespace {
template <typename T> double product(const T *a, const T *b, int64_t n, int64_t stride) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += double(a[i * stride]) * double(b[i * stride]);
  return sum;
}
} // namespace

template <typename T> void orthogonalize(T *y, const T *x, int64_t outer, int64_t n, int64_t inner) {
  if (y != x)
    std::copy(x, x + outer * n * inner, y);
  for (int64_t o = 0; o < outer; ++o, y += n * inner) {
    double longest = 0;
    for (int64_t j = 0; j < inner; ++j)
      longest = std::max(longest, std::sqrt(product(y + j, y + j, n, inner)));
    for (int64_t j = 0; j < inner; ++j) {
      for (int64_t before = 0; before < j; ++before) {
        const T along = static_cast<T>(product(y + j, y + before, n, inner));
        for (int64_t i = 0; i < n; ++i)
          y[i * inner + j] -= along * y[i * inner + before];
      }
      const double left = std::sqrt(product(y + j, y + j, n, inner));
      const T scale = static_cast<T>(left <= kLeastLeft * longest ? 0 : 1 / left);
      for (int64_t i = 0; i < n; ++i)
        y[i * inner + j] *= scale;
    }
  }
}

template void orthogonalize<float>(float *, const float *, int64_t, int64_t, int64_t);
template void orthogonalize<double>(double *, const double *, int64_t, int64_t, int64_t);

} // namespace echelon::runtime
