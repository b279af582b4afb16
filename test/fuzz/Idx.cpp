// mnist's idx files, packed or not. First byte: what the inputs are, the transform, whether files are packed here; then
// images and labels for training, labels and images for evaluation.
#include "test/fuzz/Source.h"

using namespace echelon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  fuzz::Input input(data, size);
  const uint8_t choice = input.byte();
  const auto form = [&](const std::string &bytes) { return choice & 4 ? fuzz::packed(bytes) : bytes; };
  folder.write("train-images", form(input.part()));
  folder.write("train-labels", form(input.part()));
  folder.write("t10k-labels", form(input.part()));
  folder.write("t10k-images", form(input.rest()));
  runtime::DataSpec spec = {"mnist", {folder.path()}};
  if (choice & 8)
    spec.transforms = {{"flip", {}}, {"crop", {double(choice >> 4)}}};
  fuzz::useSource(spec, {}, folder, choice);
  return 0;
}
