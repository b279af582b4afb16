// cifar10's binary batches. First byte: what the inputs are, the transform, whether files are filled up to whole
// records; then a batch for training and one for evaluation.
#include "test/fuzz/Source.h"

using namespace echelon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr size_t kRecord = 1 + 3 * 32 * 32;
  static const fuzz::Folder folder;
  fuzz::Input input(data, size);
  const uint8_t choice = input.byte();
  const auto form = [&](std::string bytes) {
    if (choice & 4)
      bytes.resize((bytes.size() + kRecord - 1) / kRecord * kRecord);
    return choice & 8 ? fuzz::packed(bytes) : bytes;
  };
  folder.write("data_batch_1.bin", form(input.part()));
  folder.write("test_batch.bin", form(input.rest()));
  runtime::DataSpec spec = {"cifar10", {folder.path()}};
  if (choice & 16)
    spec.transforms = {{"normalize", {0.5, 0.25, 0.5, 1, 2, 3}}, {"flip", {}}, {"crop", {double(choice >> 5)}}};
  fuzz::useSource(spec, {}, folder, choice);
  return 0;
}
