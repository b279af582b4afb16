// safetensors files. First byte: whether the header's length is put right here (up to the last brace); then the file,
// without that length where it is.
#include "runtime/snapshot/Safetensors.h"
#include "test/fuzz/Input.h"

using namespace echelon;

/// Every byte of every tensor can be read.
static unsigned sum(const runtime::SafetensorsFile &file) {
  unsigned total = file.checksum();
  for (const auto &[name, tensor] : file.tensors()) {
    size_t bytes = runtime::bytesOf(tensor.type);
    for (int64_t size : tensor.sizes)
      bytes *= size_t(size);
    for (size_t i = 0; i < bytes; ++i)
      total += unsigned(tensor.data[i]);
  }
  return total;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  fuzz::Input input(data, size);
  const uint8_t choice = input.byte();
  std::string bytes = input.rest();
  if (choice & 1) {
    const size_t brace = bytes.rfind('}');
    const uint64_t length = brace == std::string::npos ? bytes.size() : brace + 1;
    bytes.insert(0, reinterpret_cast<const char *>(&length), sizeof(length));
  }
  folder.write("x.safetensors", bytes);
  runtime::SafetensorsFile file;
  if (file.open(folder.path() + "/x.safetensors").empty()) {
    volatile unsigned read = sum(file);
    (void)read;
  }
  return 0;
}
