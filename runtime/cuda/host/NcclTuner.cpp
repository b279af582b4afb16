#include "runtime/cuda/host/NcclTuner.h"
#include "runtime/cuda/host/Emulation.h"
#include "runtime/cuda/tuner/Plugin.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>
#include <string>

namespace echelon::cuda {

namespace {

constexpr int kAlgorithms = 7, kProtocols = 3, kTree = 0, kRing = 1;

const TunerPlugin *load() {
  const char *path = std::getenv("NCCL_TUNER_PLUGIN");
  void *library = path ? dlopen(path, RTLD_NOW) : nullptr;
  return library ? static_cast<const TunerPlugin *>(dlsym(library, "ncclTunerPlugin_v5")) : nullptr;
}
const TunerPlugin *plugin() {
  static const TunerPlugin *const loaded = load();
  return loaded;
}

thread_local std::string lastAlgorithm;

} // namespace

std::string algorithmOfLastCollective() { return lastAlgorithm; }

namespace host {

std::shared_ptr<void> tunerOf(int ranks) {
  if (!plugin())
    return nullptr;
  void *context = nullptr;
  if (plugin()->init(&context, 1, size_t(ranks), 1, nullptr, nullptr, nullptr) != 0)
    throw std::runtime_error("the tuner's plugin refuses its rows");
  return {context, [](void *made) { plugin()->finalize(made); }};
}

void askTuner(const std::shared_ptr<void> &tuner, Tuned collective, size_t bytes) {
  lastAlgorithm.clear();
  if (!tuner)
    return;
  float times[kAlgorithms][kProtocols];
  for (int a = 0; a < kAlgorithms; ++a)
    for (float &time : times[a])
      time = a == kRing || (a == kTree && collective == Tuned::AllReduce) ? 1 : -1;
  int channels = 0;
  plugin()->getCollInfo(tuner.get(), static_cast<int>(collective), bytes, 1, reinterpret_cast<float **>(times),
                        kAlgorithms, kProtocols, 0, &channels);
  static const char *const protocols[] = {" ll", " ll128", " simple"};
  const auto left = [&](int a) {
    return std::count_if(times[a], times[a] + kProtocols, [](float t) { return t >= 0; });
  };
  const bool hasTree = left(kTree) > 0, hasRing = left(kRing) > 0;
  if (hasTree == hasRing || collective != Tuned::AllReduce)
    return;
  lastAlgorithm = hasTree ? "tree" : "ring";
  const float *of = times[hasTree ? kTree : kRing];
  if (left(hasTree ? kTree : kRing) == 1)
    lastAlgorithm += protocols[std::find_if(of, of + kProtocols, [](float t) { return t >= 0; }) - of];
}

} // namespace host
} // namespace echelon::cuda
