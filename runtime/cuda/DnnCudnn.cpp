// cuDNN, by its frontend's graphs. The library is looked for when it is first wanted, so programs start on machines
// that lack it. The frontend looks for libcudart in the same way: a program has two of that library, which share the
// device's context, streams and memory.
#include "runtime/cuda/Dnn.h"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>

#include <dlfcn.h>

#include <exception>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cudnn_frontend {
void *cudnn_dlhandle = nullptr; // the frontend leaves its definition to the program
}

namespace echelon::cuda {

namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Numbers of a graph's tensors.
enum Id : int64_t { idQ = 1, idK, idV, idOut, idLogSum, idDout, idDq, idDk, idDv, idFirst, idSecond, idResult };

/// Runs body, which returns the frontend's errors and may throw; false: `why`.
template <typename Body> bool succeeds(std::string &why, Body body) {
  try {
    fe::error_t error = body();
    if (error.is_good())
      return true;
    why = error.get_message();
  } catch (const std::exception &error) {
    why = error.what();
  }
  return false;
}

struct Handle {
  cudnnHandle_t library = nullptr;
  cudaStream_t stream = nullptr; // the library begins with the default one
  ~Handle() {
    if (library)
      fe::detail::destroy_handle(library);
  }
};

/// Where the tensors of a call lie; of attention, those that only its derivative has may be null.
std::unordered_map<int64_t, void *> placesOf(const DnnAttentionOperands &x) {
  std::unordered_map<int64_t, void *> places = {{idQ, const_cast<void *>(x.q)},
                                                {idK, const_cast<void *>(x.k)},
                                                {idV, const_cast<void *>(x.v)},
                                                {idOut, x.out},
                                                {idLogSum, x.logSum}};
  if (x.dq)
    places.insert({{idDout, const_cast<void *>(x.dout)}, {idDq, x.dq}, {idDk, x.dk}, {idDv, x.dv}});
  return places;
}
std::unordered_map<int64_t, void *> placesOf(const DnnConvOperands &x) {
  return {{idFirst, const_cast<void *>(x.first)}, {idSecond, const_cast<void *>(x.second)}, {idResult, x.result}};
}

template <typename Operands> class CudnnPlan : public DnnPlan<Operands> {
public:
  CudnnPlan(std::shared_ptr<Handle> handle, std::shared_ptr<fe::graph::Graph> graph, int64_t bytes)
      : handle(std::move(handle)), graph(std::move(graph)), bytes(bytes) {}

  size_t workspace() const override { return static_cast<size_t>(bytes); }

  bool run(cudaStream_t stream, const Operands &operands, void *workspace, std::string &why) override {
    return succeeds(why, [&]() -> fe::error_t {
      if (handle->stream != stream) {
        if (fe::detail::set_stream(handle->library, stream) != CUDNN_STATUS_SUCCESS)
          return {fe::error_code_t::CUDNN_BACKEND_API_FAILED, "cudnnSetStream"};
        handle->stream = stream;
      }
      std::unordered_map<int64_t, void *> places = placesOf(operands);
      return graph->execute(handle->library, places, workspace);
    });
  }

private:
  std::shared_ptr<Handle> handle;
  std::shared_ptr<fe::graph::Graph> graph;
  int64_t bytes;
};

/// What tensors hold unless told; all else is in float.
void setTypes(fe::graph::Graph &graph, fe::DataType_t stored) {
  graph.set_io_data_type(stored)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
}

//===-- graphs of attention --------------------------------------------------------------------------------------===//

fe::DataType_t typeOf(const DnnAttention &of) {
  return of.type == DnnType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
}

Tensor tensor(fe::graph::Graph &graph, Id id, const std::vector<int64_t> &sizes, const DnnStrides &by) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name("tensor" + std::to_string(id))
                          .set_uid(id)
                          .set_dim(sizes)
                          .set_stride({by.batch, by.head, by.row, 1}));
}
/// What the graph makes: where it lies.
void write(const Tensor &made, Id id, const std::vector<int64_t> &sizes, const DnnStrides &by) {
  made->set_output(true).set_uid(id).set_dim(sizes).set_stride({by.batch, by.head, by.row, 1});
}
template <typename Options> void restrict(Options &options, DnnSight sight) {
  if (sight != DnnSight::all)
    options
        .set_diagonal_alignment(sight == DnnSight::topLeft ? fe::DiagonalAlignment_t::TOP_LEFT
                                                           : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(0);
}
std::vector<int64_t> queries(const DnnAttention &of, int64_t width) { return {of.batch, of.heads, of.seq, width}; }
std::vector<int64_t> keys(const DnnAttention &of, int64_t width) { return {of.batch, of.keyHeads, of.past, width}; }
DnnStrides denseSums(const DnnAttention &of) { return {of.heads * of.seq, of.seq, 1}; }

void addForward(fe::graph::Graph &graph, const DnnAttention &of) {
  setTypes(graph, typeOf(of));
  auto options = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true).set_attn_scale(of.scale);
  restrict(options, of.sight);
  auto [out, logSum] =
      graph.sdpa(tensor(graph, idQ, queries(of, of.key), of.q), tensor(graph, idK, keys(of, of.key), of.k),
                 tensor(graph, idV, keys(of, of.value), of.v), options);
  write(out, idOut, queries(of, of.value), of.out);
  write(logSum, idLogSum, queries(of, 1), denseSums(of));
  logSum->set_data_type(fe::DataType_t::FLOAT);
}

void addGradient(fe::graph::Graph &graph, const DnnAttention &of) {
  setTypes(graph, typeOf(of));
  auto options = fe::graph::SDPA_backward_attributes()
                     .set_name("attention_grad")
                     .set_attn_scale(of.scale)
                     .set_deterministic_algorithm(true);
  restrict(options, of.sight);
  const Tensor logSum = tensor(graph, idLogSum, queries(of, 1), denseSums(of));
  logSum->set_data_type(fe::DataType_t::FLOAT);
  auto [dq, dk, dv] = graph.sdpa_backward(
      tensor(graph, idQ, queries(of, of.key), of.q), tensor(graph, idK, keys(of, of.key), of.k),
      tensor(graph, idV, keys(of, of.value), of.v), tensor(graph, idOut, queries(of, of.value), of.out),
      tensor(graph, idDout, queries(of, of.value), of.dout), logSum, options);
  write(dq, idDq, queries(of, of.key), of.dq);
  write(dk, idDk, keys(of, of.key), of.dk);
  write(dv, idDv, keys(of, of.value), of.dv);
}

//===-- graphs of convolutions -----------------------------------------------------------------------------------===//

using Numbers = std::vector<int64_t>;

/// x, w or y: dense, the last dimension fastest.
Numbers stridesOf(const Numbers &sizes) {
  Numbers strides(sizes.size(), 1);
  for (size_t k = sizes.size() - 1; k > 0; --k)
    strides[k - 1] = strides[k] * sizes[k];
  return strides;
}
Tensor dense(fe::graph::Graph &graph, Id id, const Numbers &sizes) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name("tensor" + std::to_string(id))
                          .set_uid(id)
                          .set_dim(sizes)
                          .set_stride(stridesOf(sizes)));
}

void addConv(fe::graph::Graph &graph, const runtime::ConvShape &shape, runtime::ConvKind kind) {
  setTypes(graph, fe::DataType_t::FLOAT);
  Numbers x = {shape.batch, shape.from}, w = {shape.to, shape.from}, y = {shape.batch, shape.to};
  Numbers low, high, strides;
  for (int k = 0; k < shape.rank; ++k) {
    const runtime::WindowDim &d = shape.dims[k];
    x.push_back(d.in), w.push_back(d.window), y.push_back(d.out());
    low.push_back(d.padLow), high.push_back(d.padHigh), strides.push_back(d.stride);
  }
  const auto with = [&](auto options) {
    options.set_name("conv").set_pre_padding(low).set_post_padding(high).set_stride(strides).set_dilation(
        Numbers(low.size(), 1));
    return options;
  };
  Tensor result;
  const Numbers *sizes = &y;
  if (kind == runtime::ConvKind::forward) {
    result =
        graph.conv_fprop(dense(graph, idFirst, x), dense(graph, idSecond, w), with(fe::graph::Conv_fprop_attributes()));
  } else if (kind == runtime::ConvKind::gradData) {
    result =
        graph.conv_dgrad(dense(graph, idFirst, y), dense(graph, idSecond, w), with(fe::graph::Conv_dgrad_attributes()));
    sizes = &x;
  } else {
    result =
        graph.conv_wgrad(dense(graph, idFirst, y), dense(graph, idSecond, x), with(fe::graph::Conv_wgrad_attributes()));
    sizes = &w;
  }
  result->set_output(true).set_uid(idResult).set_dim(*sizes).set_stride(stridesOf(*sizes));
}

/// A plan whose results are those of floats multiplied exactly, and the same each time.
fe::error_t buildExact(fe::graph::Graph &graph, cudnnHandle_t library, size_t workspace) {
  fe::error_t error = graph.validate();
  if (error.is_good())
    error = graph.build_operation_graph(library);
  if (error.is_good())
    error = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  using Note = fe::NumericalNote_t;
  graph
      .deselect_numeric_notes({Note::NONDETERMINISTIC, Note::TENSOR_CORE, Note::DOWN_CONVERT_INPUTS,
                               Note::REDUCED_PRECISION_REDUCTION, Note::FFT, Note::WINOGRAD})
      .deselect_workspace_greater_than(static_cast<int64_t>(workspace));
  if (error.is_good())
    error = graph.check_support();
  return error.is_good() ? graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE, false) : error;
}

//===-- the library ----------------------------------------------------------------------------------------------===//

class Cudnn : public DnnLibrary {
public:
  explicit Cudnn(std::shared_ptr<Handle> handle) : handle(std::move(handle)) {}

  std::string name() const override { return "cuDNN " + fe::detail::get_backend_version_string(); }

  std::unique_ptr<DnnPlan<DnnAttentionOperands>> plan(const DnnAttention &of, bool isGradient,
                                                      std::string &why) override {
    return planOf<DnnAttentionOperands>(why, [&](fe::graph::Graph &graph) {
      isGradient ? addGradient(graph, of) : addForward(graph, of);
      return graph.build(handle->library, {fe::HeurMode_t::A}, fe::BuildPlanPolicy_t::HEURISTICS_CHOICE, false);
    });
  }

  std::unique_ptr<DnnPlan<DnnConvOperands>> plan(const runtime::ConvShape &shape, runtime::ConvKind kind,
                                                 size_t workspace, std::string &why) override {
    return planOf<DnnConvOperands>(why, [&](fe::graph::Graph &graph) {
      addConv(graph, shape, kind);
      return buildExact(graph, handle->library, workspace);
    });
  }

private:
  /// `build` fills a graph and makes its plan.
  template <typename Operands, typename Build>
  std::unique_ptr<DnnPlan<Operands>> planOf(std::string &why, Build build) {
    std::unique_ptr<DnnPlan<Operands>> result;
    succeeds(why, [&]() -> fe::error_t {
      const auto graph = std::make_shared<fe::graph::Graph>();
      if (fe::error_t error = build(*graph); error.is_bad())
        return error;
      int64_t bytes = 0;
      if (fe::error_t error = graph->get_workspace_size(bytes); error.is_bad())
        return error;
      result = std::make_unique<CudnnPlan<Operands>>(handle, graph, bytes);
      return {};
    });
    return result;
  }

  std::shared_ptr<Handle> handle;
};

} // namespace

std::unique_ptr<DnnLibrary> openDnn(std::string &why) {
  static std::once_flag once;
  static std::string reason;
  std::call_once(once, [] {
    fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW);
    if (!fe::cudnn_dlhandle)
      reason = dlerror();
  });
  if (!fe::cudnn_dlhandle) {
    why = reason;
    return nullptr;
  }
  const auto handle = std::make_shared<Handle>();
  if (!succeeds(why, [&]() -> fe::error_t {
        const cudnnStatus_t status = fe::detail::create_handle(&handle->library);
        if (status != CUDNN_STATUS_SUCCESS)
          return {fe::error_code_t::HANDLE_ERROR, std::string("cudnnCreate: ") + fe::detail::get_error_string(status)};
        return {};
      }))
    return nullptr;
  return std::make_unique<Cudnn>(handle);
}

} // namespace echelon::cuda
