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
enum Id : int64_t { idQ = 1, idK, idV, idOut, idLogSum, idDout, idDq, idDk, idDv };

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

class CudnnPlan : public DnnPlan {
public:
  CudnnPlan(std::shared_ptr<Handle> handle, std::shared_ptr<fe::graph::Graph> graph, bool isGradient, int64_t bytes)
      : handle(std::move(handle)), graph(std::move(graph)), isGradient(isGradient), bytes(bytes) {}

  size_t workspace() const override { return static_cast<size_t>(bytes); }

  bool run(cudaStream_t stream, const DnnOperands &x, void *workspace, std::string &why) override {
    std::unordered_map<int64_t, void *> places = {{idQ, const_cast<void *>(x.q)},
                                                  {idK, const_cast<void *>(x.k)},
                                                  {idV, const_cast<void *>(x.v)},
                                                  {idOut, x.out},
                                                  {idLogSum, x.logSum}};
    if (isGradient)
      places.insert({{idDout, const_cast<void *>(x.dout)}, {idDq, x.dq}, {idDk, x.dk}, {idDv, x.dv}});
    return succeeds(why, [&]() -> fe::error_t {
      if (handle->stream != stream) {
        if (fe::detail::set_stream(handle->library, stream) != CUDNN_STATUS_SUCCESS)
          return {fe::error_code_t::CUDNN_BACKEND_API_FAILED, "cudnnSetStream"};
        handle->stream = stream;
      }
      return graph->execute(handle->library, places, workspace);
    });
  }

private:
  std::shared_ptr<Handle> handle;
  std::shared_ptr<fe::graph::Graph> graph;
  bool isGradient;
  int64_t bytes;
};

class Cudnn : public DnnLibrary {
public:
  explicit Cudnn(std::shared_ptr<Handle> handle) : handle(std::move(handle)) {}

  std::string name() const override { return "cuDNN " + fe::detail::get_backend_version_string(); }

  std::unique_ptr<DnnPlan> plan(const DnnAttention &of, bool isGradient, std::string &why) override {
    std::unique_ptr<DnnPlan> result;
    succeeds(why, [&]() -> fe::error_t {
      const auto graph = std::make_shared<fe::graph::Graph>();
      graph->set_io_data_type(of.type == DnnType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
          .set_intermediate_data_type(fe::DataType_t::FLOAT)
          .set_compute_data_type(fe::DataType_t::FLOAT);
      if (isGradient)
        addGradient(*graph, of);
      else
        addForward(*graph, of);
      if (fe::error_t error =
              graph->build(handle->library, {fe::HeurMode_t::A}, fe::BuildPlanPolicy_t::HEURISTICS_CHOICE, false);
          error.is_bad())
        return error;
      int64_t bytes = 0;
      if (fe::error_t error = graph->get_workspace_size(bytes); error.is_bad())
        return error;
      result = std::make_unique<CudnnPlan>(handle, graph, isGradient, bytes);
      return {};
    });
    return result;
  }

private:
  static Tensor tensor(fe::graph::Graph &graph, Id id, const std::vector<int64_t> &sizes, const DnnStrides &by) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_name("tensor" + std::to_string(id))
                            .set_uid(id)
                            .set_dim(sizes)
                            .set_stride({by.batch, by.head, by.row, 1}));
  }
  /// What the graph makes: where it lies.
  static void write(const Tensor &made, Id id, const std::vector<int64_t> &sizes, const DnnStrides &by) {
    made->set_output(true).set_uid(id).set_dim(sizes).set_stride({by.batch, by.head, by.row, 1});
  }
  template <typename Options> static void restrict(Options &options, DnnSight sight) {
    if (sight != DnnSight::all)
      options
          .set_diagonal_alignment(sight == DnnSight::topLeft ? fe::DiagonalAlignment_t::TOP_LEFT
                                                             : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
          .set_diagonal_band_right_bound(0);
  }
  static std::vector<int64_t> queries(const DnnAttention &of, int64_t width) {
    return {of.batch, of.heads, of.seq, width};
  }
  static std::vector<int64_t> keys(const DnnAttention &of, int64_t width) {
    return {of.batch, of.keyHeads, of.past, width};
  }
  static DnnStrides denseSums(const DnnAttention &of) { return {of.heads * of.seq, of.seq, 1}; }

  static void addForward(fe::graph::Graph &graph, const DnnAttention &of) {
    auto options = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true).set_attn_scale(of.scale);
    restrict(options, of.sight);
    auto [out, logSum] =
        graph.sdpa(tensor(graph, idQ, queries(of, of.key), of.q), tensor(graph, idK, keys(of, of.key), of.k),
                   tensor(graph, idV, keys(of, of.value), of.v), options);
    write(out, idOut, queries(of, of.value), of.out);
    write(logSum, idLogSum, queries(of, 1), denseSums(of));
    logSum->set_data_type(fe::DataType_t::FLOAT);
  }

  static void addGradient(fe::graph::Graph &graph, const DnnAttention &of) {
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
