// Products on the device against the CPU's: forms, sizes, batches, pointers that cuBLASLt does not take.
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/cuda/Gemm.h"
#include "test/runtime/kernels/Values.h"

namespace echelon::cuda {
namespace {

using runtime::expectClose;
using runtime::values;

constexpr Form kForms[] = {Form::nn, Form::nt, Form::tn, Form::tt};

template <typename T> struct GemmKernel : ::testing::Test {};
TYPED_TEST_SUITE(GemmKernel, runtime::Types);

template <typename T> std::vector<T> without(const std::vector<T> &x, int64_t lead) {
  return {x.begin() + lead, x.end()};
}

/// Operands `lead` elements from where memory begins.
template <typename T>
void compare(int64_t m, int64_t n, int64_t k, Form form, double alpha, double beta, int64_t pad = 0, int64_t lead = 0) {
  const bool ta = transposes_a(form), tb = transposes_b(form);
  const int64_t lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + pad, ldc = n + pad;
  auto a = values<T>(lead + (ta ? k : m) * lda, 1), b = values<T>(lead + (tb ? n : k) * ldb, 2),
       c = values<T>(lead + m * ldc, 3);
  auto expected = c;
  runtime::gemm(expected.data() + lead, a.data() + lead, b.data() + lead, m, n, k, form, lda, ldb, ldc, alpha, beta,
                runtime::Blas::openblas);
  Blas blas;
  OnDevice<unsigned char> workspace(std::vector<unsigned char>(1 << 10));
  blas.setWorkspace(nullptr, workspace.get(), 1 << 10);
  OnDevice<T> onA(a), onB(b), onC(c);
  gemm(blas, nullptr, onC.get() + lead, onA.get() + lead, onB.get() + lead, m, n, k, form, lda, ldb, ldc, alpha, beta);
  expectClose(onC.host(), expected, "c");
}

TYPED_TEST(GemmKernel, FormsAndSizes) {
  underSeeds([] {
    for (Form form : kForms)
      for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {5, 1, 9}, {1, 7, 3}, {33, 20, 65}}) {
        compare<TypeParam>(m, n, k, form, 1, 0);
        compare<TypeParam>(m, n, k, form, 0.5, -1.5, 3);
      }
  });
}

// Nothing to add up: beta * c. Nothing to make: no launch.
TYPED_TEST(GemmKernel, EmptySizes) {
  underSeeds([] {
    compare<TypeParam>(4, 3, 0, Form::nn, 1, 0);
    compare<TypeParam>(4, 3, 0, Form::nt, 1, 0.5);
    compare<TypeParam>(0, 3, 2, Form::nn, 1, 0);
  });
}

// Pointers that are no multiples of 16 bytes: tiles of our own.
TYPED_TEST(GemmKernel, UnalignedPointers) {
  underSeeds([] {
    for (Form form : kForms)
      for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{{3, 5, 7}, {70, 65, 17}, {64, 130, 33}}) {
        compare<TypeParam>(m, n, k, form, 1, 0, 0, 1);
        compare<TypeParam>(m, n, k, form, 2, 1, 1, 1);
      }
  });
}

template <typename T>
void compareBatched(int64_t m, int64_t n, int64_t k, Form form, int64_t lda, int64_t ldb, int64_t ldc,
                    std::initializer_list<BatchDim> batch, double beta = 0) {
  const bool ta = transposes_a(form), tb = transposes_b(form);
  int64_t sizeA = (ta ? k : m) * lda, sizeB = (tb ? n : k) * ldb, sizeC = m * ldc;
  for (const BatchDim &dim : batch)
    sizeA += (dim.size - 1) * dim.a, sizeB += (dim.size - 1) * dim.b, sizeC += (dim.size - 1) * dim.c;
  auto a = values<T>(sizeA, 1), b = values<T>(sizeB, 2), c = values<T>(sizeC, 3);
  auto expected = c;
  runtime::gemm_batched(expected.data(), a.data(), b.data(), m, n, k, form, lda, ldb, ldc, batch, 1.0, beta,
                        runtime::Blas::openblas);
  Blas blas;
  OnDevice<T> onA(a), onB(b), onC(c);
  gemm_batched(blas, nullptr, onC.get(), onA.get(), onB.get(), m, n, k, form, lda, ldb, ldc, batch, 1.0, beta);
  expectClose(onC.host(), expected, "c");
}

// One dimension in the library, others repeated, operands that repeat, sums, and dimensions that continue a matrix.
TYPED_TEST(GemmKernel, Batches) {
  using T = TypeParam;
  underSeeds([] {
    compareBatched<T>(4, 8, 4, Form::nn, 4, 8, 8, {{3, 32, 16, 32}});
    compareBatched<T>(3, 5, 7, Form::nn, 7, 5, 5, {{3, 15, 21, 35}}); // steps that are no multiples of 16 bytes
    compareBatched<T>(4, 8, 4, Form::nt, 4, 4, 8, {{2, 96, 48, 0}, {3, 32, 16, 32}}, 1);
    compareBatched<T>(4, 8, 4, Form::tn, 4, 8, 8, {{5, 0, 16, 32}});                  // continues k
    compareBatched<T>(4, 8, 4, Form::nt, 4, 4, 8, {{5, 0, 16, 32}}, 1);               // does not
    compareBatched<T>(4, 8, 4, Form::nn, 4, 8, 8, {{5, 32, 16, 0}});                  // continues m
    compareBatched<T>(4, 8, 4, Form::nt, 4, 4, 24, {{3, 8, 0, 32}});                  // continues n
    compareBatched<T>(4, 8, 4, Form::nn, 12, 8, 24, {{3, 8, 4, 32}, {2, 96, 48, 0}}); // heads within rows
    compareBatched<T>(4, 4, 4, Form::nn, 4, 4, 4, {{2, 0, 16, 64}, {2, 16, 0, 16}, {3, 0, 32, 0}}, 0.5);
    compareBatched<T>(4, 8, 4, Form::nn, 4, 8, 8, {{0, 32, 16, 32}});
    compareBatched<T>(4, 8, 0, Form::nn, 4, 8, 8, {{2, 32, 16, 32}, {2, 0, 0, 0}}, 0.5);
  });
}

/// The sums in float of what is stored in two bytes.
template <typename N, typename C> void compareNarrow(int64_t m, int64_t n, int64_t k, Form form, int64_t lead) {
  const bool ta = transposes_a(form), tb = transposes_b(form);
  std::vector<N> a, b;
  for (float x : values<float>(lead + m * k, 1))
    a.push_back(N(x));
  for (float x : values<float>(lead + k * n, 2))
    b.push_back(N(x));
  std::vector<float> wideA(a.begin(), a.end()), wideB(b.begin(), b.end()), expected(m * n);
  runtime::gemm(expected.data(), wideA.data() + lead, wideB.data() + lead, m, n, k, form, ta ? m : k, tb ? k : n, n,
                1.0, 0.0, runtime::Blas::openblas);
  Blas blas;
  OnDevice<N> onA(a), onB(b);
  OnDevice<C> onC(std::vector<C>(m * n));
  gemm(blas, nullptr, onC.get(), onA.get() + lead, onB.get() + lead, m, n, k, form);
  const std::vector<C> c = onC.host();
  expectClose(std::vector<float>(c.begin(), c.end()), expected, "c",
              std::is_same_v<C, float>  ? 1
              : std::is_same_v<C, bf16> ? 500
                                        : 80);
}

TEST(GemmKernelNarrow, SumsInFloat) {
  underSeeds([] {
    for (Form form : kForms)
      for (int64_t lead : {0, 1}) {
        compareNarrow<bf16, float>(9, 16, 24, form, lead);
        compareNarrow<fp16, float>(9, 16, 24, form, lead);
        compareNarrow<bf16, bf16>(9, 16, 24, form, lead);
        compareNarrow<fp16, fp16>(9, 16, 24, form, lead);
      }
  });
}

/// c = a b + bias, rounded once.
template <typename N> void compareLinear(int64_t m, int64_t n, int64_t k, Form form, int64_t lead) {
  const bool ta = transposes_a(form), tb = transposes_b(form);
  auto stored = [](int64_t count, int seed) {
    const std::vector<float> x = values<float>(count, seed);
    return std::vector<N>(x.begin(), x.end());
  };
  const std::vector<N> a = stored(lead + m * k, 1), b = stored(lead + k * n, 2), bias = stored(n, 3);
  const std::vector<float> wideA(a.begin(), a.end()), wideB(b.begin(), b.end());
  std::vector<float> expected(m * n);
  runtime::gemm(expected.data(), wideA.data() + lead, wideB.data() + lead, m, n, k, form, ta ? m : k, tb ? k : n, n,
                1.0, 0.0, runtime::Blas::openblas);
  for (int64_t i = 0; i < m * n; ++i)
    expected[i] += float(bias[i % n]);
  Blas blas;
  const OnDevice<N> onA(a), onB(b), onBias(bias);
  OnDevice<N> onC(std::vector<N>(m * n));
  linear(blas, nullptr, onC.get(), onA.get() + lead, onB.get() + lead, onBias.get(), m, n, k, form);
  const std::vector<N> c = onC.host();
  expectClose(std::vector<float>(c.begin(), c.end()), expected, "c", std::is_same_v<N, bf16> ? 500 : 80);
}

// By the library, and (lead 1) by tiles of our own.
TEST(GemmKernelNarrow, AddsABias) {
  underSeeds([] {
    for (Form form : kForms)
      for (int64_t lead : {0, 1}) {
        compareLinear<bf16>(9, 16, 24, form, lead);
        compareLinear<fp16>(9, 16, 24, form, lead);
      }
  });
}

// A shape that comes again makes no plan.
TEST(GemmKernelPlans, AreKept) {
  Blas blas;
  OnDevice<float> a(std::vector<float>(64, 1.0f)), c(std::vector<float>(64));
  for (int i = 0; i < 3; ++i)
    gemm(blas, nullptr, c.get(), a.get(), a.get(), 8, 8, 8);
  EXPECT_EQ(blas.planCount(), 1u);
  gemm(blas, nullptr, c.get(), a.get(), a.get(), 8, 8, 8, Form::nt);
  EXPECT_EQ(blas.planCount(), 2u);
  EXPECT_EQ(c.host(), std::vector<float>(64, 8.0f));
}

} // namespace
} // namespace echelon::cuda
