// Products of bf16 and fp16 with sums in float. bf16 goes to oneDNN where the processor has instructions for it
// (avx512_bf16); all else is made floats, block by block, and multiplied as those.
#include "runtime/kernels/Gemm.h"
#include "runtime/kernels/cpu/Threads.h"
#include "runtime/launch/Fail.h"
#include <algorithm>
#include <array>
#include <dnnl.hpp>
#include <map>
#include <vector>

namespace echelon::runtime {
namespace {

bool transposesA(Form form) { return form == Form::tn || form == Form::tt; }
bool transposesB(Form form) { return form == Form::nt || form == Form::tt; }

bool hasInstructions() {
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return has;
}

const dnnl::engine &engine() {
  static const dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

using Key = std::array<int64_t, 8>;

/// One primitive for each shape, made at the first call and kept.
const dnnl::matmul &primitiveFor(const Key &key) {
  thread_local std::map<Key, dnnl::matmul> known;
  auto [it, isNew] = known.try_emplace(key);
  if (isNew) {
    using dnnl::memory;
    const auto [m, n, k, form, lda, ldb, ldc, adds] = key;
    const bool ta = transposesA(static_cast<Form>(form)), tb = transposesB(static_cast<Form>(form));
    const memory::desc a({m, k}, memory::data_type::bf16, ta ? memory::dims{1, lda} : memory::dims{lda, 1});
    const memory::desc b({k, n}, memory::data_type::bf16, tb ? memory::dims{1, ldb} : memory::dims{ldb, 1});
    const memory::desc c({m, n}, memory::data_type::f32, memory::dims{ldc, 1});
    dnnl::primitive_attr attributes;
    if (adds) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    it->second = dnnl::matmul(dnnl::matmul::primitive_desc({a, b, c}, attributes, engine()));
  }
  return it->second;
}

void byInstructions(float *c, const bf16 *a, const bf16 *b, const Key &key) {
  const dnnl::matmul &product = primitiveFor(key);
  thread_local dnnl::stream stream(engine());
  auto operand = [&](dnnl_query_t what, const void *data) {
    const dnnl_memory_desc_t *type = dnnl_primitive_desc_query_md(product.get_primitive_desc(), what, 0);
    return dnnl::memory(dnnl::memory::desc(*type), engine(), const_cast<void *>(data));
  };
  product.execute(stream, {{DNNL_ARG_SRC, operand(dnnl_query_src_md, a)},
                           {DNNL_ARG_WEIGHTS, operand(dnnl_query_weights_md, b)},
                           {DNNL_ARG_DST, operand(dnnl_query_dst_md, c)}});
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
  const bool ta = transposesA(form), tb = transposesB(form);
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
  const bool ta = transposesA(form), tb = transposesB(form);
  product(c, a, b, m, n, k, form, std::max(lda, ta ? m : k), std::max(ldb, tb ? k : n), std::max(ldc, n), beta == 1);
}

template <typename N, typename>
void gemm_batched(float *c, const N *a, const N *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda,
                  int64_t ldb, int64_t ldc, std::initializer_list<BatchDim> batch, double alpha, double beta,
                  Blas library) {
  forEachProduct(batch, [&](int64_t toC, int64_t toA, int64_t toB, bool first) {
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
