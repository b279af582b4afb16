#include "planner/machine/Constants.h"

#include <limits>

namespace echelon::planner {

namespace {
constexpr double kAny = std::numeric_limits<double>::infinity();
}

const std::vector<Constant> &deviceConstants() {
  static const std::vector<Constant> list = {
      {"host", Unit::Seconds, 4e-6, 0, kAny, "the host's time for one call"},
      {"launch", Unit::Seconds, 0, 0, kAny, "what a kernel takes at least"},
      {"exponential", Unit::Seconds, 0, 0, kAny, "of a loop: what an exponential takes"},
      {"input", Unit::Seconds, 0, 0, kAny, "of a core: what a byte of the batch takes to be put in place"},
      {"k_half", Unit::Number, 0, 0, kAny, "inner length that the start and end of a product cost"},
      {"units", Unit::Number, 0, 0, kAny, "multiprocessors, each with a tile of a product"},
      {"alignment", Unit::Number, 1, 1, kAny, "what the sizes of a product are multiples of"},
      {"misaligned", Unit::Number, 1, 1, kAny, "how many times as long a product takes where they are not"},
      {"late", Unit::Number, 0, 0, kAny,
       "host's calls that a message waits for late ranks, for each doubling of ranks"},
      {"send_calls", Unit::Number, 0, 0, kAny, "host's calls for one message from stage to stage"},
      {"usable", Unit::Part, 1, 0, 1, "part of the memory that programs get"},
      {"reserve", Unit::Bytes, 0, 0, kAny, "memory that no tensor accounts for"},
      {"held_values", Unit::Number, 1, 0, kAny,
       "of a framework: bytes that it keeps for derivatives, by the program's"},
      {"held_norms", Unit::Number, 1, 0, kAny, "the same, of what norms keep"},
      {"held_scores", Unit::Number, 1, 0, kAny, "the same, of scores of attention that is written out"},
      {"held_logits", Unit::Number, 0, 0, kAny,
       "bytes for each logit from the loss to its derivative; 0: as the program"},
      {"held_gradients", Unit::Number, 1, 0, kAny, "the same, of gradients of parameters"},
      {"held_split", Unit::Number, 1, 0, kAny,
       "where the forward pass sends messages: what its allocator takes, by what values need"},
  };
  return list;
}

const std::vector<Constant> &linkConstants() {
  static const std::vector<Constant> list = {
      {"rate", Unit::Part, 1, 0.001, 1, "part of the rate that messages reach"},
      {"rate_alone", Unit::Part, 1, 0.001, 1, "of a network: the same, of a group that is the whole cluster"},
      {"hop", Unit::Seconds, 0, 0, kAny, "the time of a round, where it is not the latency"},
      {"floor", Unit::Seconds, 0, 0, kAny, "what any collective takes at least"},
      {"floor_rank", Unit::Seconds, 0, 0, kAny, "the same, more for each rank after the first"},
      {"overlap", Unit::Part, 1, 0, 1, "part of a started message that runs beside compute"},
      {"sum", Unit::Number, 1, 0, kAny, "bytes of sums of values, by those of the program"},
      {"gradient_sum", Unit::Number, 1, 0, kAny, "bytes of sums of gradients, by those of the program"},
      {"gradient_scatter", Unit::Number, 1, 0, kAny, "the same, where the program scatters sums of gradients"},
      {"beside_stages", Unit::Seconds, 0, 0, kAny,
       "of a network: what the host waits with each message inside of a stage, for each rank, where stages send "
       "between nodes"},
  };
  return list;
}

const std::vector<Constant> &protocolConstants() {
  static const std::vector<Constant> list = {
      {"start", Unit::Seconds, 0, 0, kAny, "what it takes to begin"},
      {"rank", Unit::Seconds, 0, 0, kAny, "the same, more for each rank after the first"},
      {"rate", Unit::Part, 1, 0.001, 1, "part of the link's rate"},
      {"few", Unit::Number, 0, 0, kAny, "x in n / (n + x): what n ranks lose of the rate"},
      {"network", Unit::Part, 1, 0.001, 1, "part of the network's rate that it reaches"},
      {"limit", Unit::Bytes, 0, 0, kAny, "most bytes a rank"},
      {"channels", Unit::Number, 0, 0, 64, "channels that the library is to send through; 0: as many as it likes"},
      {"in_switch", Unit::Number, 0, 0, 1, "1: sums are made in the switch"},
  };
  return list;
}

const std::vector<Constant> &measurementConstants() {
  static const std::vector<Constant> list = {
      {"load", Unit::Number, 0, 0, kAny, "processes that wanted to run meanwhile"},
      {"spread", Unit::Part, 0, 0, 1, "how far repeated measurements lie apart"},
  };
  return list;
}

const Constant *constantNamed(const std::vector<Constant> &list, const std::string &name) {
  for (const Constant &constant : list)
    if (name == constant.name)
      return &constant;
  return nullptr;
}

// What is typical is what large products, streams and fused attention reach of the data sheet on GPUs.
const std::vector<Kernel> &kernels() {
  static const std::vector<Kernel> list = {
      {"product", 0.75, false},    {"convolution", 0.5, false},
      {"attention", 0.45, true},   {"attention_grad", 0.36, true},
      {"memory", 0.8, true},       {"loop", 0, true},
      {"softmax", 0, true},        {"logsumexp", 0, true},
      {"cross_entropy", 0, true},  {"normalize", 0, true},
      {"normalize_grad", 0, true}, {"reduce", 0, true},
      {"gather", 0, true},         {"scatter_add", 0, true},
      {"random", 0, true},         {"fill", 0, true},
      {"pool", 0, true},           {"channel_statistics", 0, true},
      {"copy_strided", 0, true},   {"update", 0, true},
      {"accumulate", 0, true},
  };
  return list;
}

const Kernel *kernelNamed(const std::string &name) {
  for (const Kernel &kernel : kernels())
    if (name == kernel.name)
      return &kernel;
  return nullptr;
}

} // namespace echelon::planner
