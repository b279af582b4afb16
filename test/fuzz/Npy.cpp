// npy arrays. First byte: what the inputs are, and whether there is a second array; then the file (or both).
#include "test/fuzz/Source.h"

using namespace echelon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  fuzz::Input input(data, size);
  const uint8_t choice = input.byte();
  runtime::DataSpec spec = {"npy", {"a.npy"}};
  if (choice & 4) {
    folder.write("b.npy", input.part());
    spec.paths.push_back("b.npy");
  }
  folder.write("a.npy", input.rest());
  fuzz::useSource(spec, {}, folder, choice);
  return 0;
}
