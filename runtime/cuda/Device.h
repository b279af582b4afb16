// What kernels and generated programs may use of CUDA. Two readings of one text:
//
//   nvcc             CUDA itself
//   a host compiler  an emulation (runtime/cuda/host): blocks of fibers, streams in random legal orders
//
// The headers of CUDA's libraries are the real ones in both, so no declaration can drift, and a call that the emulation
// lacks is a link error. Rules for kernels: docs/cuda.md.
#pragma once
#ifndef __CUDACC__
#include "runtime/cuda/host/Words.h" // before CUDA's headers, which keep what is defined
#endif
#include "runtime/transport/NarrowFloat.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace echelon::cuda {

using runtime::bf16;
using runtime::fp16;
using Stream = cudaStream_t;

/// Ends the rank where a call of CUDA failed: `what` it was, and CUDA's message.
void check(cudaError_t error, const char *what);

/// An argument of a launch that says what the kernel does with it: `count` elements from `data` on.
enum class Use { reads, writes, both };
template <typename T> struct Arg {
  T *data;
  int64_t count;
  Use use;
};
template <typename T> Arg<const T> in(const T *data, int64_t count) { return {data, count, Use::reads}; }
template <typename T> Arg<T> out(T *data, int64_t count) { return {data, count, Use::writes}; }
template <typename T> Arg<T> inout(T *data, int64_t count) { return {data, count, Use::both}; }
template <typename T> const T &plain(const T &x) { return x; }
template <typename T> T *plain(const Arg<T> &x) { return x.data; }

/// Blocks, threads of a block (a multiple of 32, at most 1024), bytes of dynamic shared memory.
struct Shape {
  dim3 grid, block;
  size_t shared = 0;
};
constexpr int kThreads = 256;
/// A thread for each of n elements.
inline Shape cover(int64_t n, int threads = kThreads) {
  const int64_t blocks = (n + threads - 1) / threads;
  return {dim3(static_cast<unsigned>(blocks > 0 ? blocks : 1)), dim3(static_cast<unsigned>(threads))};
}
/// A warp for each of n rows.
inline Shape cover_warps(int64_t n, int threads = kThreads) { return cover(n * 32, threads); }
/// A block for each of n rows.
inline Shape cover_blocks(int64_t n, int threads = kThreads) {
  return {dim3(static_cast<unsigned>(n > 0 ? n : 1)), dim3(static_cast<unsigned>(threads))};
}

/// Blocks of 32 neighbouring columns, which warps share row by row: of `outer` boxes (rows, columns).
inline Shape cover_columns(int64_t outer, int64_t columns, int64_t rows) {
  const int64_t blocks = outer * ((columns + 31) / 32), warps = rows < 32 ? (rows > 0 ? rows : 1) : 32;
  return {dim3(static_cast<unsigned>(blocks > 0 ? blocks : 1)), dim3(static_cast<unsigned>(32 * warps))};
}

// launch("normalize", normalize_rows<T>, shape, stream, out(y, rows * n), in(x, rows * n), rows, n) runs the kernel on
// the plain arguments. touches(stream, "gemm", out(c, m * n), …) says what the next call of a library touches: CUDA
// does not listen, the emulation does.
#ifdef __CUDACC__
constexpr bool kIsEmulated = false;
#define DEVICE __device__ __forceinline__
#define UNROLL _Pragma("unroll")
template <typename T> DEVICE T *shared_memory() {
  extern __shared__ __align__(128) unsigned char bytes[];
  return reinterpret_cast<T *>(bytes);
}
template <typename... P, typename... A>
void launch(const char *what, void (*kernel)(P...), Shape shape, Stream stream, A... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared;
  config.stream = stream;
  if (shape.shared > 48 << 10)
    check(cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shape.shared)),
          what);
  check(cudaLaunchKernelEx(&config, kernel, static_cast<P>(plain(args))...), what);
}
template <typename... A> void touches(Stream, const char *, A...) {}
#endif

} // namespace echelon::cuda

#ifndef __CUDACC__
#include "runtime/cuda/host/Block.h"
#endif

namespace echelon::cuda {

/// What sums of T are added up in: float, of double double.
template <typename T> using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// The element that this thread is for, in a launch of `cover`.
DEVICE int64_t element() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
/// The row that this thread's warp is for, in a launch of `cover_warps`, and its lane.
DEVICE int64_t warp_row() { return element() / 32; }
DEVICE int lane() { return static_cast<int>(threadIdx.x % 32); }

/// The warp within its block, and how many there are.
DEVICE int warp() { return static_cast<int>(threadIdx.x / 32); }
DEVICE int warps() { return static_cast<int>(blockDim.x / 32); }
/// The column that this thread is for, in a launch of `cover_columns`; with several boxes the box, too.
DEVICE int64_t column() { return static_cast<int64_t>(blockIdx.x) * 32 + lane(); }
DEVICE int64_t column(int64_t columns) {
  return static_cast<int64_t>(blockIdx.x) % ((columns + 31) / 32) * 32 + lane();
}
DEVICE int64_t row_of_columns(int64_t columns) { return static_cast<int64_t>(blockIdx.x) / ((columns + 31) / 32); }

template <typename T> DEVICE T warp_sum(T x) {
  for (int offset = 16; offset > 0; offset /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}
/// NaN where one of the lanes' is.
template <typename T> DEVICE T warp_max(T x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, x, offset);
    x = x > other || x != x ? x : other;
  }
  return x;
}
/// Over the warps of a block, lane by lane and in their order; known to the first warp. `parts`: shared memory for 1024
/// numbers.
template <typename T> DEVICE T column_sum(T x, T *parts) {
  __syncthreads(); // parts may still be read
  parts[threadIdx.x] = x;
  __syncthreads();
  T sum = T(0);
  if (warp() == 0)
    for (int w = 0; w < warps(); ++w)
      sum += parts[w * 32 + lane()];
  return sum;
}
/// Over the block, on every thread. `parts`: shared memory for 32 numbers.
template <typename T> DEVICE T block_sum(T x, T *parts) {
  x = warp_sum(x);
  __syncthreads(); // parts may still be read
  if (lane() == 0)
    parts[warp()] = x;
  __syncthreads();
  return warp_sum(lane() < warps() ? parts[lane()] : T(0));
}
template <typename T> DEVICE T block_max(T x, T *parts) {
  x = warp_max(x);
  __syncthreads();
  if (lane() == 0)
    parts[warp()] = x;
  __syncthreads();
  return warp_max(parts[lane() < warps() ? lane() : 0]);
}

} // namespace echelon::cuda
