// The interface to a library that computes attention and convolutions in place of our own kernels: cuDNN. DnnCudnn.cpp
// alone names it; DnnAbsent.cpp stands for it where it is not built in. When its work is taken: DnnChoice.h.
#pragma once
#include "runtime/kernels/ConvShape.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

struct CUstream_st; // what CUDA's streams point to

namespace echelon::cuda {

enum class DnnType : uint8_t { bf16, fp16 };

/// Elements between neighbours over (batch, head, row); columns are contiguous.
struct DnnStrides {
  int64_t batch, head, row;
};

/// Which keys query i sees: all; those up to i; those up to i + past - seq.
enum class DnnSight : uint8_t { all, topLeft, bottomRight };

/// Attention over (batch, heads, seq or past, key or value). heads / keyHeads neighbouring heads of queries read one of
/// keys and values. dout, dq, dk and dv are of the gradient alone.
struct DnnAttention {
  DnnType type;
  DnnSight sight;
  int64_t batch, heads, keyHeads, seq, past, key, value;
  float scale;
  DnnStrides q, k, v, out, dout, dq, dk, dv;
};

/// logSum: (batch, heads, seq), dense, the logarithm (to base e) of the sum of exp(score) over a query's keys. Without
/// gradient out and logSum are written; with it they are read, and dq, dk and dv are overwritten.
struct DnnAttentionOperands {
  const void *q, *k, *v;
  void *out;
  float *logSum;
  const void *dout = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

/// Of a convolution, its shape has at least two window dimensions. The third is written: y, or of the derivatives dx
/// (from dy and w) or dw (from x and dy). x, w and y as ConvShape has them, dense, of float.
struct DnnConvOperands {
  const void *first, *second; // x and w; dy and w; dy and x
  void *result;
};

/// A shape that the library has agreed to compute.
template <typename Operands> class DnnPlan {
public:
  virtual ~DnnPlan() = default;
  /// Bytes of memory on the device that run() works in, aligned to 256.
  virtual size_t workspace() const = 0;
  /// Launches on the stream; also while it is captured. False: nothing useful was done, `why`.
  virtual bool run(CUstream_st *stream, const Operands &operands, void *workspace, std::string &why) = 0;
};

/// The library, for the device of the thread that has opened it.
class DnnLibrary {
public:
  virtual ~DnnLibrary() = default;
  /// Name and version, for messages.
  virtual std::string name() const = 0;
  /// nullptr where the library does not compute this, or not with the same bits each time: `why`. Not while a stream is
  /// captured.
  virtual std::unique_ptr<DnnPlan<DnnAttentionOperands>> plan(const DnnAttention &attention, bool isGradient,
                                                              std::string &why) = 0;
  /// Likewise. Floats are multiplied exactly. The plan's workspace is at most `workspace` bytes.
  virtual std::unique_ptr<DnnPlan<DnnConvOperands>> plan(const runtime::ConvShape &shape, runtime::ConvKind kind,
                                                         size_t workspace, std::string &why) = 0;
};

/// nullptr where there is none: `why`.
std::unique_ptr<DnnLibrary> openDnn(std::string &why);

} // namespace echelon::cuda
