// Whether the library or our own kernels compute a call. Our own are the reference: when a shape first comes, the
// library's results are held against theirs on random values, of two samples at most. Where they differ by more than
// rounding allows, are not the same twice, or where the library refuses or fails, our own kernels are used from then
// on.
//
// The library keeps the logarithm of the sum of exp(score), l, where our kernels keep the maximum m and the sum s of
// exp(score - m). What is kept as (l, 1) gives our own derivative the same weights, and the library's is given
// m + log(s): so each pass is chosen by itself.
#pragma once
#include "runtime/cuda/Attention.h"
#include "runtime/cuda/Conv.h"
#include "runtime/cuda/Dnn.h"

#include <functional>
#include <map>
#include <vector>

namespace echelon::cuda {

/// What cuDNN is promised of every place that it reads or writes.
template <typename... P> bool areAligned(const P *...places) {
  return ((reinterpret_cast<uintptr_t>(places) % 16 == 0) && ...);
}

class DnnChoice {
public:
  /// Opens the library when it is first wanted; nullptr: there is none, which is said where `why` has a text.
  using Open = std::function<std::unique_ptr<DnnLibrary>(std::string &why)>;
  /// A line for the reader of the run.
  using Say = std::function<void(const std::string &line)>;
  /// Memory on the device for one call, aligned to 256 bytes.
  using Scratch = std::function<void *(size_t bytes)>;

  /// `tellsAll`: also what is computed by the library, a line a shape.
  DnnChoice(Open open, Say say, bool tellsAll) : open(std::move(open)), say(std::move(say)), tellsAll(tellsAll) {}

  /// Computes attention as the function of that name, and returns true; or does nothing. T: bf16, fp16. A shape that
  /// first comes while the stream is captured is left to our own kernels.
  template <typename T>
  bool attention(Stream stream, const Scratch &scratch, T *out, float *maximum, float *sum, const T *q, const T *k,
                 const T *v, const AttentionShape &shape, const AttentionStrides &strides);
  /// Likewise attention_grad.
  template <typename T>
  bool attention_grad(Stream stream, const Scratch &scratch, T *dq, T *dk, T *dv, const T *dout, const T *out,
                      const float *maximum, const float *sum, const T *q, const T *k, const T *v,
                      const AttentionShape &shape, const AttentionStrides &strides, const AttentionStrides &grads);

  /// Computes a convolution, or a derivative of it, of operands as DnnConvOperands has them; or does nothing. blas: for
  /// our own kernels, in the trial.
  bool conv(Blas &blas, Stream stream, const Scratch &scratch, const float *first, const float *second, float *result,
            const ConvShape &shape, ConvKind kind);

  /// Bytes that a plan should work in at most: otherwise it is made for fewer samples, which take turns. And at most
  /// where that is one sample. (Deterministic derivatives on Hopper keep all scores.)
  size_t workspace = size_t(1) << 30, mostWorkspace = size_t(4) << 30;
  /// And at most for a convolution.
  size_t convWorkspace = size_t(256) << 20;

private:
  /// What is known of a shape.
  template <typename Operands> struct Entry {
    std::unique_ptr<DnnPlan<Operands>> plan; // null: our own kernels
    int64_t samples = 0;                     // that the plan computes
    bool hasFailed = false;                  // it is kept: a graph may have its kernels
  };
  using AttentionEntry = Entry<DnnAttentionOperands>;
  using ConvEntry = Entry<DnnConvOperands>;
  template <typename E> using Entries = std::map<std::vector<int64_t>, E>;

  /// Whether there is a library, and plans may be made now.
  bool isOpenFor(Stream stream);
  /// The entry of a key, made where there is none; null: our own kernels are to be used.
  template <typename E, typename Make>
  E *find(Entries<E> &entries, const std::vector<int64_t> &key, Stream stream, Make make) {
    auto found = entries.find(key);
    if (found == entries.end()) {
      if (!isOpenFor(stream))
        return nullptr;
      found = entries.emplace(key, make()).first;
    }
    return found->second.plan && !found->second.hasFailed ? &found->second : nullptr;
  }
  void tell(const std::string &what, bool isTaken, const std::string &why, double difference, const std::string &more);
  void tellFailure(const std::string &what, const std::string &why);

  template <typename T>
  AttentionEntry *entryFor(Stream stream, const DnnAttention &of, const AttentionShape &shape,
                           const AttentionStrides &strides, const AttentionStrides *grads);
  /// A plan for all samples or a part of them.
  AttentionEntry planFor(DnnAttention of, bool isGradient, std::string &why);
  template <typename T>
  AttentionEntry choose(Stream stream, const DnnAttention &of, const AttentionShape &shape,
                        const AttentionStrides &strides, const AttentionStrides *grads);

  ConvEntry choose(Blas &blas, Stream stream, const ConvShape &shape, ConvKind kind);

  Open open;
  Say say;
  bool tellsAll, isOpen = false;
  std::unique_ptr<DnnLibrary> library;
  Entries<AttentionEntry> attentions;
  Entries<ConvEntry> convs;
};

/// For a rank: cuDNN, on a device of capability 9.0 or newer, unless the environment has ECHELON_CUDNN=0.
std::unique_ptr<DnnLibrary> openDnnForDevice(std::string &why);

} // namespace echelon::cuda
