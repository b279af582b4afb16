// The squared norm and the search for what is not finite. A value x is finite where x - x == 0, which vectorises.
#include "runtime/kernels/Check.h"
#include "runtime/kernels/cpu/BlockedSum.h"

namespace echelon::runtime {

template <typename T> double sum_of_squares(const T *x, int64_t n) {
  return detail::sum_of_vectors<double>(n, [=](auto at, int64_t i) {
    detail::Vector<double> v = detail::load_wide(at, x + i);
    return v * v;
  });
}

template <typename T> int64_t check_finite(const T *x, int64_t n) {
  for (int64_t i = 0; i < n; i += 1024) {
    int64_t end = std::min(n, i + 1024);
    int bad = 0;
    for (int64_t j = i; j < end; ++j)
      bad |= !(x[j] - x[j] == 0);
    for (int64_t j = i; bad && j < end; ++j)
      if (!(x[j] - x[j] == 0))
        return j;
  }
  return -1;
}

template double sum_of_squares<float>(const float *, int64_t);
template double sum_of_squares<double>(const double *, int64_t);

int64_t check_finite(ElementType type, const std::byte *data, int64_t n) {
  return visitElement(type, [&](auto zero) -> int64_t {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T> || isNarrow<T>)
      return check_finite(reinterpret_cast<const T *>(data), n);
    return -1;
  });
}
template int64_t check_finite<float>(const float *, int64_t);
template int64_t check_finite<double>(const double *, int64_t);

} // namespace echelon::runtime
