// What a rank has to do, apart from the machine that does it: the questions that a Machine answers in seconds.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace echelon::planner {

enum class Precision { Fp64, Fp32, Tf32, Bf16, Fp16, Fp8 };

/// One call of a kernel.
struct Work {
  enum class Kind { Product, Convolution, Attention, AttentionGrad, Loop, Kernel };
  Kind kind = Kind::Kernel;
  std::string kernel; ///< "softmax", "reduce_sum", "update": what a device's efficiency may be told of, Constants.h
  Precision precision = Precision::Fp32;  ///< of the arithmetic
  double flops = 0;                       ///< additions and multiplications that it cannot do without
  double bytes = 0;                       ///< that it must read and write
  double added = 0;                       ///< bytes of what a product adds its result to, as gradients of micro batches
  double exponentials = 0;                ///< of a loop: functions that take as long as an exponential does, so many
  int64_t m = 0, n = 0, k = 0, batch = 1; ///< of a product: (m, k) by (k, n), `batch` of them
};

/// The ranks of one message. A node's ranks lie beside each other; `perNode` of the group are in each of `nodes`.
struct Group {
  int64_t ranks = 1;
  int64_t nodes = 1;   ///< that it spans
  int64_t perNode = 1; ///< ranks of it in one node
  int64_t beside = 1;  ///< groups like it that send through one node's network at the same time
  int64_t apart = 1;   ///< nodes from one that it spans to the next
};

/// One message, as one rank sees it.
struct Message {
  enum class Kind { AllReduce, ReduceScatter, AllGather, AllToAll, Broadcast, Send };
  Kind kind = Kind::AllReduce;
  double bytes = 0; ///< of the whole: what an all-reduce sums, a gather gathers, a scatter sums, a send sends
  Group group;
  std::string algorithm;   ///< "ring", "tree", "hierarchical", …; empty: the fastest that the machine has
  bool isOfUpdate = false; ///< of gradients and parameters, once a step
  std::string protocol;    ///< of a library that has several; empty: the fastest
};

/// As the language and the dialects spell them: "bf16", "all_reduce".
const char *nameOf(Precision precision);
const char *nameOf(Message::Kind kind);

} // namespace echelon::planner
