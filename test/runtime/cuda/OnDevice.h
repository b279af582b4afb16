// Memory of the device for the kernels' tests.
#pragma once
#include "runtime/cuda/Device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace echelon::cuda {

/// A copy on the device of a vector.
template <typename T> class OnDevice {
public:
  explicit OnDevice(const std::vector<T> &x) : count(x.size()) {
    check(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
    check(cudaMemcpy(memory, x.data(), count * sizeof(T), cudaMemcpyHostToDevice), "copy to the device");
  }
  OnDevice(OnDevice &&other) noexcept : memory(other.memory), count(other.count) { other.memory = nullptr; }
  OnDevice(const OnDevice &) = delete;
  ~OnDevice() {
    if (memory)
      check(cudaFree(memory), "cudaFree");
  }

  T *get() const { return static_cast<T *>(memory); }
  /// What it holds now, after all work of the device.
  std::vector<T> host() const {
    std::vector<T> x(count);
    check(cudaDeviceSynchronize(), "wait");
    check(cudaMemcpy(x.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost), "copy from the device");
    return x;
  }

private:
  void *memory = nullptr;
  size_t count;
};

/// Normal numbers, the same for the same seed, rounded to T.
template <typename T> std::vector<T> randomValues(int64_t n, int seed, double scale = 1, double mean = 0) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<double> normal;
  std::vector<T> x;
  for (int64_t i = 0; i < n; ++i) {
    const double v = mean + scale * normal(random);
    if constexpr (std::is_constructible_v<double, T> && !std::is_arithmetic_v<T>)
      x.push_back(T(static_cast<float>(v)));
    else
      x.push_back(static_cast<T>(v));
  }
  return x;
}

/// How far apart rounding may put two ways to compute numbers of size 1 that are stored as T.
template <typename T> double tolerance() {
  return std::is_same_v<T, double> ? 1e-12 : std::is_same_v<T, fp16> ? 1e-3 : std::is_same_v<T, bf16> ? 8e-3 : 1e-5;
}

/// Each is `tolerance` of its size away at most, and of the size of the largest where it is smaller than 1; infinities
/// and NaN are in the same places.
template <typename T, typename W>
void expectNear(const std::vector<T> &got, const std::vector<W> &want, double tolerance, const char *what = "") {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    const double g = static_cast<double>(got[i]), w = static_cast<double>(want[i]);
    if (g == w || (g != g && w != w))
      continue;
    ASSERT_LE(std::abs(g - w), tolerance * std::max(1.0, std::abs(w)))
        << what << "[" << i << "]: " << g << " instead of " << w;
  }
}

} // namespace echelon::cuda
