// The emulated cuBLASLt against plain loops in double: types, forms, batches, epilogues, and what it refuses.
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/kernels/Elementwise.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace echelon::cuda {
namespace {

constexpr cublasLtEpilogue_t kEpilogues[] = {
    CUBLASLT_EPILOGUE_DEFAULT,     CUBLASLT_EPILOGUE_BIAS,          CUBLASLT_EPILOGUE_RELU,
    CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_GELU,          CUBLASLT_EPILOGUE_GELU_BIAS,
    CUBLASLT_EPILOGUE_GELU_AUX,    CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,        CUBLASLT_EPILOGUE_BGRADB};
constexpr size_t kSmallWorkspace = 4 << 10, kWorkspaceOfSums = 32 << 20;

template <typename T> constexpr cudaDataType_t typeOf() {
  return std::is_same_v<T, float>    ? CUDA_R_32F
         : std::is_same_v<T, double> ? CUDA_R_64F
         : std::is_same_v<T, bf16>   ? CUDA_R_16BF
                                     : CUDA_R_16F;
}

/// Of how many digits a result is right.
template <typename T> double toleranceOf() {
  return std::is_same_v<T, double> ? 1e-13 : std::is_same_v<T, float> ? 3e-6 : std::is_same_v<T, bf16> ? 5e-3 : 7e-4;
}

/// Numbers from -1 to 1.
template <typename T> std::vector<T> numbers(int64_t n, int seed) {
  std::vector<T> x;
  for (int64_t i = 0; i < n; ++i)
    x.push_back(T(static_cast<float>((i * 7919 + seed * 104729) % 2003) / 1001.0f - 1.0f));
  return x;
}

template <typename T> void expectNear(const std::vector<T> &x, const std::vector<double> &expected, const char *what) {
  ASSERT_EQ(x.size(), expected.size());
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(static_cast<double>(x[i]), expected[i], toleranceOf<T>() * (1 + std::abs(expected[i])))
        << what << " at " << i;
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double slopeOfGelu(double x) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), c = std::cosh(u);
  return 0.5 + 0.5 * std::tanh(u) + 0.5 * x * std::sqrt(2 / M_PI) * (1 + 0.134145 * x * x) / (c * c);
}

/// What a call of the library is about. Matrices are column-major.
struct Case {
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  bool ta = false, tb = false;
  int64_t m = 16, n = 12, k = 20;
  double alpha = 1, beta = 0;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  int32_t batch = 1;
  int64_t pad = 0; // of leading dimensions
  bool sharesA = false;
  // For refusals:
  size_t workspace = kSmallWorkspace;
  int biasType = -1;
  int64_t auxLd = 16;
  int64_t lead = 0; // elements from an aligned address to where operands begin
  uint32_t alignment = 16;

  bool has(int part) const { return (epilogue & part) != 0; }
  int64_t lda() const { return (ta ? k : m) + pad; }
  int64_t ldb() const { return (tb ? n : k) + pad; }
  int64_t ldd() const { return m + pad; }
  int64_t strideA() const { return sharesA ? 0 : round(lda() * (ta ? m : k)); }
  int64_t strideB() const { return round(ldb() * (tb ? k : n)); }
  int64_t strideD() const { return round(ldd() * n); }
  int64_t biases() const { return has(512) ? n : m; }
  /// To what steps of a batch must be multiples of.
  static int64_t round(int64_t x) { return (x + 7) / 8 * 8; }
};

/// Device memory and handles of one call; D is C.
template <typename D, typename T> class Call {
public:
  explicit Call(const Case &c)
      : c(c), hostA(numbers<T>(c.lead + size(c.strideA(), c.lda() * (c.ta ? c.m : c.k)), 1)),
        hostB(numbers<T>(c.lead + size(c.strideB(), c.ldb() * (c.tb ? c.k : c.n)), 2)),
        hostD(numbers<D>(c.lead + size(c.strideD(), c.ldd() * c.n), 3)), hostBias(numbers<D>(c.biases(), 4)),
        hostAux(numbers<D>(c.auxLd * c.n, 5)), a(hostA), b(hostB), d(hostD), bias(hostBias), aux(hostAux),
        workspace(std::vector<char>(c.workspace)) {
    cublasLtCreate(&library);
    cublasLtMatmulDescCreate(&desc, c.compute, scaleType());
    describe();
    layoutA = layout(typeOf<T>(), c.ta ? c.k : c.m, c.ta ? c.m : c.k, c.lda(), c.strideA());
    layoutB = layout(typeOf<T>(), c.tb ? c.n : c.k, c.tb ? c.k : c.n, c.ldb(), c.strideB());
    layoutD = layout(typeOf<D>(), c.m, c.n, c.ldd(), c.strideD());
  }
  ~Call() {
    for (cublasLtMatrixLayout_t x : {layoutA, layoutB, layoutD})
      cublasLtMatrixLayoutDestroy(x);
    cublasLtMatmulDescDestroy(desc);
    cublasLtDestroy(library);
  }
  Call(const Call &) = delete;

  cublasStatus_t choose() {
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &c.workspace, 8);
    for (auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      cublasLtMatmulPreferenceSetAttribute(preference, which, &c.alignment, 4);
    int found = -1;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(library, desc, layoutA, layoutB, layoutD, layoutD,
                                                                 preference, 1, &chosen, &found);
    EXPECT_EQ(found, status == CUBLAS_STATUS_SUCCESS);
    EXPECT_TRUE(found == 0 || chosen.workspaceSize <= c.workspace);
    cublasLtMatmulPreferenceDestroy(preference);
    return status;
  }
  cublasStatus_t multiply(const cublasLtMatmulAlgo_t *algorithm, size_t bytes) {
    const float floats[] = {static_cast<float>(c.alpha), static_cast<float>(c.beta)};
    const double doubles[] = {c.alpha, c.beta};
    const bool isDouble = scaleType() == CUDA_R_64F;
    const void *alpha = isDouble ? static_cast<const void *>(doubles) : floats;
    const void *beta = isDouble ? static_cast<const void *>(doubles + 1) : floats + 1;
    return cublasLtMatmul(library, desc, alpha, a.get() + c.lead, layoutA, b.get() + c.lead, layoutB, beta,
                          d.get() + c.lead, layoutD, d.get() + c.lead, layoutD, algorithm, workspace.get(), bytes,
                          nullptr);
  }
  cublasStatus_t run() {
    const cublasStatus_t status = choose();
    return status == CUBLAS_STATUS_SUCCESS ? multiply(&chosen.algo, chosen.workspaceSize) : status;
  }
  void compareWithLoops();

  const Case c;
  const std::vector<T> hostA, hostB;
  const std::vector<D> hostD, hostBias, hostAux;
  OnDevice<T> a, b;
  OnDevice<D> d, bias, aux;
  OnDevice<char> workspace;
  cublasLtMatmulHeuristicResult_t chosen = {};

private:
  cublasLtHandle_t library;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t layoutA, layoutB, layoutD;

  static constexpr cudaDataType_t scaleType() { return std::is_same_v<T, double> ? CUDA_R_64F : CUDA_R_32F; }
  int64_t size(int64_t stride, int64_t one) const { return stride * (c.batch - 1) + one; }
  void set(cublasLtMatmulDescAttributes_t which, const void *value, size_t bytes) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc, which, value, bytes), CUBLAS_STATUS_SUCCESS);
  }
  void describe() {
    const cublasOperation_t ta = c.ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = c.tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    void *toBias = bias.get(), *toAux = aux.get();
    set(CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta);
    set(CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, &c.epilogue, sizeof c.epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &toBias, sizeof toBias);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &c.biasType, sizeof c.biasType);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &toAux, sizeof toAux);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &c.auxLd, sizeof c.auxLd);
  }
  cublasLtMatrixLayout_t layout(cudaDataType_t type, int64_t rows, int64_t cols, int64_t ld, int64_t stride) {
    cublasLtMatrixLayout_t x;
    cublasLtMatrixLayoutCreate(&x, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), ld);
    cublasLtMatrixLayoutSetAttribute(x, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &c.batch, sizeof c.batch);
    cublasLtMatrixLayoutSetAttribute(x, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
    return x;
  }
  /// Elements of op(A) and op(B), as they are multiplied.
  double left(int64_t s, int64_t i, int64_t p) const {
    return operand(hostA[c.lead + s * c.strideA() + (c.ta ? i * c.lda() + p : p * c.lda() + i)]);
  }
  double right(int64_t s, int64_t p, int64_t j) const {
    return operand(hostB[c.lead + s * c.strideB() + (c.tb ? p * c.ldb() + j : j * c.ldb() + p)]);
  }
  double operand(T x) const {
    return c.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? runtime::math::round_tf32(static_cast<float>(x)) : double(x);
  }
};

/// D, the bias or its gradient, and what GELU keeps, all of which must be as they were where nothing writes.
template <typename D, typename T> void Call<D, T>::compareWithLoops() {
  std::vector<double> x(hostD.begin(), hostD.end()), kept(hostAux.begin(), hostAux.end()),
      biases(hostBias.begin(), hostBias.end());
  if (c.has(16 | 256 | 512))
    biases.assign(biases.size(), 0);
  for (int64_t s = 0; s < c.batch; ++s)
    for (int64_t j = 0; j < c.n; ++j)
      for (int64_t i = 0; i < c.m; ++i) {
        double sum = 0;
        for (int64_t p = 0; p < c.k; ++p)
          sum += left(s, i, p) * right(s, p, j);
        double &to = x[c.lead + s * c.strideD() + j * c.ldd() + i], &aux = kept[j * c.auxLd + i];
        double y = c.alpha * sum + (c.beta == 0 ? 0 : c.beta * to) + (c.has(4) ? biases[i] : 0);
        if (c.has(32) && c.has(128))
          aux = y;
        y = c.has(2) ? std::max(y, 0.0) : c.has(32) ? gelu(y) : c.has(64) ? y * slopeOfGelu(aux) : y;
        if (c.has(16))
          biases[i] += y;
        to = y;
      }
  for (int64_t p = 0; p < c.k; ++p)
    for (int64_t i = 0; i < c.biases(); ++i)
      biases[i] += c.has(256) ? double(hostA[p * c.lda() + i]) : c.has(512) ? double(hostB[p * c.ldb() + i]) : 0;
  expectNear(d.host(), x, "d");
  expectNear(bias.host(), biases, "bias");
  expectNear(aux.host(), kept, "aux");
}

template <typename D, typename T> void check(const Case &c) {
  SCOPED_TRACE("epilogue " + std::to_string(c.epilogue) + (c.ta ? " t" : " n") + (c.tb ? "t" : "n"));
  Call<D, T> call(c);
  ASSERT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
  call.compareWithLoops();
}

template <typename D, typename T> struct Pair {
  using Out = D;
  using In = T;
};
using Pairs = ::testing::Types<Pair<float, float>, Pair<double, double>, Pair<bf16, bf16>, Pair<fp16, fp16>,
                               Pair<float, bf16>, Pair<float, fp16>>;
template <typename P> struct BlasLt : ::testing::Test {
  static Case plain() {
    Case c;
    c.compute = std::is_same_v<typename P::In, double> ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    return c;
  }
};
TYPED_TEST_SUITE(BlasLt, Pairs);

// Rows apart by more than their length; C read and not read.
TYPED_TEST(BlasLt, FormsAndSizes) {
  using P = TypeParam;
  underSeeds([] {
    for (int form = 0; form < 4; ++form)
      for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {5, 1, 9}, {1, 7, 3}, {16, 20, 33}})
        for (double beta : {0.0, -1.5}) {
          Case c = BlasLt<P>::plain();
          c.ta = form / 2, c.tb = form % 2, c.m = m, c.n = n, c.k = k, c.alpha = 0.5, c.beta = beta, c.pad = m % 2 * 3;
          check<typename P::Out, typename P::In>(c);
        }
  });
}

TYPED_TEST(BlasLt, Epilogues) {
  using P = TypeParam;
  underSeeds([] {
    for (cublasLtEpilogue_t epilogue : kEpilogues)
      for (int form = 0; form < 4; ++form) {
        Case c = BlasLt<P>::plain();
        c.epilogue = epilogue, c.ta = form / 2, c.tb = form % 2, c.m = 13, c.pad = 3;
        if (c.has(16) || (c.has(256) && c.ta) || (c.has(512) && (c.ta || !c.tb)))
          continue; // another test's, or refused
        check<typename P::Out, typename P::In>(c);
        c.alpha = -2, c.beta = 0.5;
        check<typename P::Out, typename P::In>(c);
      }
  });
}

// Under one seed: filling so large a workspace takes long.
TYPED_TEST(BlasLt, SumsOfGradients) {
  for (int form = 0; form < 4; ++form) {
    Case c = BlasLt<TypeParam>::plain();
    c.epilogue = CUBLASLT_EPILOGUE_DGELU_BGRAD, c.workspace = kWorkspaceOfSums;
    c.ta = form / 2, c.tb = form % 2, c.m = 13, c.pad = 3, c.alpha = -2, c.beta = form % 2;
    check<typename TypeParam::Out, typename TypeParam::In>(c);
  }
}

// A the same for all of them, as well.
TYPED_TEST(BlasLt, Batches) {
  using P = TypeParam;
  underSeeds([] {
    for (bool sharesA : {false, true})
      for (cublasLtEpilogue_t epilogue : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU_BIAS}) {
        Case c = BlasLt<P>::plain();
        c.epilogue = epilogue, c.batch = 3, c.m = 5, c.n = 3, c.tb = true, c.sharesA = sharesA, c.beta = 1;
        check<typename P::Out, typename P::In>(c);
      }
  });
}

// 10 bits of mantissa are left of operands: the loops round them alike.
TEST(BlasLtTf32, RoundsOperands) {
  Case c;
  c.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  for (cublasLtEpilogue_t epilogue : kEpilogues) {
    c.epilogue = epilogue;
    c.tb = epilogue == CUBLASLT_EPILOGUE_BGRADB;
    c.workspace = c.has(16) ? kWorkspaceOfSums : kSmallWorkspace;
    check<float, float>(c);
  }
}

//===-- refusals -------------------------------------------------------------------------------------------------===//

template <typename D = float, typename T = float> void expectRefused(const Case &c, cublasStatus_t status) {
  Call<D, T> call(c);
  EXPECT_EQ(call.choose(), status);
  EXPECT_EQ(call.multiply(nullptr, c.workspace), status);
}

Case with(cublasLtEpilogue_t epilogue) {
  Case c;
  c.epilogue = epilogue;
  return c;
}

TEST(BlasLtRefuses, BiasOfAnotherTypeThanTheOutput) {
  for (auto epilogue : {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU_BGRAD,
                        CUBLASLT_EPILOGUE_BGRADA}) {
    Case c = with(epilogue);
    c.workspace = c.has(16) ? kWorkspaceOfSums : kSmallWorkspace;
    c.biasType = CUDA_R_32F;
    expectRefused<bf16, bf16>(c, CUBLAS_STATUS_INVALID_VALUE);
    c.biasType = CUDA_R_16BF;
    check<bf16, bf16>(c);
  }
}

TEST(BlasLtRefuses, SumsOfGradientsWithoutWorkspace) {
  Case c = with(CUBLASLT_EPILOGUE_DGELU_BGRAD);
  expectRefused(c, CUBLAS_STATUS_NOT_SUPPORTED);
  c.workspace = 0;
  expectRefused(c, CUBLAS_STATUS_NOT_SUPPORTED);
  c.epilogue = CUBLASLT_EPILOGUE_DGELU;
  check<float, float>(c);
}

TEST(BlasLtRefuses, SumsOfOperandsInOtherForms) {
  for (bool tb : {false, true}) {
    Case c = with(CUBLASLT_EPILOGUE_BGRADA);
    c.ta = true, c.tb = tb;
    expectRefused(c, CUBLAS_STATUS_NOT_SUPPORTED);
    c.epilogue = CUBLASLT_EPILOGUE_BGRADB;
    expectRefused(c, CUBLAS_STATUS_NOT_SUPPORTED);
  }
  expectRefused(with(CUBLASLT_EPILOGUE_BGRADB), CUBLAS_STATUS_NOT_SUPPORTED);
}

// Rows of 12: the device stopped.
TEST(BlasLtRefuses, AuxRowsThatAreNoMultiplesOfEight) {
  Case c = with(CUBLASLT_EPILOGUE_GELU_AUX);
  c.m = c.auxLd = 12;
  expectRefused(c, CUBLAS_STATUS_INVALID_VALUE);
  c.auxLd = 8; // shorter than a row
  expectRefused(c, CUBLAS_STATUS_INVALID_VALUE);
}

TEST(BlasLtRefuses, EpiloguesThatNobodyTried) {
  for (auto epilogue : {CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_DRELU, CUBLASLT_EPILOGUE_DRELU_BGRAD})
    expectRefused(with(epilogue), CUBLAS_STATUS_NOT_SUPPORTED);
  Case c = with(CUBLASLT_EPILOGUE_GELU_AUX);
  c.batch = 2;
  expectRefused(c, CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(BlasLtRefuses, TypesThatDoNotGoTogether) {
  Case c;
  expectRefused<bf16, fp16>(c, CUBLAS_STATUS_NOT_SUPPORTED);
  expectRefused<bf16, float>(c, CUBLAS_STATUS_NOT_SUPPORTED);
  c.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  expectRefused<float, bf16>(c, CUBLAS_STATUS_NOT_SUPPORTED);
  c.compute = CUBLAS_COMPUTE_64F;
  expectRefused<float, float>(c, CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(BlasLtRefuses, PointersThatAreNoMultiplesOf16Bytes) {
  Case c;
  c.lead = 1;
  Call<float, float> call(c);
  EXPECT_EQ(call.run(), CUBLAS_STATUS_INVALID_VALUE);
  c.lead = 0, c.alignment = 8;
  Call<float, float> unknown(c);
  EXPECT_EQ(unknown.choose(), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(BlasLtRefuses, AlgorithmsThatNobodyChose) {
  Call<float, float> call({});
  const cublasLtMatmulAlgo_t empty = {};
  EXPECT_EQ(call.multiply(&empty, 0), CUBLAS_STATUS_INVALID_VALUE);
  ASSERT_EQ(call.choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(call.multiply(&call.chosen.algo, 0), CUBLAS_STATUS_INVALID_VALUE); // it counts on more
}

//===-- announcements --------------------------------------------------------------------------------------------===//

// The ranges that `touches` says are compared with those of the product.
TEST(BlasLtDeathTest, MemoryThatIsNotAnnounced) {
  Call<float, float> call(with(CUBLASLT_EPILOGUE_BIAS));
  auto run = [&](int64_t biases) {
    touches(nullptr, "linear", out(call.d.get(), 16 * 12), in(call.a.get(), 16 * 20), in(call.b.get(), 20 * 12),
            in(call.bias.get(), biases));
    return call.multiply(nullptr, 0);
  };
  EXPECT_EQ(run(16), CUBLAS_STATUS_SUCCESS);
  EXPECT_EXIT(run(15), ::testing::ExitedWithCode(4), "echelon: linear: cuBLASLt reads 64 bytes that are not announced");
}

TEST(BlasLtNames, OfStatuses) {
  EXPECT_EQ(cublasLtGetVersion(), size_t(CUBLAS_VERSION));
  EXPECT_STREQ(cublasLtGetStatusName(CUBLAS_STATUS_INVALID_VALUE), "CUBLAS_STATUS_INVALID_VALUE");
  EXPECT_STREQ(cublasLtGetStatusString(CUBLAS_STATUS_NOT_SUPPORTED), "a product that the library does not make");
}

} // namespace
} // namespace echelon::cuda
