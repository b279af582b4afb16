// text and tokens, alone and under next_token. Four bytes: the kind, the window's length, the bound, what is held out;
// then the file.
#include "test/fuzz/Source.h"

using namespace echelon;
using runtime::ElementType;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  fuzz::Input input(data, size);
  const uint8_t choice = input.byte(), length = input.byte(), bound = input.byte(), share = input.byte();
  constexpr int64_t kBounds[] = {0, 10, 128, 256, 50257, 65536, 65537, int64_t(1) << 31};
  runtime::InputShape shape = {"tokens", {length}, ElementType::Int32, kBounds[bound % 8]};
  runtime::DataSpec spec = {choice & 1 ? "tokens" : "text", {"t.bin"}};
  if (choice & 1 && choice & 2)
    spec.args = {choice & 4 ? 16.0 : 32.0};
  std::vector<runtime::InputShape> inputs = {shape};
  if (choice & 8) {
    runtime::DataSpec pairs = {"next_token"};
    pairs.children = {spec};
    pairs.args = {share / 200.0};
    spec = pairs;
    inputs.push_back(shape);
  }
  folder.write("t.bin", choice & 16 ? fuzz::packed(input.rest()) : input.rest());
  fuzz::useSource(spec, inputs, folder);
  return 0;
}
