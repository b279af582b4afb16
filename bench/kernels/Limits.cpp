#include "Limits.h"
#include "runtime/kernels/cpu/Vectors.h"
#include <cstring>

namespace echelon::bench {
namespace {
typedef float Vector __attribute__((vector_size(32)));
} // namespace

double Traffic::bytes() const {
  double sum = 0;
  for (const Stream &s : streams)
    sum += double(s.bytes) * (s.kind == 'u' ? 2 : 1);
  return sum;
}

StreamLoop::StreamLoop(const Traffic &wanted) : traffic(wanted) {
  for (Traffic::Stream &s : traffic.streams) {
    s.data = static_cast<char *>(memory.allocate(s.bytes + 128));
    std::memset(s.data, 0, s.bytes);
  }
}

/// A step takes about 1 KB of the longest stream, and of the others their share.
void StreamLoop::operator()() {
  int64_t longest = 1;
  for (const Traffic::Stream &s : traffic.streams)
    longest = std::max(longest, s.bytes);
  const int64_t steps = (longest + 1023) / 1024;
  Vector a = {}, b = {}, c = {}, d = {};
  const Vector one = Vector{} + 1.0f;
  for (int64_t step = 0; step < steps; ++step)
    for (const Traffic::Stream &s : traffic.streams) {
      auto *from = reinterpret_cast<Vector *>(s.data + (s.bytes * step / steps) / 128 * 128);
      auto *end = reinterpret_cast<Vector *>(s.data + (s.bytes * (step + 1) / steps) / 128 * 128);
      if (s.kind == 'r')
        for (; from < end; from += 4)
          a += from[0], b += from[1], c += from[2], d += from[3];
      else if (s.kind == 'w')
        for (; from < end; from += 4)
          from[0] = one, from[1] = one, from[2] = one, from[3] = one;
      else
        for (; from < end; from += 4)
          from[0] += one, from[1] += one, from[2] += one, from[3] += one;
    }
  a += b + c + d;
  volatile float sink = a[0];
  (void)sink;
}

double secondsOfExponentials(double count) {
  using runtime::detail::exp_down;
  static const double one = [] {
    constexpr int steps = 512, lanes = 8;
    volatile float start = -0.5f;
    const Vector x = Vector{} + start, step = Vector{} + 1e-6f;
    volatile float sink;
    auto loop = [&] { // four sums, as many values that do not wait for each other
      Vector a = x, b = x - step, c = x + step, d = b - step, sums[4] = {};
      for (int i = 0; i < steps; i += 4) {
        sums[0] += exp_down(a), sums[1] += exp_down(b), sums[2] += exp_down(c), sums[3] += exp_down(d);
        a -= step, b -= step, c -= step, d -= step;
      }
      sink = (sums[0] + sums[1] + sums[2] + sums[3])[0];
    };
    return fastest(loop) / (steps * lanes);
  }();
  return one * count;
}

} // namespace echelon::bench
