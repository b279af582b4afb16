#include "runtime/cuda/DnnCheck.h"
#include "runtime/cuda/Scratch.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

namespace echelon::cuda {

namespace {

constexpr int kBlocks = kIsEmulated ? 2 : 256; // of the comparison: each leaves its part

template <typename T> __global__ void fill_trial_kernel(T *x, int64_t count, float size, uint64_t seed) {
  if (element() < count) {
    uint64_t z = static_cast<uint64_t>(element()) + seed * 0x9e3779b97f4a7c15u; // SplitMix64's mixing
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    x[element()] = T((static_cast<float>(z >> 40) * 0x1p-23f - 1.0f) * size);
  }
}

/// What a block has seen of a - b and of b.
struct Part {
  double differences, squares, worst, largest;
};

template <typename T>
__global__ void difference_kernel(Part *parts, const T *a, const T *b, int64_t count, int64_t heads, int64_t rows,
                                  int64_t width, DnnStrides strides) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  __shared__ double shared[1024];
  double differences = 0, squares = 0, worst = 0, largest = 0;
  for (int64_t i = element(); i < count; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t row = i / width, slice = row / rows;
    const int64_t at =
        slice / heads * strides.batch + slice % heads * strides.head + row % rows * strides.row + i % width;
    const double y = static_cast<float>(b[at]), d = static_cast<float>(a[at]) - y;
    const bool isFinite = d - d == 0;
    differences += isFinite ? d * d : infinity;
    squares += y * y;
    const double size = isFinite ? (d < 0 ? -d : d) : infinity;
    worst = size > worst ? size : worst;
    largest = y > largest ? y : -y > largest ? -y : largest;
  }
  const auto leave = [&](double &to, double x, bool sums) {
    __syncthreads(); // the numbers before may still be read
    shared[threadIdx.x] = x;
    __syncthreads();
    if (threadIdx.x == 0) {
      double all = 0;
      for (unsigned t = 0; t < blockDim.x; ++t)
        all = sums ? all + shared[t] : shared[t] > all ? shared[t] : all;
      to = all;
    }
  };
  Part &mine = parts[blockIdx.x];
  leave(mine.differences, differences, true);
  leave(mine.squares, squares, true);
  leave(mine.worst, worst, false);
  leave(mine.largest, largest, false);
}

double ratio(double x, double of) { return x == 0 ? 0 : of > 0 ? x / of : std::numeric_limits<double>::infinity(); }

} // namespace

template <typename T> void fill_trial(Stream stream, T *x, int64_t count, double size, uint64_t seed) {
  if (count > 0)
    launch("fill_trial", fill_trial_kernel<T>, cover(count), stream, out(x, count), count, static_cast<float>(size),
           seed);
}

template <typename T>
Difference difference_of(Stream stream, const T *a, const T *b, int64_t batch, int64_t heads, int64_t rows,
                         int64_t width, const DnnStrides &strides) {
  const int64_t extent = (batch - 1) * strides.batch + (heads - 1) * strides.head + (rows - 1) * strides.row + width;
  void *memory = nullptr;
  check(cudaMalloc(&memory, kBlocks * sizeof(Part)), "cudaMalloc");
  launch("difference_of", difference_kernel<T>, cover(int64_t(kBlocks) * kThreads), stream,
         out(static_cast<Part *>(memory), kBlocks), in(a, extent), in(b, extent), batch * heads * rows * width, heads,
         rows, width, strides);
  std::vector<Part> parts(kBlocks);
  check(cudaMemcpyAsync(parts.data(), memory, kBlocks * sizeof(Part), cudaMemcpyDeviceToHost, stream), "difference_of");
  check(cudaStreamSynchronize(stream), "difference_of");
  check(cudaFree(memory), "difference_of");
  Part all = {};
  for (const Part &part : parts) {
    all.differences += part.differences, all.squares += part.squares;
    all.worst = std::fmax(all.worst, part.worst), all.largest = std::fmax(all.largest, part.largest);
  }
  return {std::sqrt(ratio(all.differences, all.squares)), ratio(all.worst, all.largest)};
}

Difference allowed(DnnType type) {
  const double unit = type == DnnType::bf16 ? 0x1p-8 : 0x1p-11;
  return {2 * unit, 8 * unit};
}

std::string figure(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", x);
  return text;
}

//===-- a trial --------------------------------------------------------------------------------------------------===//

DnnTrial::~DnnTrial() {
  cudaStreamSynchronize(stream);
  for (void *x : memory)
    cudaFree(x);
}

void *DnnTrial::makeBytes(size_t bytes) {
  void *x = nullptr;
  check(cudaMalloc(&x, bytes), "memory to try cuDNN (ECHELON_CUDNN=0: without it)");
  memory.push_back(x);
  check(cudaMemsetAsync(x, 0xff, bytes, stream), "cuDNN's trial");
  return x;
}

bool DnnTrial::isNear(const char *what, const Difference &difference, const Difference &most) {
  found = {std::fmax(found.overall, difference.overall), std::fmax(found.worst, difference.worst)};
  if (difference.overall <= most.overall && difference.worst <= most.worst)
    return true;
  why = std::string(what) + " differs from that of our own kernels by " + figure(difference.overall) + " overall and " +
        figure(difference.worst) + " at worst; rounding allows " + figure(most.overall) + " and " + figure(most.worst);
  return false;
}

bool DnnTrial::isSame(const Difference &difference) {
  if (difference.worst == 0)
    return true;
  why = "results differ from one run to the next";
  return false;
}

#define INSTANTIATE(T)                                                                                                 \
  template void fill_trial<T>(Stream, T *, int64_t, double, uint64_t);                                                 \
  template Difference difference_of<T>(Stream, const T *, const T *, int64_t, int64_t, int64_t, int64_t,               \
                                       const DnnStrides &);
INSTANTIATE(float)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE

} // namespace echelon::cuda
