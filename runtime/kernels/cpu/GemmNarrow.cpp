// Products of bf16 and fp16 with sums in float. bf16 goes to oneDNN where the processor has instructions for it
// (avx512_bf16); all else is made floats, block by block, and multiplied as those.
#include "runtime/kernels/Gemm.h"
#include "runtime/kernels/cpu/BatchedGemm.h"
#include "runtime/kernels/cpu/Dnnl.h"
#include "runtime/kernels/cpu/Threads.h"
#include "runtime/launch/Fail.h"
#include <algorithm>
#include <array>
#include <map>
#include <vector>

namespace echelon::runtime {
namespace {

bool hasInstructions() {
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return has;
}

using detail::engine;
using dnnl::memory;

using Key = std::array<int64_t, 8>;

/// What multiplies matrices of one shape.
struct Product {
  dnnl::matmul primitive;
  memory::desc a, b, c;
};

/// Made at the first call and kept.
const Product &productOf(const Key &key) {
  thread_local std::map<Key, Product> known;
  auto [it, isNew] = known.try_emplace(key);
  Product &product = it->second;
  if (isNew) {
    const auto [m, n, k, form, lda, ldb, ldc, adds] = key;
    const bool ta = transposes_a(static_cast<Form>(form)), tb = transposes_b(static_cast<Form>(form));
    product.a = {{m, k}, memory::data_type::bf16, ta ? memory::dims{1, lda} : memory::dims{lda, 1}};
    product.b = {{k, n}, memory::data_type::bf16, tb ? memory::dims{1, ldb} : memory::dims{ldb, 1}};
    product.c = {{m, n}, memory::data_type::f32, memory::dims{ldc, 1}};
    dnnl::primitive_attr attributes;
    if (adds) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    product.primitive =
        dnnl::matmul(dnnl::matmul::primitive_desc({product.a, product.b, product.c}, attributes, engine()));
  }
  return product;
}

void byInstructions(float *c, const bf16 *a, const bf16 *b, const Key &key) {
  const Product &product = productOf(key);
  thread_local dnnl::stream stream(engine());
  auto operand = [](const memory::desc &type, const void *data) {
    return memory(type, engine(), const_cast<void *>(data));
  };
  product.primitive.execute(stream, {{DNNL_ARG_SRC, operand(product.a, a)},
                                     {DNNL_ARG_WEIGHTS, operand(product.b, b)},
                                     {DNNL_ARG_DST, operand(product.c, c)}});
  stream.wait();
}

/// `rows` rows of `columns` elements as floats, dense.
template <typename N> void widen(std::vector<float> &to, const N *from, int64_t rows, int64_t columns, int64_t ld) {
  to.resize(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      to[static_cast<size_t>(i * columns + j)] = static_cast<float>(from[i * ld + j]);
}

template <typename N>
void byBlocks(float *c, const N *a, const N *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda, int64_t ldb,
              int64_t ldc, bool adds) {
  constexpr int64_t rows = 1024, columns = 1024, depth = 512;
  const bool ta = transposes_a(form), tb = transposes_b(form);
  thread_local std::vector<float> blockA, blockB;
  for (int64_t l = 0; l < k; l += depth)
    for (int64_t j = 0; j < n; j += columns) {
      const int64_t deep = std::min(depth, k - l), wide = std::min(columns, n - j);
      widen(blockB, tb ? b + j * ldb + l : b + l * ldb + j, tb ? wide : deep, tb ? deep : wide, ldb);
      for (int64_t i = 0; i < m; i += rows) {
        const int64_t high = std::min(rows, m - i);
        widen(blockA, ta ? a + l * lda + i : a + i * lda + l, ta ? deep : high, ta ? high : deep, lda);
        gemm(c + i * ldc + j, blockA.data(), blockB.data(), high, wide, deep, form, ta ? high : deep, tb ? deep : wide,
             ldc, 1.0, adds || l > 0 ? 1.0 : 0.0, choose_gemm(high, wide, deep, ta, tb, sizeof(float)));
      }
    }
}

void product(float *c, const bf16 *a, const bf16 *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda,
             int64_t ldb, int64_t ldc, bool adds) {
  if (hasInstructions())
    return byInstructions(c, a, b, {m, n, k, static_cast<int64_t>(form), lda, ldb, ldc, adds});
  byBlocks(c, a, b, m, n, k, form, lda, ldb, ldc, adds);
}
void product(float *c, const fp16 *a, const fp16 *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda,
             int64_t ldb, int64_t ldc, bool adds) {
  byBlocks(c, a, b, m, n, k, form, lda, ldb, ldc, adds);
}

} // namespace

template <typename N, typename>
void gemm(float *c, const N *a, const N *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda, int64_t ldb,
          int64_t ldc, double alpha, double beta, Blas) {
  if (alpha != 1 || (beta != 0 && beta != 1))
    fail("a product of numbers of two bytes is not scaled");
  if (m <= 0 || n <= 0)
    return;
  if (k <= 0) {
    for (int64_t i = 0; beta == 0 && i < m; ++i)
      std::fill_n(c + i * ldc, n, 0.0f);
    return;
  }
  apply_threads();
  const bool ta = transposes_a(form), tb = transposes_b(form);
  product(c, a, b, m, n, k, form, std::max(lda, ta ? m : k), std::max(ldb, tb ? k : n), std::max(ldc, n), beta == 1);
}

template <typename N, typename>
void gemm_batched(float *c, const N *a, const N *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda,
                  int64_t ldb, int64_t ldc, std::initializer_list<BatchDim> batch, double alpha, double beta,
                  Blas library) {
  detail::forEachProduct(batch, [&](int64_t toC, int64_t toA, int64_t toB, bool first) {
    gemm(c + toC, a + toA, b + toB, m, n, k, form, lda, ldb, ldc, alpha, first ? beta : 1.0, library);
  });
}

#define INSTANTIATE(N)                                                                                                 \
  template void gemm<N, void>(float *, const N *, const N *, int64_t, int64_t, int64_t, Form, int64_t, int64_t,        \
                              int64_t, double, double, Blas);                                                          \
  template void gemm_batched<N, void>(float *, const N *, const N *, int64_t, int64_t, int64_t, Form, int64_t,         \
                                      int64_t, int64_t, std::initializer_list<BatchDim>, double, double, Blas);
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE

} // namespace echelon::runtime
