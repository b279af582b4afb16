// Packs: neighbouring elements that a thread moves at once, 16 bytes where it can. A copy of 16 bytes a thread runs at
// twice the speed of one of 2 (docs/h100.md).
#pragma once
#include "runtime/cuda/Device.h"

namespace echelon::cuda {

/// k neighbouring elements. Where they are more than 16 bytes they move in several pieces of 16.
template <typename T, int k> struct alignas(sizeof(T) * k < 16 ? sizeof(T) * k : 16) Pack {
  T at[k];

  DEVICE T &operator[](int i) { return at[i]; }
  DEVICE const T &operator[](int i) const { return at[i]; }
};
/// How many elements of T are 16 bytes.
template <typename T> constexpr int kPack = 16 / static_cast<int>(sizeof(T));

template <int k, typename T> DEVICE Pack<T, k> load(const T *from) {
  return *reinterpret_cast<const Pack<T, k> *>(from);
}
template <int k, typename T> DEVICE void store(T *to, const Pack<T, k> &pack) {
#ifdef __CUDACC__
  if constexpr (sizeof pack % 16 == 0) { // in loops nvcc would cut it into elements
    struct Pieces {
      uint4 at[sizeof pack / 16];
    };
    const Pieces pieces = __builtin_bit_cast(Pieces, pack);
    UNROLL for (size_t i = 0; i < sizeof pack / 16; ++i) __stwb(reinterpret_cast<uint4 *>(to) + i, pieces.at[i]);
    return;
  }
#endif
  *reinterpret_cast<Pack<T, k> *>(to) = pack;
}

/// The same where a row has `rest` elements more, which may be fewer than k: the others are 0, and not written.
template <int k, typename T> DEVICE Pack<T, k> load(const T *from, int64_t rest) {
  if (rest >= k)
    return load<k>(from);
  Pack<T, k> pack{};
  UNROLL for (int i = 0; i < k; ++i) if (i < rest) pack[i] = from[i];
  return pack;
}
template <int k, typename T> DEVICE void store(T *to, const Pack<T, k> &pack, int64_t rest) {
  if (rest >= k)
    return store(to, pack);
  UNROLL for (int i = 0; i < k; ++i) if (i < rest) to[i] = pack[i];
}

} // namespace echelon::cuda
