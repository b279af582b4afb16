// The arithmetic of the emulated NCCL. Numbers of two bytes are combined as floats, in the order of ranks, and rounded
// once.
#pragma once
#include "runtime/transport/NarrowFloat.h"

#include <nccl.h>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace echelon::cuda::host {

/// Calls `use` with a zero of the type; false: there is no such type in programs.
template <typename Use> bool withElement(ncclDataType_t type, const Use &use) {
  switch (type) {
  case ncclInt8:
    return use(int8_t()), true;
  case ncclUint8:
    return use(uint8_t()), true;
  case ncclInt32:
    return use(int32_t()), true;
  case ncclInt64:
    return use(int64_t()), true;
  case ncclFloat16:
    return use(runtime::fp16()), true;
  case ncclBfloat16:
    return use(runtime::bf16()), true;
  case ncclFloat32:
    return use(float()), true;
  case ncclFloat64:
    return use(double()), true;
  default:
    return false;
  }
}

/// 0: no type of programs.
inline size_t bytesOf(ncclDataType_t type) {
  size_t bytes = 0;
  withElement(type, [&](auto zero) { bytes = sizeof zero; });
  return bytes;
}

inline const char *nameOf(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
    return "int8";
  case ncclUint8:
    return "uint8";
  case ncclInt32:
    return "int32";
  case ncclInt64:
    return "int64";
  case ncclFloat16:
    return "fp16";
  case ncclBfloat16:
    return "bf16";
  case ncclFloat32:
    return "float";
  default:
    return "double";
  }
}

inline const char *nameOf(ncclRedOp_t op) {
  switch (op) {
  case ncclSum:
    return "sum";
  case ncclProd:
    return "product";
  case ncclMax:
    return "maximum";
  case ncclMin:
    return "minimum";
  case ncclAvg:
    return "average";
  default:
    return nullptr;
  }
}

/// As on the device: integers wrap, and of a NaN and a number min and max give the number.
template <typename W> W combine(ncclRedOp_t op, W a, W b) {
  if constexpr (std::is_integral_v<W>) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return op == ncclMax    ? (a > b ? a : b)
           : op == ncclMin  ? (a < b ? a : b)
           : op == ncclProd ? static_cast<W>(x * y)
                            : static_cast<W>(x + y);
  } else {
    return op == ncclMax ? std::fmax(a, b) : op == ncclMin ? std::fmin(a, b) : op == ncclProd ? a * b : a + b;
  }
}

/// The elements from `begin` on of all ranks' inputs, as one.
template <typename T>
std::vector<T> reduce(ncclRedOp_t op, const std::vector<const void *> &in, size_t begin, size_t count) {
  using W = std::conditional_t<runtime::isNarrow<T>, float, T>;
  std::vector<T> result(count);
  for (size_t i = 0; i < count; ++i) {
    W all = W(static_cast<const T *>(in[0])[begin + i]);
    for (size_t rank = 1; rank < in.size(); ++rank)
      all = combine<W>(op, all, W(static_cast<const T *>(in[rank])[begin + i]));
    if (op == ncclAvg)
      all = static_cast<W>(all / static_cast<W>(in.size()));
    result[i] = T(all);
  }
  return result;
}

} // namespace echelon::cuda::host
