// Products by cuBLASLt. Its matrices are column-major, and a row-major matrix is a column-major one transposed: of
// c' = op(b)' op(a)' it is given b and a in turn, and no flag changes.
#include "runtime/cuda/Check.h"
#include "runtime/cuda/Gemm.h"
#include "runtime/launch/Fail.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace echelon::cuda {

namespace {

/// `batch.size` products of (m, k) and (k, n), their matrices batch.c, batch.a and batch.b elements apart.
struct Product {
  int64_t m, n, k;
  Form form;
  int64_t lda, ldb, ldc;
  BatchDim batch = {1, 0, 0, 0};

  bool ta() const { return transposes_a(form); }
  bool tb() const { return transposes_b(form); }
  /// Steps to the next row of op(A) and along it; of op(B) to the next row and along it.
  int64_t aRow() const { return ta() ? 1 : lda; }
  int64_t aAlong() const { return ta() ? lda : 1; }
  int64_t bRow() const { return tb() ? 1 : ldb; }
  int64_t bAlong() const { return tb() ? ldb : 1; }
  /// Rows as stored, and their length.
  int64_t aRows() const { return ta() ? k : m; }
  int64_t aLength() const { return ta() ? m : k; }
  int64_t bRows() const { return tb() ? n : k; }
  int64_t bLength() const { return tb() ? k : n; }
  /// Elements from the first to the last that is touched.
  int64_t aExtent() const { return extent(aRows(), aLength(), lda, batch.a); }
  int64_t bExtent() const { return extent(bRows(), bLength(), ldb, batch.b); }
  int64_t cExtent() const { return extent(m, n, ldc, batch.c); }
  /// Whether no row is longer than the step to the next.
  bool isStored() const {
    return (aRows() <= 1 || aLength() <= lda) && (bRows() <= 1 || bLength() <= ldb) && (m <= 1 || n <= ldc);
  }

private:
  int64_t extent(int64_t rows, int64_t length, int64_t ld, int64_t step) const {
    return rows > 0 && length > 0 ? (batch.size - 1) * step + (rows - 1) * ld + length : 0;
  }
};

//===-- cuBLASLt -------------------------------------------------------------------------------------------------===//

template <typename T> constexpr cudaDataType_t typeOf() {
  return std::is_same_v<T, float>    ? CUDA_R_32F
         : std::is_same_v<T, double> ? CUDA_R_64F
         : std::is_same_v<T, bf16>   ? CUDA_R_16BF
                                     : CUDA_R_16F;
}

struct Plan {
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  size_t workspace = 0;
  bool exists = false; // an algorithm
};

/// What a plan depends on.
using PlanKey = std::array<int64_t, 16>;

cublasLtMatrixLayout_t layoutOf(cudaDataType_t type, int64_t rows, int64_t length, int64_t ld, int64_t count,
                                int64_t step) {
  cublasLtMatrixLayout_t layout;
  check(cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(length), static_cast<uint64_t>(rows), ld),
        "gemm");
  if (count > 1) {
    const int32_t batch = static_cast<int32_t>(count);
    check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch), "gemm");
    check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step),
          "gemm");
  }
  return layout;
}

template <typename C, typename T>
Plan makePlan(cublasLtHandle_t library, const Product &p, Compute compute, size_t workspace, bool addsBias) {
  constexpr bool isDouble = std::is_same_v<T, double>;
  const bool rounds = std::is_same_v<T, float> && compute == Compute::tf32;
  Plan plan;
  check(cublasLtMatmulDescCreate(&plan.desc,
                                 isDouble ? CUBLAS_COMPUTE_64F
                                 : rounds ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F,
                                 isDouble ? CUDA_R_64F : CUDA_R_32F),
        "gemm");
  const cublasOperation_t first = p.tb() ? CUBLAS_OP_T : CUBLAS_OP_N, second = p.ta() ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(cublasLtMatmulDescSetAttribute(plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first), "gemm");
  check(cublasLtMatmulDescSetAttribute(plan.desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second), "gemm");
  if (addsBias) { // its type is c's
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    check(cublasLtMatmulDescSetAttribute(plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), "gemm");
  }
  plan.a = layoutOf(typeOf<T>(), p.aRows(), p.aLength(), p.lda, p.batch.size, p.batch.a);
  plan.b = layoutOf(typeOf<T>(), p.bRows(), p.bLength(), p.ldb, p.batch.size, p.batch.b);
  plan.c = layoutOf(typeOf<C>(), p.m, p.n, p.ldc, p.batch.size, p.batch.c);

  cublasLtMatmulPreference_t preference;
  check(cublasLtMatmulPreferenceCreate(&preference), "gemm");
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value), "gemm");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  for (cublasLtMatmulPreferenceAttributes_t which :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(which, uint32_t(16)); // the library assumes 256
  cublasLtMatmulHeuristicResult_t best = {};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library, plan.desc, plan.b, plan.a, plan.c, plan.c, preference, 1, &best, &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED)
    check(status, "gemm");
  check(cublasLtMatmulPreferenceDestroy(preference), "gemm");
  plan.exists = status == CUBLAS_STATUS_SUCCESS && found > 0;
  plan.algorithm = best.algo;
  plan.workspace = best.workspaceSize;
  return plan;
}

template <typename T> bool isAligned(const T *x, int64_t step) {
  return reinterpret_cast<uintptr_t>(x) % 16 == 0 && step * static_cast<int64_t>(sizeof(T)) % 16 == 0;
}

//===-- tiles of our own -----------------------------------------------------------------------------------------===//

constexpr int kTile = 64, kDepth = 16, kSide = 16, kPart = kTile / kSide; // kSide^2 threads make kPart^2 elements each

struct TileSteps {
  int64_t aRow, aAlong, bRow, bAlong, ldc;
};

/// The block of column tile blockIdx.x % columns and row tile blockIdx.x / columns, of products blockIdx.z, … .
template <typename C, typename T>
__global__ void multiply_tiles(C *c, const T *a, const T *b, const C *bias, int64_t m, int64_t n, int64_t k,
                               TileSteps step, BatchDim batch, Wide<T> alpha, Wide<T> beta) {
  __shared__ Wide<T> left[kDepth][kTile + 1], right[kDepth][kTile + 1];
  const int t = static_cast<int>(threadIdx.x), tx = t % kSide, ty = t / kSide;
  const int64_t columns = (n + kTile - 1) / kTile;
  const int64_t i0 = blockIdx.x / columns * kTile, j0 = blockIdx.x % columns * kTile;
  for (int64_t product = blockIdx.z; product < batch.size; product += gridDim.z) {
    const T *from = a + product * batch.a, *with = b + product * batch.b;
    Wide<T> sum[kPart][kPart] = {};
    for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
      __syncthreads(); // the tiles before may still be read
      for (int e = t; e < kTile * kDepth; e += kSide * kSide) {
        // Threads side by side read what lies side by side.
        const int p = step.aAlong == 1 ? e % kDepth : e / kTile, i = step.aAlong == 1 ? e / kDepth : e % kTile;
        left[p][i] = i0 + i < m && p0 + p < k ? Wide<T>(from[(i0 + i) * step.aRow + (p0 + p) * step.aAlong]) : 0;
        const int q = step.bAlong == 1 ? e / kTile : e % kDepth, j = step.bAlong == 1 ? e % kTile : e / kDepth;
        right[q][j] = j0 + j < n && p0 + q < k ? Wide<T>(with[(p0 + q) * step.bRow + (j0 + j) * step.bAlong]) : 0;
      }
      __syncthreads();
      UNROLL for (int p = 0; p < kDepth; ++p) {
        Wide<T> x[kPart], y[kPart];
        UNROLL for (int r = 0; r < kPart; ++r) {
          x[r] = left[p][ty * kPart + r];
          y[r] = right[p][tx + kSide * r];
        }
        UNROLL for (int r = 0; r < kPart; ++r) UNROLL for (int s = 0; s < kPart; ++s) sum[r][s] += x[r] * y[s];
      }
    }
    UNROLL for (int r = 0; r < kPart; ++r) UNROLL for (int s = 0; s < kPart; ++s) {
      const int64_t i = i0 + ty * kPart + r, j = j0 + tx + kSide * s;
      if (i < m && j < n) {
        C &to = c[product * batch.c + i * step.ldc + j];
        const Wide<T> whole = alpha * sum[r][s] + (bias ? Wide<T>(bias[j]) : Wide<T>(0));
        to = C(beta == 0 ? whole : whole + beta * Wide<T>(to));
      }
    }
  }
}

template <typename C, typename T>
void multiplyByTiles(Stream stream, C *c, const T *a, const T *b, const C *bias, const Product &p, double alpha,
                     double beta) {
  const int64_t tiles = (p.m + kTile - 1) / kTile * ((p.n + kTile - 1) / kTile);
  const Shape shape = {
      dim3(static_cast<unsigned>(tiles), 1, static_cast<unsigned>(std::min<int64_t>(p.batch.size, 65535))),
      dim3(kSide * kSide)};
  const int64_t cExtent = p.cExtent();
  launch("gemm", multiply_tiles<C, T>, shape, stream, beta == 0 ? out(c, cExtent) : inout(c, cExtent),
         in(a, p.aExtent()), in(b, p.bExtent()), in(bias, bias ? p.n : 0), p.m, p.n, p.k,
         TileSteps{p.aRow(), p.aAlong(), p.bRow(), p.bAlong(), p.ldc}, p.batch, static_cast<Wide<T>>(alpha),
         static_cast<Wide<T>>(beta));
}

} // namespace

//===-- plans ----------------------------------------------------------------------------------------------------===//

struct Blas::State {
  struct Workspace {
    void *memory;
    size_t bytes;
  };
  cublasLtHandle_t library = nullptr;
  std::map<Stream, Workspace> workspaces;
  std::map<PlanKey, Plan> plans;

  Workspace workspaceOf(Stream stream) const {
    const auto it = workspaces.find(stream);
    return it == workspaces.end() ? Workspace{nullptr, 0} : it->second;
  }

  template <typename C, typename T>
  const Plan &planOf(const Product &p, Compute compute, size_t workspace, bool addsBias) {
    const PlanKey key = {p.m,
                         p.n,
                         p.k,
                         p.lda,
                         p.ldb,
                         p.ldc,
                         p.batch.size,
                         p.batch.c,
                         p.batch.a,
                         p.batch.b,
                         static_cast<int64_t>(p.form),
                         typeOf<C>(),
                         typeOf<T>(),
                         static_cast<int64_t>(compute),
                         static_cast<int64_t>(workspace),
                         addsBias};
    auto it = plans.find(key);
    if (it == plans.end())
      it = plans.emplace(key, makePlan<C, T>(library, p, compute, workspace, addsBias)).first;
    return it->second;
  }
};

Blas::Blas() : own(std::make_unique<State>()) { check(cublasLtCreate(&own->library), "cuBLASLt"); }

Blas::~Blas() {
  for (auto &[key, plan] : own->plans) {
    cublasLtMatrixLayoutDestroy(plan.a);
    cublasLtMatrixLayoutDestroy(plan.b);
    cublasLtMatrixLayoutDestroy(plan.c);
    cublasLtMatmulDescDestroy(plan.desc);
  }
  cublasLtDestroy(own->library);
}

void Blas::setWorkspace(Stream stream, void *memory, size_t bytes) { own->workspaces[stream] = {memory, bytes}; }

size_t Blas::planCount() const { return own->plans.size(); }

//===-- what programs call ---------------------------------------------------------------------------------------===//

namespace {

template <typename C, typename T>
void multiply(Blas &blas, Stream stream, C *c, const T *a, const T *b, Product p, double alpha, double beta,
              Compute compute, const C *bias = nullptr) {
  if (p.m <= 0 || p.n <= 0 || (p.k <= 0 && beta == 1))
    return;
  // The library checks row lengths even where there is only one row.
  p.lda = std::max(p.lda, p.aLength()), p.ldb = std::max(p.ldb, p.bLength()), p.ldc = std::max(p.ldc, p.n);
  const int64_t batched = p.batch.size > 1;
  if (p.k <= 0 || !isAligned(c, batched * p.batch.c) || !isAligned(a, batched * p.batch.a) ||
      !isAligned(b, batched * p.batch.b) || !isAligned(bias, 0))
    return multiplyByTiles(stream, c, a, b, bias, p, alpha, beta);
  Blas::State &state = blas.state();
  const Blas::State::Workspace workspace = state.workspaceOf(stream);
  const Plan &plan = state.planOf<C, T>(p, compute, workspace.bytes, bias != nullptr);
  if (!plan.exists)
    return multiplyByTiles(stream, c, a, b, bias, p, alpha, beta);
  const Wide<T> by = static_cast<Wide<T>>(alpha), keep = static_cast<Wide<T>>(beta);
  const int64_t cExtent = p.cExtent();
  if (bias)
    check(cublasLtMatmulDescSetAttribute(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), "gemm");
  touches(stream, "gemm", beta == 0 ? out(c, cExtent) : inout(c, cExtent), in(a, p.aExtent()), in(b, p.bExtent()),
          in(bias, bias ? p.n : 0),
          out(static_cast<unsigned char *>(workspace.memory), static_cast<int64_t>(plan.workspace)));
  check(cublasLtMatmul(state.library, plan.desc, &by, b, plan.b, a, plan.a, &keep, c, plan.c, c, plan.c,
                       &plan.algorithm, workspace.memory, plan.workspace, stream),
        "gemm");
}

/// The batch dimensions that are left, longer than 1.
struct Dims {
  BatchDim dims[8];
  int count = 0;
  void remove(int i) {
    std::copy(dims + i + 1, dims + count, dims + i);
    --count;
  }
};

/// Makes a dimension that continues k, m or n a part of it.
bool fold(Product &p, const BatchDim &d) {
  Product q = p;
  if (d.c == 0 && d.a == p.k * p.aAlong() && d.b == p.k * p.bRow())
    q.k *= d.size;
  else if (d.b == 0 && d.c == p.m * p.ldc && d.a == p.m * p.aRow())
    q.m *= d.size;
  else if (d.a == 0 && d.c == p.n && d.b == p.n * p.bAlong())
    q.n *= d.size;
  else
    return false;
  if (!q.isStored())
    return false;
  p = q;
  return true;
}

/// Makes two dimensions one where the slower continues the faster.
bool join(const BatchDim &slow, BatchDim &fast) {
  if (slow.c != fast.size * fast.c || slow.a != fast.size * fast.a || slow.b != fast.size * fast.b)
    return false;
  fast.size *= slow.size;
  return true;
}

/// One step of foldings and joinings; false where there is nothing left to do.
bool simplify(Product &p, Dims &left) {
  for (int i = 0; i < left.count; ++i) {
    if (fold(p, left.dims[i]))
      return left.remove(i), true;
    for (int j = 0; j < left.count; ++j)
      if (j != i && join(left.dims[i], left.dims[j]))
        return left.remove(i), true;
  }
  return false;
}

} // namespace

template <typename C, typename T>
void gemm(Blas &blas, Stream stream, C *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form,
          int64_t lda, int64_t ldb, int64_t ldc, double alpha, double beta, Compute compute) {
  multiply(blas, stream, c, a, b, {m, n, k, form, lda, ldb, ldc}, alpha, beta, compute);
}

template <typename C, typename T>
void gemm_batched(Blas &blas, Stream stream, C *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form,
                  int64_t lda, int64_t ldb, int64_t ldc, std::initializer_list<BatchDim> batch, double alpha,
                  double beta, Compute compute) {
  if (batch.size() > 8)
    runtime::fail("batched matrix product over more than 8 batch dimensions");
  Product p{m, n, k, form, lda, ldb, ldc};
  Dims left;
  for (const BatchDim &dim : batch) {
    if (dim.size <= 0)
      return;
    if (dim.size > 1)
      left.dims[left.count++] = dim;
  }
  while (simplify(p, left)) {
  }
  // The longest dimension that is not summed is the library's.
  int longest = -1;
  for (int i = 0; i < left.count; ++i)
    if (left.dims[i].c != 0 && (longest < 0 || left.dims[i].size > left.dims[longest].size))
      longest = i;
  if (longest >= 0) {
    p.batch = left.dims[longest];
    left.remove(longest);
  }
  int64_t at[8] = {}, points = 1;
  for (int i = 0; i < left.count; ++i)
    points *= left.dims[i].size;
  for (int64_t point = 0; point < points; ++point) {
    int64_t toC = 0, toA = 0, toB = 0;
    bool first = true;
    for (int i = 0; i < left.count; ++i) {
      const BatchDim &dim = left.dims[i];
      toC += at[i] * dim.c, toA += at[i] * dim.a, toB += at[i] * dim.b;
      first &= dim.c != 0 || at[i] == 0;
    }
    multiply(blas, stream, c + toC, a + toA, b + toB, p, alpha, first ? beta : 1.0, compute);
    for (int i = left.count - 1; i >= 0 && ++at[i] == left.dims[i].size; --i)
      at[i] = 0;
  }
}

template <typename T>
void linear(Blas &blas, Stream stream, T *c, const T *a, const T *b, const T *bias, int64_t m, int64_t n, int64_t k,
            Form form, int64_t lda, int64_t ldb, int64_t ldc) {
  multiply(blas, stream, c, a, b, {m, n, k, form, lda, ldb, ldc}, 1, 0, Compute::full, bias);
}

#define INSTANTIATE(C, T)                                                                                              \
  template void gemm<C, T>(Blas &, Stream, C *, const T *, const T *, int64_t, int64_t, int64_t, Form, int64_t,        \
                           int64_t, int64_t, double, double, Compute);                                                 \
  template void gemm_batched<C, T>(Blas &, Stream, C *, const T *, const T *, int64_t, int64_t, int64_t, Form,         \
                                   int64_t, int64_t, int64_t, std::initializer_list<BatchDim>, double, double,         \
                                   Compute);
INSTANTIATE(float, float)
INSTANTIATE(double, double)
INSTANTIATE(float, bf16)
INSTANTIATE(float, fp16)
INSTANTIATE(bf16, bf16)
INSTANTIATE(fp16, fp16)
#undef INSTANTIATE
#define INSTANTIATE(T)                                                                                                 \
  template void linear<T>(Blas &, Stream, T *, const T *, const T *, const T *, int64_t, int64_t, int64_t, Form,       \
                          int64_t, int64_t, int64_t);
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE

} // namespace echelon::cuda
