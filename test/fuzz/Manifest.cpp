// A snapshot's manifest beside a file of tensors that is whole. First byte: whether the manifest's checksum, and what
// it says of its files, are put right here; then its text. What it says of the model is compared with a model.
#include "runtime/snapshot/CompareMathematics.h"
#include "runtime/snapshot/Snapshot.h"
#include "test/fuzz/Input.h"

#include <nlohmann/json.hpp>

using namespace echelon;

static std::string hex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof(text), "%08x", value);
  return text;
}

/// A folder with a file of tensors; what a manifest should say of it is in `files`.
static std::string makeSnapshot(const fuzz::Folder &folder, nlohmann::ordered_json &files) {
  const std::string path = folder.path() + "/step-00000010";
  std::filesystem::create_directory(path);
  runtime::SafetensorsWriter writer;
  const float values[2] = {1, 2};
  fuzz::expect(writer.open(path + "/model.safetensors", {{"w", runtime::ElementType::Float32, {2}}}).empty());
  fuzz::expect(writer.append(reinterpret_cast<const std::byte *>(values), sizeof(values)).empty());
  fuzz::expect(writer.finish().empty());
  files.push_back({{"name", "model.safetensors"}, {"bytes", writer.bytes()}, {"crc32", hex(writer.checksum())}});
  return path;
}

/// The manifest with the checksum, and the files, that it should have; as it is where it is no object, or a deep one,
/// whose text JSON's writer would recurse over.
static std::string corrected(const std::string &text, bool rightFiles, const nlohmann::ordered_json &files) {
  bool deep = false;
  const auto shallow = [&](int depth, nlohmann::ordered_json::parse_event_t, nlohmann::ordered_json &) {
    deep |= depth > 32;
    return !deep;
  };
  nlohmann::ordered_json manifest = nlohmann::ordered_json::parse(text, shallow, false);
  if (deep || !manifest.is_object())
    return text;
  if (rightFiles)
    manifest["files"] = files;
  manifest.erase("checksum");
  const std::string body = manifest.dump();
  manifest["checksum"] = hex(runtime::crc32Of(0, body.data(), body.size()));
  return manifest.dump();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  static nlohmann::ordered_json files;
  static const std::string path = makeSnapshot(folder, files);
  fuzz::Input input(data, size);
  const uint8_t choice = input.byte();
  const std::string text = input.rest();
  folder.write("step-00000010/manifest.json", choice & 1 ? corrected(text, choice & 2, files) : text);
  runtime::Snapshot snapshot;
  std::vector<std::string> warnings;
  const std::string error = runtime::openSnapshot(path, snapshot);
  for (const runtime::Fingerprint &print : snapshot.fingerprints)
    runtime::compareMathematics(print.text, "mathematics 1\nparam w ( 'a=2 ) f32\n%0 = value w\n"
                                            "%1 = carried 'n=3 %0\n%2 = mul %1 #0.5 [ 'a=2 ] f32\ncarry %1 %2\n"
                                            "%3 = dropout %2 #0.1 ~dropout\nloss loss %3\nnext w %2\n");
  fuzz::expect(runtime::findSnapshot(folder.path(), snapshot, warnings).empty() == error.empty());
  return 0;
}
