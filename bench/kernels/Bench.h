// The table of kernels: each beside its limit and its reference, all measured in this run.
//   flops(...)   arithmetic decides: GFLOP/s beside the core's peak
//   streams(...) memory decides: GB/s beside a loop that only moves the same streams; or, where that takes longer,
//                beside what its arithmetic takes without memory, which the row then says
// A row first compares what the kernel and its reference give, and ends the run where they differ.
#pragma once
#include "Limits.h"
#include <functional>
#include <string>

namespace echelon::bench {

/// Zeroed values on huge pages, as a program's arenas lie.
template <typename T> class Array {
  runtime::OwnMemory memory;

public:
  T *data;
  int64_t size;
  explicit Array(int64_t n) : data(static_cast<T *>(memory.allocate(n * sizeof(T)))), size(n) {
    std::fill_n(data, n, T(0));
  }
  operator T *() { return data; }
};
/// Normal random values, the same in every run.
struct Values : Array<float> {
  explicit Values(int64_t n, unsigned seed = 1);
};

/// What a kernel and its reference made: where they may be compared.
struct Compared {
  const float *got, *want;
  int64_t size;
  double tolerance = 1e-4; // of the largest value
};

using Call = std::function<void()>;

/// Starts a table.
void heading(const char *title);
/// A kernel of `count` flop (of the `peak`). Without a reference: pass nothing.
void flops(const std::string &name, double count, const Call &kernel, const Call &reference = {},
           const std::vector<Compared> &results = {});
void streams(const std::string &name, const Traffic &traffic, const Call &kernel, const Call &reference = {},
             const std::vector<Compared> &results = {});
/// What was measured of the core before the tables.
extern double peak;

// The groups, one file each.
void gemms();
void elementwise();
void rows();
void copies();
void attentions();
void convs();
void optimizers();

} // namespace echelon::bench
