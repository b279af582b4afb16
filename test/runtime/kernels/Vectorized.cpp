// One loop for each function of Elementwise.h, compiled by vectorized.sh, which asks gcc about each
// line that is marked.
#include "runtime/kernels/Elementwise.h"

namespace math = echelon::runtime::math;

#define UNARY(f)                                                                                                       \
  void f(float *y, const float *x, long n) {                                                                           \
    for (long i = 0; i < n; ++i)                                                                                       \
      y[i] = math::f(x[i]);                                                                                            \
  }
#define BINARY(f)                                                                                                      \
  void f(float *y, const float *x, const float *z, long n) {                                                           \
    for (long i = 0; i < n; ++i)                                                                                       \
      y[i] = math::f(x[i], z[i]);                                                                                      \
  }

namespace loops {
UNARY(abs)            // LOOP
UNARY(cos)            // LOOP
UNARY(erf)            // LOOP
UNARY(erf_grad)       // LOOP
UNARY(exp)            // LOOP
UNARY(floor)          // LOOP
UNARY(gelu)           // LOOP
UNARY(gelu_grad)      // LOOP
UNARY(gelu_tanh)      // LOOP
UNARY(gelu_tanh_grad) // LOOP
UNARY(log)            // LOOP
UNARY(relu)           // LOOP
UNARY(round_tf32)     // LOOP
UNARY(rsqrt)          // LOOP
UNARY(sigmoid)        // LOOP
UNARY(sign)           // LOOP
UNARY(silu)           // LOOP
UNARY(silu_grad)      // LOOP
UNARY(sin)            // LOOP
UNARY(sqrt)           // LOOP
UNARY(step)           // LOOP
UNARY(tanh)           // LOOP
BINARY(max)           // LOOP
BINARY(min)           // LOOP
BINARY(mod)           // LOOP
BINARY(pow)           // LOOP
BINARY(relu_grad)     // LOOP
} // namespace loops
