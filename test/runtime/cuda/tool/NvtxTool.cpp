// A tool as NVTX loads one (NVTX_INJECTION64_PATH): writes the ranges of all threads to the file $NVTX_TOOL_FILE, a line
// each: "push 1 NAME", "pop 1", "start 7 NAME", "end 7". The number is of the thread, or of the range.
#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace {

std::mutex lock;
std::atomic<uint64_t> lastThread{0}, lastRange{0};

unsigned long long thisThread() {
  thread_local const uint64_t own = ++lastThread;
  return own;
}

void write(const char *what, unsigned long long number, const char *name) {
  const std::lock_guard<std::mutex> guard(lock);
  static FILE *const file = std::fopen(std::getenv("NVTX_TOOL_FILE"), "ae");
  std::fprintf(file, "%s %llu %s\n", what, number, name);
  std::fflush(file);
}

nvtxDomainHandle_t create(const char *name) {
  write("domain", 0, name);
  return reinterpret_cast<nvtxDomainHandle_t>(&lock);
}
int push(nvtxDomainHandle_t, const nvtxEventAttributes_t *attributes) {
  write("push", thisThread(), attributes->message.ascii);
  return 0;
}
int pop(nvtxDomainHandle_t) {
  write("pop", thisThread(), "");
  return 0;
}
nvtxRangeId_t start(nvtxDomainHandle_t, const nvtxEventAttributes_t *attributes) {
  const uint64_t id = ++lastRange;
  write("start", id, attributes->message.ascii);
  return id;
}
void end(nvtxDomainHandle_t, nvtxRangeId_t id) { write("end", id, ""); }

} // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables) {
  const auto *callbacks = static_cast<const NvtxExportTableCallbacks *>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned count = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &count) ||
      count <= NVTX_CBID_CORE2_DomainCreateA)
    return 0;
  *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create);
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
  *functions[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  *functions[NVTX_CBID_CORE2_DomainRangeStartEx] = reinterpret_cast<NvtxFunctionPointer>(start);
  *functions[NVTX_CBID_CORE2_DomainRangeEnd] = reinterpret_cast<NvtxFunctionPointer>(end);
  return 1;
}
