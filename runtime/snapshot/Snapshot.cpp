#include "runtime/snapshot/Snapshot.h"
#include "runtime/launch/Fail.h"
#include "runtime/program/Assemble.h"
#include "runtime/program/StartValues.h"
#include "runtime/snapshot/OtherWorkers.h"
#include "runtime/snapshot/ParseJson.h"
#include "runtime/snapshot/SnapshotFiles.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <future>

namespace echelon::runtime {

namespace fs = std::filesystem;

namespace {

constexpr int kVersion = 2; // 1 had no samples, and told the model by a hash: its tensors are read
constexpr uint64_t kMostSteps = uint64_t(1) << 53; // as a spec counts them

/// The step of a snapshot's folder name; -1 for other names.
int64_t stepOf(const std::string &name) {
  if (name.size() < 13 || name.compare(0, 5, "step-") != 0 ||
      name.find_first_not_of("0123456789", 5) != std::string::npos || name.size() > 23)
    return -1;
  return std::stoll(name.substr(5));
}

std::string hex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof(text), "%08x", value);
  return text;
}

/// The manifest carries a checksum of itself: of its text without the checksum.
std::string manifestText(nlohmann::ordered_json manifest) {
  const std::string body = manifest.dump();
  manifest["checksum"] = hex(crc32Of(0, body.data(), body.size()));
  return manifest.dump(1) + "\n";
}

} // namespace

std::string snapshotName(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof(name), "step-%08lld", static_cast<long long>(step));
  return name;
}

int64_t stepOfSnapshot(const std::string &path) {
  fs::path folder = path;
  if (!folder.has_filename()) // step-00000010/
    folder = folder.parent_path();
  return stepOf(folder.filename().string());
}

std::string newManifest(const Program &program, const Course &course, int64_t step,
                        const std::vector<WrittenFile> &files) {
  nlohmann::ordered_json manifest;
  manifest["format"] = "echelon-snapshot";
  manifest["version"] = kVersion;
  manifest["program"] = program.name;
  manifest["step"] = step;
  manifest["samples"] =
      program.sync ? course.tickets.next * program.miniBatch() : course.samplesBefore(step, program.batch);
  manifest["moments_from"] = course.momentsFrom;
  if (std::any_of(program.stored.begin(), program.stored.end(),
                  [](const Stored &stored) { return stored.kind == Stored::Average; }))
    manifest["averages_from"] = course.averagesFrom;
  if (program.lossScale.isDynamic) {
    manifest["loss_scale"] = course.lossScale;
    manifest["good_steps"] = course.goodSteps;
  }
  if (program.sync)
    manifest["tickets"] = {{"mini_batch", program.miniBatch()},
                           {"next", course.tickets.next},
                           {"again", course.tickets.again},
                           {"time", course.tickets.time}};
  for (const WrittenFile &file : files)
    manifest["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc32", hex(file.crc32)}});
  for (const Fingerprint &print : program.fingerprints)
    manifest["fingerprints"][print.category] = print.text;
  return manifestText(manifest);
}

std::string listSnapshots(const std::string &directory, std::vector<std::string> &paths) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code failed;
  for (fs::directory_iterator it(directory, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code ignored;
    const int64_t step = stepOf(it->path().filename().string());
    if (step >= 0 && it->is_directory(ignored))
      found.emplace_back(step, it->path().string());
  }
  std::sort(found.rbegin(), found.rend());
  paths.clear();
  for (auto &[step, path] : found)
    paths.push_back(path);
  const bool isThere = failed != std::errc::no_such_file_or_directory;
  return failed && isThere ? "cannot read folder \"" + directory + "\": " + failed.message() : "";
}

std::string openSnapshot(const std::string &path, Snapshot &snapshot) {
  const std::string damaged = "snapshot \"" + path + "\" is damaged: ";
  FileBytes bytes;
  std::error_code ignored;
  if (fs::is_symlink(path + "/manifest.json", ignored))
    return damaged + "manifest.json is a symbolic link";
  std::string error = readFile(path + "/manifest.json", bytes);
  if (!error.empty())
    return damaged + error;
  const char *text = reinterpret_cast<const char *>(bytes.data());
  auto manifest = parseJson<nlohmann::ordered_json>(text, bytes.size());
  if (!manifest.is_object() || !manifest.contains("checksum"))
    return damaged + "its manifest.json is cut off";
  manifest.erase("checksum");
  if (std::string(text, bytes.size()) != manifestText(manifest))
    return damaged + "its manifest.json does not match its checksum";
  snapshot = Snapshot();
  snapshot.path = path;
  struct FileRow {
    std::string name, crc32;
    size_t bytes;
  };
  std::vector<FileRow> files;
  try {
    if (manifest.at("format") != "echelon-snapshot")
      return "snapshot \"" + path + "\" is of a format that this program does not read";
    if (manifest.at("version") != 1 && manifest.at("version") != kVersion)
      return "snapshot \"" + path + "\" is of version " + manifest.at("version").dump() +
             " of the format, and this program reads 1 and " + std::to_string(kVersion);
    snapshot.version = manifest.at("version").get<int>();
    const auto &step = manifest.at("step");
    auto isCount = [](const nlohmann::ordered_json &value) {
      return value.is_number_unsigned() && value.get<uint64_t>() <= kMostSteps;
    };
    bool whole = isCount(step);
    if (snapshot.version > 1)
      whole &= isCount(manifest.at("samples")) && isCount(manifest.at("moments_from")) &&
               manifest.at("moments_from").get<uint64_t>() <= step.get<uint64_t>();
    if (manifest.contains("averages_from"))
      whole &= isCount(manifest["averages_from"]) && manifest["averages_from"].get<uint64_t>() <= step.get<uint64_t>();
    if (manifest.contains("loss_scale"))
      whole &= isCount(manifest["loss_scale"]) && isCount(manifest.at("good_steps")) &&
               (manifest["loss_scale"].get<uint64_t>() & (manifest["loss_scale"].get<uint64_t>() - 1)) == 0;
    if (manifest.contains("tickets")) {
      const auto &tickets = manifest["tickets"];
      whole &= isCount(tickets.at("mini_batch")) && isCount(tickets.at("next")) && tickets.at("again").is_array() &&
               tickets.at("time").is_number();
      for (const auto &ticket : tickets.at("again"))
        whole &= isCount(ticket) && ticket.get<uint64_t>() < tickets["next"].get<uint64_t>();
    }
    for (const auto &file : manifest.at("files"))
      whole &= file.at("bytes").is_number_unsigned();
    if (!whole)
      return damaged + "its manifest.json is not one of a snapshot";
    snapshot.step = step.get<int64_t>();
    if (const int64_t named = stepOfSnapshot(path); named >= 0 && named != snapshot.step)
      return damaged + "its manifest.json is of step " + std::to_string(snapshot.step);
    for (const auto &file : manifest.at("files"))
      files.push_back(
          {file.at("name").get<std::string>(), file.at("crc32").get<std::string>(), file.at("bytes").get<size_t>()});
    for (const FileRow &file : files) // what lies elsewhere is not read
      if (std::find(std::begin(kSnapshotFiles), std::end(kSnapshotFiles), file.name) == std::end(kSnapshotFiles))
        return damaged + "its manifest.json names \"" + printable(file.name) + "\", which is no file of a snapshot";
    if (manifest.contains("fingerprints"))
      for (const auto &[category, value] : manifest["fingerprints"].items())
        snapshot.fingerprints.push_back({category, value.get<std::string>()});
    if (snapshot.version > 1) {
      snapshot.samples = manifest.at("samples").get<int64_t>();
      snapshot.momentsFrom = manifest.at("moments_from").get<int64_t>();
      snapshot.averagesFrom = manifest.contains("averages_from") ? manifest["averages_from"].get<int64_t>() : 0;
      if (manifest.contains("tickets")) {
        const auto &tickets = manifest["tickets"];
        snapshot.miniBatch = tickets["mini_batch"].get<int64_t>();
        snapshot.tickets = {tickets["next"].get<int64_t>(), tickets["again"].get<std::vector<int64_t>>(),
                            tickets["time"].get<double>()};
      }
      if (manifest.contains("loss_scale")) {
        snapshot.lossScale = manifest["loss_scale"].get<int64_t>();
        snapshot.goodSteps = manifest["good_steps"].get<int64_t>();
      }
    }
  } catch (const nlohmann::json::exception &) {
    return damaged + "its manifest.json is not one of a snapshot";
  }
  for (const FileRow &file : files) {
    SafetensorsFile tensors;
    if (fs::is_symlink(path + "/" + file.name, ignored))
      return damaged + file.name + " is a symbolic link";
    error = tensors.open(path + "/" + file.name);
    if (!error.empty())
      return damaged + error;
    if (tensors.bytes() != file.bytes)
      return damaged + file.name + " has " + std::to_string(tensors.bytes()) + " bytes, not " +
             std::to_string(file.bytes);
    if (hex(tensors.checksum()) != file.crc32)
      return damaged + file.name + " does not match its checksum";
    snapshot.files.push_back(std::move(tensors));
  }
  return "";
}

std::string findSnapshot(const std::string &path, Snapshot &snapshot, std::vector<std::string> &warnings) {
  std::error_code ignored;
  if (fs::exists(path + "/manifest.json", ignored))
    return openSnapshot(path, snapshot);
  std::vector<std::string> all;
  if (const std::string error = listSnapshots(path, all); !error.empty())
    return error;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string error = fs::is_symlink(all[i], ignored)
                                  ? "snapshot \"" + all[i] + "\" is a symbolic link: it is not read from there"
                                  : openSnapshot(all[i], snapshot);
    if (error.empty())
      return "";
    if (i + 1 == all.size())
      return error + (i ? "; none of the " + std::to_string(i + 1) + " in \"" + path + "\" is whole" : "");
    warnings.push_back(error + "; taking the one before it");
  }
  return "there is no snapshot in \"" + path + "\"";
}

const SafetensorsFile::Tensor *Snapshot::tensor(const std::string &name) const {
  for (const SafetensorsFile &file : files)
    if (const auto it = file.tensors().find(name); it != file.tensors().end())
      return &it->second;
  return nullptr;
}

void saveSnapshot(Rank &rank, const std::string &directory, int64_t step, int64_t keep) {
  rank.transport().setPlace(Activity::Save, directory.c_str());
  WriterTurns turns(rank, "save");
  SnapshotFiles files(rank.program(), rank.course(), directory, step, keep);
  const std::vector<TensorPiece> tensors = storedTensors(rank);
  auto check = [&](const std::string &error) {
    if (error.empty())
      return;
    files.remove();
    fail(files.named(error));
  };
  if (rank.rank() == 0)
    check(files.begin());
  for (size_t i : SnapshotFiles::order(rank.program()))
    assemble(rank, turns, tensors[i],
             [&](const std::byte *data, size_t bytes) { check(files.append(i, data, bytes)); });
  if (rank.rank() == 0) { // one thread waits for the disk, the other gives word
    std::future<std::string> published = std::async(std::launch::async, [&] { return files.publish(); });
    while (published.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready)
      turns.stillWriting();
    check(published.get());
  }
  turns.end();
}

void loadSnapshot(Rank &rank, const Snapshot &snapshot, bool withOptimizer) {
  const std::vector<TensorPiece> tensors = storedTensors(rank);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Stored &stored = rank.program().stored[i];
    if (stored.kind == Stored::Optimizer && !withOptimizer)
      continue;
    if (snapshot.startsAtZero.count(stored.path)) {
      fillStartValue(rank, stored);
      continue;
    }
    const SafetensorsFile::Tensor *found = snapshot.tensor(stored.path);
    if (!found && stored.kind == Stored::Average) // of a run that had none: they start as the parameters
      found = snapshot.tensor(stored.path.substr(std::strlen("average.")));
    if (!found)
      fail("snapshot \"" + snapshot.path + "\" has no tensor " + stored.path);
    if (isOfOtherWorkers(rank.program(), snapshot, *found, stored)) {
      takeMean(rank, snapshot, *found, stored, tensors[i]);
      continue;
    }
    if (found->type != stored.type || found->sizes != logicalSizes(stored.layout, stored.axes))
      fail("snapshot \"" + snapshot.path + "\" has " + stored.path + " in another shape or type");
    takePiece(rank, tensors[i], found->data);
  }
}

} // namespace echelon::runtime
