// csv tables. First byte: the inputs that the columns fill, and whether there is a second table; then the text (or
// both).
#include "test/fuzz/Source.h"

using namespace echelon;
using runtime::ElementType;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  fuzz::Input input(data, size);
  const uint8_t choice = input.byte();
  std::vector<runtime::InputShape> inputs = {{"x", {1 + choice % 4}, ElementType::Float32}};
  if (choice & 4)
    inputs.push_back({"label", {}, ElementType::Int32, choice & 8 ? 10 : 0});
  if (choice & 16)
    inputs.push_back({"flag", {}, ElementType::UInt8});
  runtime::DataSpec spec = {"csv", {"a.csv"}};
  if (choice & 32) {
    folder.write("b.csv", input.part());
    spec.paths.push_back("b.csv");
  }
  folder.write("a.csv", input.rest());
  fuzz::useSource(spec, inputs, folder);
  return 0;
}
