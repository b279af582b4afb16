// Matrix products against the plain loops: both libraries and tiles, all forms, odd sizes, row lengths beyond the row.
#include "runtime/kernels/Gemm.h"
#include "Values.h"
#include "runtime/kernels/cpu/GemmTiled.h"
#include "runtime/kernels/cpu/Threads.h"
#include <array>

namespace echelon::runtime {
namespace {

template <typename T> struct Gemm : ::testing::Test {};
TYPED_TEST_SUITE(Gemm, Types);

template <typename T> void compare(int64_t m, int64_t n, int64_t k, Form form, double beta, Blas library) {
  bool ta = form == Form::tn || form == Form::tt, tb = form == Form::nt || form == Form::tt;
  int64_t lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 2, ldc = n + 1;
  auto a = values<T>((ta ? k : m) * lda + 1, 1), b = values<T>((tb ? n : k) * ldb + 1, 2);
  auto c = values<T>(m * ldc + 1, 3), expected = c;
  gemm(c.data(), a.data(), b.data(), m, n, k, form, lda, ldb, ldc, 1.25, beta, library);
  reference::gemm(expected.data(), a.data(), b.data(), m, n, k, form, lda, ldb, ldc, 1.25, beta);
  SCOPED_TRACE(testing::Message() << m << " " << n << " " << k << " form " << int(form) << " library " << int(library));
  expectClose(c, expected, "c", 3);
}

// Every form, with sizes around the vector widths and single rows, columns and products.
TYPED_TEST(Gemm, MatchesTheReference) {
  for (Blas library : {Blas::openblas, Blas::onednn, Blas::tiled})
    for (Form form : {Form::nn, Form::nt, Form::tn, Form::tt})
      for (int64_t m : {1, 3, 17, 64})
        for (int64_t n : {1, 5, 33})
          for (int64_t k : {0, 1, 7, 40})
            for (double beta : {0.0, 1.0})
              compare<TypeParam>(m, n, k, form, beta, library);
}

// Sizes around those of tiles (6 x 16), of blocks along k (256) and of blocks of a's rows (264): few columns beside
// many rows, and the other way round; a's and b's last rows end where their memory does.
TYPED_TEST(Gemm, TilesMatchTheReferenceAroundTheirBlocks) {
  for (Form form : {Form::nn, Form::nt, Form::tn, Form::tt})
    for (double beta : {0.0, 1.0, 0.5})
      for (auto [m, n, k] : {std::array{7, 16, 256}, {12, 15, 257}, {13, 33, 513}, {265, 17, 300}, {533, 130, 70}})
        compare<TypeParam>(m, n, k, form, beta, Blas::tiled);
}

// Rows and columns of a product are the same bits when they are multiplied alone: a layout that divides them changes
// nothing.
TEST(GemmTiled, PartsHaveTheBitsOfTheWhole) {
  const int64_t m = 300, n = 160, k = 515;
  auto a = values<float>(m * k, 1), b = values<float>(k * n, 2);
  std::vector<float> whole(m * n), part(m * n);
  gemm_tiled(whole.data(), n, {a.data(), k, 1}, {b.data(), n, 1}, m, n, k, 1, 0);
  for (int64_t cut : {1, 6, 37, 144})
    for (int64_t i = 0; i < m; i += cut)
      gemm_tiled(part.data() + i * n, n, {a.data() + i * k, k, 1}, {b.data(), n, 1}, std::min(cut, m - i), n, k, 1, 0);
  EXPECT_EQ(part, whole);
  for (int64_t cut : {16, 50})
    for (int64_t j = 0; j < n; j += cut)
      gemm_tiled(part.data() + j, n, {a.data(), k, 1}, {b.data() + j, n, 1}, m, std::min(cut, n - j), k, 1, 0);
  EXPECT_EQ(part, whole);
}

// With beta = 0 what C held does not matter, not even NaN.
TYPED_TEST(Gemm, BetaZeroDoesNotReadC) {
  for (int64_t n : {1, 4}) {
    std::vector<TypeParam> a(8, 1), b(2 * n, 1), c(4 * n, NAN);
    gemm(c.data(), a.data(), b.data(), 4, n, 2);
    for (TypeParam x : c)
      EXPECT_EQ(x, TypeParam(2));
  }
}

// Two batch dimensions, one operand repeated over the first: strides of 0 read again.
TYPED_TEST(Gemm, BatchesByStrides) {
  using T = TypeParam;
  const int64_t m = 3, n = 4, k = 5;
  auto a = values<T>(2 * 3 * m * k, 1), b = values<T>(3 * k * n, 2);
  std::vector<T> c(2 * 3 * m * n), expected(c.size());
  gemm_batched(c.data(), a.data(), b.data(), m, n, k, Form::nn, k, n, n,
               {{2, 3 * m * n, 3 * m * k, 0}, {3, m * n, m * k, k * n}}, 1.0, 0.0, Blas::openblas);
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j)
      reference::gemm(expected.data() + (i * 3 + j) * m * n, a.data() + (i * 3 + j) * m * k, b.data() + j * k * n, m, n,
                      k, Form::nn, k, n, n, 1, 0);
  expectClose(c, expected, "c");
}

// A stride of 0 in c sums over the batch; what c held is overwritten once.
TYPED_TEST(Gemm, StrideZeroInCSums) {
  using T = TypeParam;
  const int64_t m = 2, n = 3, k = 4, batch = 5;
  auto a = values<T>(batch * m * k, 1), b = values<T>(batch * k * n, 2), c = values<T>(m * n, 3);
  std::vector<T> expected(m * n);
  gemm_batched(c.data(), a.data(), b.data(), m, n, k, Form::nn, k, n, n, {{batch, 0, m * k, k * n}}, 1.0, 0.0,
               Blas::openblas);
  for (int64_t i = 0; i < batch; ++i)
    reference::gemm(expected.data(), a.data() + i * m * k, b.data() + i * k * n, m, n, k, Form::nn, k, n, n, 1, i > 0);
  expectClose(c, expected, "c");
}

// The result does not depend on how many threads the libraries may use by more than rounding.
TYPED_TEST(Gemm, MoreThreadsGiveTheSameProduct) {
  set_threads(2);
  EXPECT_EQ(threads(), 2);
  compare<TypeParam>(130, 120, 110, Form::nn, 0, Blas::openblas);
  compare<TypeParam>(130, 120, 110, Form::nt, 0, Blas::onednn);
  compare<TypeParam>(130, 160, 110, Form::nn, 0, Blas::tiled);
  set_threads(1);
}

// Products of two bytes: those of the same numbers as floats, in every form, with rows apart, added or not, and by
// blocks (1024 x 1024 x 512).
template <typename N> struct NarrowGemm : ::testing::Test {};
using NarrowTypes = ::testing::Types<bf16, fp16>;
TYPED_TEST_SUITE(NarrowGemm, NarrowTypes);

template <typename N> void compareNarrow(int64_t m, int64_t n, int64_t k, Form form, double beta) {
  bool ta = form == Form::tn || form == Form::tt, tb = form == Form::nt || form == Form::tt;
  int64_t lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 2, ldc = n + 1;
  auto a = values<float>((ta ? k : m) * lda + 1, 1), b = values<float>((tb ? n : k) * ldb + 1, 2);
  std::vector<N> narrowA(a.size()), narrowB(b.size());
  for (auto [wide, narrow] : {std::pair(&a, &narrowA), {&b, &narrowB}})
    for (size_t i = 0; i < wide->size(); ++i)
      (*wide)[i] = (*narrow)[i] = N((*wide)[i]);
  auto c = values<float>(m * ldc + 1, 3), expected = c;
  gemm(c.data(), narrowA.data(), narrowB.data(), m, n, k, form, lda, ldb, ldc, 1.0, beta, Blas::onednn);
  reference::gemm(expected.data(), a.data(), b.data(), m, n, k, form, lda, ldb, ldc, 1.0, beta);
  SCOPED_TRACE(testing::Message() << m << " " << n << " " << k << " form " << int(form));
  expectClose(c, expected, "c", 3);
}
TYPED_TEST(NarrowGemm, MatchesTheReference) {
  for (Form form : {Form::nn, Form::nt, Form::tn, Form::tt})
    for (double beta : {0.0, 1.0}) {
      for (int64_t m : {1, 3, 17})
        for (int64_t n : {1, 5, 33})
          for (int64_t k : {0, 1, 7, 40})
            compareNarrow<TypeParam>(m, n, k, form, beta);
      compareNarrow<TypeParam>(1030, 9, 20, form, beta);
      compareNarrow<TypeParam>(8, 1030, 530, form, beta);
    }
}
TYPED_TEST(NarrowGemm, BatchesByStrides) {
  using N = TypeParam;
  const int64_t m = 3, n = 4, k = 5, batch = 6;
  std::vector<N> a(batch * m * k), b(k * n);
  std::vector<float> wideA(a.size()), wideB(b.size()), c(m * n, 9), expected(m * n);
  for (size_t i = 0; i < a.size(); ++i)
    wideA[i] = a[i] = N(float(i) - 40);
  for (size_t i = 0; i < b.size(); ++i)
    wideB[i] = b[i] = N(float(i % 7));
  gemm_batched(c.data(), a.data(), b.data(), m, n, k, Form::nn, k, n, n, {{batch, 0, m * k, 0}}, 1.0, 0.0,
               Blas::onednn); // a stride of 0 in c sums
  for (int64_t i = 0; i < batch; ++i)
    reference::gemm(expected.data(), wideA.data() + i * m * k, wideB.data(), m, n, k, Form::nn, k, n, n, 1, i > 0);
  expectClose(c, expected, "c");
}

} // namespace
} // namespace echelon::runtime
