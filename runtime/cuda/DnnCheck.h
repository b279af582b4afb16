// What the library's results are held against our own with: values to try, and how far apart two results are.
#pragma once
#include "runtime/cuda/Device.h"
#include "runtime/cuda/Dnn.h"

#include <vector>

namespace echelon::cuda {

/// x: count numbers between -size and size, always the same for one seed.
template <typename T> void fill_trial(Stream stream, T *x, int64_t count, double size, uint64_t seed);

/// Of two results a and b: the square root of sum((a - b)^2) / sum(b^2), and max|a - b| / max|b|. Infinite where an
/// element is not finite.
struct Difference {
  double overall, worst;
};

/// a, b: (batch, heads, rows, width), both by the same strides. Waits for the stream.
template <typename T>
Difference difference_of(Stream stream, const T *a, const T *b, int64_t batch, int64_t heads, int64_t rows,
                         int64_t width, const DnnStrides &strides);

/// How far apart two right results may be. Each rounds them to T, and the library also what it multiplies with values
/// and keys, each time by half of a unit (bf16: 2^-8, fp16: 2^-11) of an element at most. So twice a unit overall;
/// eight for a single element, whose terms may cancel.
Difference allowed(DnnType type);

/// Memory for a trial of the library, and what it has found.
class DnnTrial {
public:
  explicit DnnTrial(Stream stream) : stream(stream) {}
  DnnTrial(const DnnTrial &) = delete;
  ~DnnTrial();

  /// count elements that hold NaN.
  template <typename X> X *make(int64_t count) {
    return static_cast<X *>(makeBytes(static_cast<size_t>(count) * sizeof(X)));
  }
  /// And with values between -size and size.
  template <typename X> X *make(int64_t count, double size, uint64_t seed) {
    X *x = make<X>(count);
    fill_trial(stream, x, count, size, seed);
    return x;
  }
  /// Takes a difference from our own result into account. False: it is too large, `why`.
  bool isNear(const char *what, const Difference &difference, const Difference &most);
  /// Takes the difference of two runs into account, which is to be none.
  bool isSame(const Difference &difference);

  const Stream stream;
  std::string why;
  Difference found = {0, 0}; // the largest

private:
  void *makeBytes(size_t bytes);
  std::vector<void *> memory;
};

/// Two digits, for messages.
std::string figure(double x);

} // namespace echelon::cuda
