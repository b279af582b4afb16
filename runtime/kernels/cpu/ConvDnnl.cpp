// One oneDNN primitive per kind and shape, made at the first call and kept. The library chooses its own (blocked)
// formats; operands are reordered into scratch memory, and the result back, where those differ from the plain ones. It
// gets a few samples at a time, so that what is reordered is still in the cache when it is read.
#include "runtime/kernels/cpu/ConvDnnl.h"
#include "runtime/kernels/cpu/Dnnl.h"
#include "runtime/kernels/cpu/Threads.h"
#include "runtime/launch/Fail.h"
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace echelon::runtime::detail {
namespace {

using dnnl::memory;

memory::desc plain(const memory::dims &dims) {
  memory::dims strides(dims.size(), 1);
  for (size_t d = dims.size() - 1; d > 0; --d)
    strides[d - 1] = strides[d] * dims[d];
  return memory::desc(dims, memory::data_type::f32, strides);
}
memory::desc open(const memory::dims &dims) {
  return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
}

/// Memory that grows, 64-byte aligned.
class Scratch {
  struct Free {
    void operator()(void *p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data;
  size_t size = 0;

public:
  void *atLeast(size_t bytes) {
    if (size < bytes) {
      size = (bytes + 63) / 64 * 64;
      data.reset(std::aligned_alloc(64, size));
      if (!data)
        fail("no memory for a convolution: " + std::to_string(bytes) + " bytes");
    }
    return data.get();
  }
};

enum Role { kSrc, kWeights, kDst };

/// What one kind of convolution of one shape needs.
struct Plan {
  dnnl::primitive primitive;
  memory user[3], inner[3];
  dnnl::reorder reorder[3]; // empty where formats agree
  bool differs[3];
  Role result;
  int names[3]; // the primitive's names of src, weights, dst
};

Plan makePlan(ConvKind kind, const ConvShape &shape) {
  memory::dims src{shape.batch, shape.from}, weights{shape.to, shape.from}, dst{shape.batch, shape.to}, strides, low,
      high;
  for (int d = 0; d < shape.rank; ++d) {
    const WindowDim &w = shape.dims[d];
    src.push_back(w.in), weights.push_back(w.window), dst.push_back(w.out());
    strides.push_back(w.stride), low.push_back(w.padLow);
    high.push_back((w.out() - 1) * w.stride + w.window - w.in - w.padLow); // what the windows really reach beyond
  }
  using namespace dnnl;
  convolution_forward::primitive_desc forward({prop_kind::forward_training, algorithm::convolution_direct, open(src),
                                               open(weights), open(dst), strides, low, high},
                                              engine());
  Plan plan;
  memory::desc inner[3];
  auto take = [&](memory::desc s, memory::desc w, memory::desc d, Role result, int s1, int w1, int d1) {
    inner[kSrc] = s, inner[kWeights] = w, inner[kDst] = d;
    plan.result = result;
    plan.names[kSrc] = s1, plan.names[kWeights] = w1, plan.names[kDst] = d1;
  };
  if (kind == ConvKind::forward) {
    plan.primitive = convolution_forward(forward);
    take(forward.src_desc(), forward.weights_desc(), forward.dst_desc(), kDst, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS,
         DNNL_ARG_DST);
  } else if (kind == ConvKind::gradData) {
    convolution_backward_data::primitive_desc pd(
        {algorithm::convolution_direct, open(src), open(weights), open(dst), strides, low, high}, engine(), forward);
    plan.primitive = convolution_backward_data(pd);
    take(pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc(), kSrc, DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS,
         DNNL_ARG_DIFF_DST);
  } else {
    convolution_backward_weights::primitive_desc pd(
        {algorithm::convolution_direct, open(src), open(weights), open(dst), strides, low, high}, engine(), forward);
    plan.primitive = convolution_backward_weights(pd);
    take(pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc(), kWeights, DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS,
         DNNL_ARG_DIFF_DST);
  }
  const memory::dims dims[3] = {src, weights, dst};
  for (int role = 0; role < 3; ++role) {
    plan.user[role] = memory(plain(dims[role]), engine(), DNNL_MEMORY_NONE);
    plan.inner[role] = memory(inner[role], engine(), DNNL_MEMORY_NONE);
    plan.differs[role] = inner[role] != plain(dims[role]);
    if (plan.differs[role])
      plan.reorder[role] = role == plan.result ? dnnl::reorder(plan.inner[role], plan.user[role])
                                               : dnnl::reorder(plan.user[role], plan.inner[role]);
  }
  return plan;
}

/// Of a plain format.
int64_t elements(const memory &m) { return static_cast<int64_t>(m.get_desc().get_size() / sizeof(float)); }

using Key = std::array<int64_t, 6 + 5 * kMaxWindowRank>;

Key keyOf(ConvKind kind, const ConvShape &shape) {
  Key key{static_cast<int64_t>(kind), shape.batch, shape.from, shape.to, shape.rank, threads()};
  for (int d = 0; d < shape.rank; ++d) {
    const WindowDim &w = shape.dims[d];
    int64_t parts[5] = {w.in, w.window, w.stride, w.padLow, w.padHigh};
    std::copy(parts, parts + 5, key.begin() + 6 + 5 * d);
  }
  return key;
}

} // namespace

void conv_dnnl(ConvKind kind, float *src, float *weights, float *dst, const ConvShape &shape, float *scratch,
               int64_t scratchCount) {
  apply_threads();
  try {
    thread_local std::map<Key, Plan> plans;
    thread_local dnnl::stream stream(engine());
    thread_local Scratch own[3]; // where what the caller gives is too small
    ConvShape part = shape;
    part.batch = threads() == 1 ? conv_samples(kind, shape) : shape.batch;
    Key key = keyOf(kind, part);
    auto found = plans.find(key);
    if (found == plans.end())
      found = plans.emplace(key, makePlan(kind, part)).first;
    Plan &plan = found->second;

    auto place = [&](int64_t bytes, int which) {
      bytes = (bytes + 63) / 64 * 64;
      if (bytes > scratchCount * int64_t(sizeof(float)))
        return static_cast<float *>(own[which].atLeast(bytes));
      float *start = scratch;
      scratch += bytes / sizeof(float), scratchCount -= bytes / sizeof(float);
      return start;
    };
    float *data[3] = {src, weights, dst}, *inner[3] = {};
    std::unordered_map<int, memory> arguments;
    for (int role = 0; role < 3; ++role) {
      if (plan.differs[role])
        inner[role] = place(static_cast<int64_t>(plan.inner[role].get_desc().get_size()), role);
      arguments.emplace(plan.names[role], plan.inner[role]);
    }
    const int64_t step[3] = {elements(plan.user[kSrc]), 0, elements(plan.user[kDst])};
    for (int64_t done = 0; done < shape.batch; done += part.batch) {
      for (int role = 0; role < 3; ++role) {
        plan.user[role].set_data_handle(data[role]);
        plan.inner[role].set_data_handle(inner[role] ? inner[role] : data[role]);
        if (plan.differs[role] && role != plan.result && (role != kWeights || done == 0))
          plan.reorder[role].execute(stream, plan.user[role], plan.inner[role]);
        data[role] += step[role];
      }
      plan.primitive.execute(stream, arguments);
      if (plan.differs[plan.result])
        plan.reorder[plan.result].execute(stream, plan.inner[plan.result], plan.user[plan.result]);
    }
    stream.wait();
  } catch (const dnnl::error &e) {
    fail(std::string("oneDNN: convolution: ") + e.what());
  }
}

} // namespace echelon::runtime::detail
