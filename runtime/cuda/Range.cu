#include "runtime/cuda/Range.h"

#include <nvtx3/nvToolsExt.h>

namespace echelon::cuda {

namespace {

/// Null where no tool is attached.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t own = nvtxDomainCreateA("echelon");
  return own;
}

nvtxEventAttributes_t named(const std::string &name) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name.c_str();
  return attributes;
}

} // namespace

bool Range::isSeen() { return domain(); }

Range::Range(const char *name, const char *place) {
  if (!isSeen())
    return;
  const std::string shown = *place ? std::string(name) + " (" + place + ")" : name;
  const nvtxEventAttributes_t attributes = named(shown);
  nvtxDomainRangePushEx(domain(), &attributes);
}

Range::~Range() {
  if (isSeen())
    nvtxDomainRangePop(domain());
}

void LooseRange::begin(const std::string &name) {
  end();
  if (!Range::isSeen())
    return;
  const nvtxEventAttributes_t attributes = named(name);
  id = nvtxDomainRangeStartEx(domain(), &attributes);
  isBegun = true;
}

void LooseRange::end() {
  if (isBegun)
    nvtxDomainRangeEnd(domain(), id);
  isBegun = false;
}

} // namespace echelon::cuda
