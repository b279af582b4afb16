// cuBLASLt on the host, over OpenBLAS: D = epilogue(alpha * op(A) * op(B) + beta * C). Numbers of two bytes are
// widened, multiplied and summed as floats, and rounded once.
//
// What an H100's library was seen to refuse is refused here as well (docs/h100.md, "Epilogues"), in the heuristic and
// in the call. What nobody tried is refused, too: a program that runs here must not be stopped there.
#include "runtime/cuda/host/BlasLtMatrix.h"
#include "runtime/kernels/Elementwise.h"
#include "runtime/launch/Fail.h"

#include <algorithm>
#include <cmath>

struct cublasLtContext {};

namespace echelon::cuda::host {

namespace {

//===-- descriptions ---------------------------------------------------------------------------------------------===//

struct Desc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t transA = CUBLAS_OP_N, transB = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  int64_t auxLd = 0;
  int32_t biasType = -1, auxType = -1; // D's

  // The library's numbers of epilogues are sums of these. What its header calls AUX is kept by GELU and read by DGELU.
  static constexpr int kRelu = 2, kBias = 4, kSumsD = 16, kGelu = 32, kSlope = 64, kAux = 128, kSumsA = 256,
                       kSumsB = 512;
  bool has(int part) const { return (epilogue & part) != 0; }
  bool sumsUp() const { return has(kSumsD | kSumsA | kSumsB); }
};

/// Bytes that algorithms may work in, and what pointers are known to be multiples of: A, B, C, D.
struct Preference {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

bool isKnown(cublasLtEpilogue_t epilogue) {
  switch (epilogue) {
  case CUBLASLT_EPILOGUE_DEFAULT:
  case CUBLASLT_EPILOGUE_BIAS:
  case CUBLASLT_EPILOGUE_RELU:
  case CUBLASLT_EPILOGUE_RELU_BIAS:
  case CUBLASLT_EPILOGUE_GELU:
  case CUBLASLT_EPILOGUE_GELU_BIAS:
  case CUBLASLT_EPILOGUE_GELU_AUX:
  case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
  case CUBLASLT_EPILOGUE_DGELU:
  case CUBLASLT_EPILOGUE_DGELU_BGRAD:
  case CUBLASLT_EPILOGUE_BGRADA:
  case CUBLASLT_EPILOGUE_BGRADB:
    return true;
  default:
    return false;
  }
}

//===-- refusals -------------------------------------------------------------------------------------------------===//

constexpr uint32_t kAlignment = 16;
constexpr size_t kUsualWorkspace = 4 << 10; // of algorithms that do with less, so that streams which share one show
constexpr size_t kSumsWorkspace = 32 << 20;

/// A product without its pointers: what a heuristic knows.
struct Problem {
  Desc desc;
  Layout a, b, c, d;

  int64_t m() const { return int64_t(d.rows); }
  int64_t n() const { return int64_t(d.cols); }
  int64_t k() const { return int64_t(desc.transA == CUBLAS_OP_N ? a.cols : a.rows); }

  /// Success, or why the library takes no such product.
  cublasStatus_t refusal(size_t workspace) const;

private:
  cublasStatus_t refusalOfSizes() const;
  cublasStatus_t refusalOfTypes() const;
  cublasStatus_t refusalOfEpilogue(size_t workspace) const;
};

cublasStatus_t Problem::refusal(size_t workspace) const {
  for (cublasStatus_t status : {refusalOfSizes(), refusalOfTypes(), refusalOfEpilogue(workspace)})
    if (status != CUBLAS_STATUS_SUCCESS)
      return status;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Problem::refusalOfSizes() const {
  for (const Layout *x : {&a, &b, &c, &d}) {
    if (!x->isValid() || x->batch != d.batch)
      return CUBLAS_STATUS_INVALID_VALUE;
    if (x->batch > 1 && x->bytesBefore(1) % kAlignment != 0)
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool tA = desc.transA != CUBLAS_OP_N, tB = desc.transB != CUBLAS_OP_N;
  const bool fits = (tA ? a.cols : a.rows) == d.rows && (tB ? b.rows : b.cols) == d.cols &&
                    (tA ? a.rows : a.cols) == (tB ? b.cols : b.rows) && c.rows == d.rows && c.cols == d.cols;
  // Several products into one matrix would race.
  const bool isApart = d.batch == 1 || d.stride != 0;
  return fits && isApart ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t Problem::refusalOfTypes() const {
  const bool isSame = a.type == b.type && c.type == d.type;
  bool isTaken = false;
  if (desc.compute == CUBLAS_COMPUTE_64F)
    isTaken = desc.scale == CUDA_R_64F && a.type == CUDA_R_64F && d.type == CUDA_R_64F;
  else if (desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
    isTaken = desc.scale == CUDA_R_32F && a.type == CUDA_R_32F && d.type == CUDA_R_32F;
  else if (desc.compute == CUBLAS_COMPUTE_32F)
    isTaken = desc.scale == CUDA_R_32F && a.type != CUDA_R_64F && (d.type == a.type || d.type == CUDA_R_32F);
  return isSame && isTaken ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t Problem::refusalOfEpilogue(size_t workspace) const {
  if (!isKnown(desc.epilogue))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool usesBias = desc.has(Desc::kBias) || desc.sumsUp(), usesAux = desc.has(Desc::kAux);
  if (usesBias && desc.biasType >= 0 && desc.biasType != d.type)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (usesAux && desc.auxType >= 0 && desc.auxType != d.type)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (usesAux && (desc.auxLd % 8 != 0 || desc.auxLd < m()))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (d.batch > 1 && (usesAux || desc.sumsUp()))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool tA = desc.transA != CUBLAS_OP_N, tB = desc.transB != CUBLAS_OP_N;
  if ((desc.has(Desc::kSumsA) && tA) || (desc.has(Desc::kSumsB) && (tA || !tB)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (desc.has(Desc::kSumsD) && workspace < kSumsWorkspace)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

//===-- products -------------------------------------------------------------------------------------------------===//

constexpr double kRootTwoOverPi = 0.79788456080286535588, kCubic = 0.044715;
/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
template <typename W> W gelu(W x) {
  return W(0.5) * x * (1 + std::tanh(W(kRootTwoOverPi) * (x + W(kCubic) * x * x * x)));
}
template <typename W> W geluSlope(W x) {
  const W t = std::tanh(W(kRootTwoOverPi) * (x + W(kCubic) * x * x * x));
  return W(0.5) * (1 + t) + W(0.5) * x * (1 - t * t) * W(kRootTwoOverPi) * (1 + 3 * W(kCubic) * x * x);
}

struct Product {
  Problem problem;
  double alpha, beta;
  const void *a, *b, *c;
  void *d, *workspace;
  size_t workspaceBytes;

  cublasStatus_t refusalOfPointers() const;
  std::vector<Range> touches() const;
  void run() const;

private:
  template <typename W> void runAs() const;
  template <typename W> void finish(std::vector<W> &x) const;
  template <typename W> void store(const std::vector<W> &sums) const {
    writeMatrix(problem.desc.bias, problem.d.type, sums, int64_t(sums.size()), 1, int64_t(sums.size()));
  }
};

cublasStatus_t Product::refusalOfPointers() const {
  const Desc &desc = problem.desc;
  auto isAligned = [](const void *x) { return x && reinterpret_cast<uintptr_t>(x) % kAlignment == 0; };
  const bool areThere = isAligned(a) && isAligned(b) && isAligned(d) && (beta == 0 || isAligned(c)) &&
                        (!desc.has(Desc::kAux) || isAligned(desc.aux)) &&
                        (!(desc.has(Desc::kBias) || desc.sumsUp()) || desc.bias) &&
                        (workspaceBytes == 0 || isAligned(workspace));
  return areThere ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

std::vector<Range> Product::touches() const {
  std::vector<Range> ranges;
  auto add = [&](const void *begin, size_t bytes, bool writes) {
    if (bytes > 0)
      ranges.push_back({static_cast<const char *>(begin), bytes, writes});
  };
  const Desc &desc = problem.desc;
  add(a, problem.a.bytes(), false);
  add(b, problem.b.bytes(), false);
  add(d, problem.d.bytes(), true);
  if (beta != 0)
    add(c, problem.c.bytes(), false);
  add(workspace, workspaceBytes, true);
  const size_t each = bytesOf(problem.d.type);
  if (desc.has(Desc::kBias) || desc.sumsUp())
    add(desc.bias, each * (desc.has(Desc::kSumsB) ? problem.d.cols : problem.d.rows), desc.sumsUp());
  if (desc.has(Desc::kAux))
    add(desc.aux, each * (size_t(desc.auxLd) * (problem.d.cols - 1) + problem.d.rows), desc.has(Desc::kGelu));
  return ranges;
}

void Product::run() const {
  if (workspaceBytes > 0)
    std::memset(workspace, 0xff, workspaceBytes); // nobody may rely on what lies there
  if (problem.desc.compute == CUBLAS_COMPUTE_64F)
    runAs<double>();
  else
    runAs<float>();
}

template <typename W> void Product::runAs() const {
  const auto &[desc, la, lb, lc, ld] = problem;
  const int64_t m = problem.m(), n = problem.n(), k = problem.k();
  for (int32_t s = 0; s < ld.batch; ++s) {
    std::vector<W> left = la.template read<W>(a, s), right = lb.template read<W>(b, s);
    if (desc.has(Desc::kSumsA))
      store(sumsOfRows(left, m, k)); // A is (m, k): it is not transposed
    if (desc.has(Desc::kSumsB))
      store(sumsOfRows(right, n, k)); // B is (n, k): it is transposed
    if (desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
      for (std::vector<W> *x : {&left, &right})
        for (W &element : *x)
          element = runtime::math::round_tf32(static_cast<float>(element));
    std::vector<W> x(static_cast<size_t>(m * n));
    multiply(x.data(), left.data(), right.data(), int(m), int(n), int(k), desc.transA != CUBLAS_OP_N,
             desc.transB != CUBLAS_OP_N, W(alpha));
    if (beta != 0) {
      const std::vector<W> before = lc.template read<W>(c, s);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] += W(beta) * before[i];
    }
    finish(x);
    ld.write(d, s, x);
  }
}

/// The epilogue, on all of one product.
template <typename W> void Product::finish(std::vector<W> &x) const {
  const Desc &desc = problem.desc;
  const int64_t m = problem.m(), n = problem.n();
  if (desc.has(Desc::kBias)) {
    const std::vector<W> bias = readMatrix<W>(desc.bias, problem.d.type, m, 1, m);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] += bias[i % size_t(m)];
  }
  if (desc.has(Desc::kRelu))
    for (W &element : x)
      element = element < 0 ? W(0) : element;
  if (desc.has(Desc::kGelu)) {
    if (desc.has(Desc::kAux))
      writeMatrix(desc.aux, problem.d.type, x, m, n, desc.auxLd);
    for (W &element : x)
      element = gelu(element);
  }
  if (desc.has(Desc::kSlope)) {
    const std::vector<W> before = readMatrix<W>(desc.aux, problem.d.type, m, n, desc.auxLd);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] *= geluSlope(before[i]);
  }
  if (desc.has(Desc::kSumsD))
    store(sumsOfRows(x, m, n));
}

/// Ends the rank where a product touches what was not announced for it.
void checkAnnounced(const std::string &what, const std::vector<Range> &announced, const std::vector<Range> &touched) {
  for (const Range &x : touched) {
    const bool isKnown = std::any_of(announced.begin(), announced.end(), [&](const Range &y) {
      return y.writes == x.writes && y.begin <= x.begin && x.begin + x.bytes <= y.begin + y.bytes;
    });
    if (!isKnown)
      runtime::fail(what + ": cuBLASLt " + (x.writes ? "writes " : "reads ") + std::to_string(x.bytes) +
                    " bytes that are not announced");
  }
}

//===-- handles --------------------------------------------------------------------------------------------------===//

// Handles point to the library's own types, whose contents are nobody's business: here they are ours.
template <typename To, typename Handle> To &as(Handle handle) { return *reinterpret_cast<To *>(handle); }

template <typename T> cublasStatus_t set(T &to, const void *value, size_t bytes) {
  if (!value || bytes != sizeof to)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, sizeof to);
  return CUBLAS_STATUS_SUCCESS;
}

// What the heuristic writes into an algorithm: that it did, and the workspace that it counts on.
constexpr uint64_t kChosen = 0x65636865;

Problem problemOf(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                  cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  return {as<Desc>(desc), as<Layout>(a), as<Layout>(b), as<Layout>(c), as<Layout>(d)};
}

double scalar(const void *x, cudaDataType_t type) { return readMatrix<double>(x, type, 1, 1, 1)[0]; }

} // namespace
} // namespace echelon::cuda::host

//===-- the library's functions ----------------------------------------------------------------------------------===//

using namespace echelon::cuda::host;

extern "C" {

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char *cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
#define NAME(status)                                                                                                   \
  case status:                                                                                                         \
    return #status;
    NAME(CUBLAS_STATUS_SUCCESS)
    NAME(CUBLAS_STATUS_NOT_INITIALIZED)
    NAME(CUBLAS_STATUS_ALLOC_FAILED)
    NAME(CUBLAS_STATUS_INVALID_VALUE)
    NAME(CUBLAS_STATUS_ARCH_MISMATCH)
    NAME(CUBLAS_STATUS_MAPPING_ERROR)
    NAME(CUBLAS_STATUS_EXECUTION_FAILED)
    NAME(CUBLAS_STATUS_INTERNAL_ERROR)
    NAME(CUBLAS_STATUS_NOT_SUPPORTED)
    NAME(CUBLAS_STATUS_LICENSE_ERROR)
#undef NAME
  }
  return "unknown";
}
const char *cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS         ? "success"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "a value that the library does not take"
         : status == CUBLAS_STATUS_NOT_SUPPORTED ? "a product that the library does not make"
                                                 : cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *to, cublasComputeType_t compute, cudaDataType_t scale) {
  auto *desc = new Desc{};
  desc->compute = compute;
  desc->scale = scale;
  *to = reinterpret_cast<cublasLtMatmulDesc_t>(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete reinterpret_cast<Desc *>(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t which,
                                              const void *value, size_t bytes) {
  Desc &desc = as<Desc>(handle);
  switch (which) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return set(desc.transA, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return set(desc.transB, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return set(desc.epilogue, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return set(desc.bias, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return set(desc.biasType, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return set(desc.aux, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return set(desc.auxLd, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
    return set(desc.auxType, value, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *to, cudaDataType type, uint64_t rows, uint64_t cols,
                                          int64_t ld) {
  *to = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, cols, ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout *>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle, cublasLtMatrixLayoutAttribute_t which,
                                                const void *value, size_t bytes) {
  Layout &layout = as<Layout>(handle);
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    return set(layout.batch, value, bytes);
  if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return set(layout.stride, value, bytes);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *to) {
  *to = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference *>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t which, const void *value,
                                                    size_t bytes) {
  Preference &preference = as<Preference>(handle);
  switch (which) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return set(preference.workspace, value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    return set(preference.alignment[0], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    return set(preference.alignment[1], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    return set(preference.alignment[2], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return set(preference.alignment[3], value, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preferred, int most,
                                              cublasLtMatmulHeuristicResult_t *results, int *found) {
  *found = 0;
  if (!handle)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (most < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  const Preference &preference = as<Preference>(preferred);
  for (uint32_t alignment : preference.alignment)
    if (alignment < kAlignment)
      return CUBLAS_STATUS_NOT_SUPPORTED;
  const Problem problem = problemOf(desc, a, b, c, d);
  if (const cublasStatus_t status = problem.refusal(preference.workspace); status != CUBLAS_STATUS_SUCCESS)
    return status;
  results[0] = {};
  results[0].workspaceSize =
      problem.desc.has(Desc::kSumsD) ? kSumsWorkspace : std::min<size_t>(preference.workspace, kUsualWorkspace);
  results[0].algo.data[0] = kChosen;
  results[0].algo.data[1] = results[0].workspaceSize;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

/// Without an algorithm the library asks its heuristic.
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t layoutA, const void *b, cublasLtMatrixLayout_t layoutB,
                              const void *beta, const void *c, cublasLtMatrixLayout_t layoutC, void *d,
                              cublasLtMatrixLayout_t layoutD, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspaceBytes, cudaStream_t stream) {
  if (!handle)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  const cudaDataType_t scale = as<Desc>(desc).scale;
  const Product product = {problemOf(desc, layoutA, layoutB, layoutC, layoutD),
                           scalar(alpha, scale),
                           scalar(beta, scale),
                           a,
                           b,
                           c,
                           d,
                           workspace,
                           workspaceBytes};
  if (algorithm && (algorithm->data[0] != kChosen || algorithm->data[1] > workspaceBytes))
    return CUBLAS_STATUS_INVALID_VALUE;
  for (cublasStatus_t status : {product.problem.refusal(workspaceBytes), product.refusalOfPointers()})
    if (status != CUBLAS_STATUS_SUCCESS)
      return status;
  std::string what = "a matrix product";
  const std::vector<Range> announced = announcedFor(stream, what), touched = product.touches();
  if (!announced.empty())
    checkAnnounced(what, announced, touched);
  enqueue(stream, what.c_str(), touched, [product] { product.run(); });
  return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
