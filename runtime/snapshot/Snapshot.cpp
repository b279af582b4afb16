#include "runtime/snapshot/Snapshot.h"
#include "runtime/launch/Fail.h"
#include "runtime/program/Assemble.h"
#include "runtime/snapshot/DirectoryClaim.h"
#include "runtime/snapshot/ParseJson.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <future>
#include <sstream>
#include <unistd.h>

namespace echelon::runtime {

namespace fs = std::filesystem;

namespace {

constexpr int kVersion = 1;
constexpr const char *kFiles[] = {"model.safetensors", "optimizer.safetensors"};

std::string folderName(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof(name), "step-%08lld", static_cast<long long>(step));
  return name;
}

/// The step of a snapshot's folder name; -1 for other names.
int64_t stepOf(const std::string &name) {
  if (name.size() < 13 || name.compare(0, 5, "step-") != 0 ||
      name.find_first_not_of("0123456789", 5) != std::string::npos || name.size() > 23)
    return -1;
  return std::stoll(name.substr(5));
}

std::string syncFolder(const std::string &path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 || fsync(descriptor) != 0) {
    const std::string error = "cannot write \"" + path + "\": " + std::strerror(errno);
    if (descriptor >= 0)
      close(descriptor);
    return error;
  }
  close(descriptor);
  return "";
}

std::string writeText(const std::string &path, const std::string &text) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  const bool ok = descriptor >= 0 && writeAll(descriptor, text.data(), text.size()) && fsync(descriptor) == 0;
  const std::string error = ok ? "" : "cannot write \"" + path + "\": " + std::strerror(errno);
  if (descriptor >= 0)
    close(descriptor);
  return error;
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

bool belongsTo(Stored::Kind kind, int file) { return (kind == Stored::Optimizer) == (file == 1); }

/// After all bytes are written: to disk, then under its name, then the old ones go.
std::string publish(SafetensorsWriter (&writers)[2], const Program &program, const std::string &directory,
                    const std::string &temporary, int64_t step, int64_t keep) {
  nlohmann::ordered_json manifest;
  manifest["format"] = "echelon-snapshot";
  manifest["version"] = kVersion;
  manifest["program"] = program.name;
  manifest["step"] = step;
  for (int f = 0; f < 2; ++f) {
    const std::string error = writers[f].finish();
    if (!error.empty())
      return error;
    manifest["files"].push_back(
        {{"name", kFiles[f]}, {"bytes", writers[f].bytes()}, {"crc32", hex(writers[f].checksum())}});
  }
  for (const Fingerprint &print : program.fingerprints)
    manifest["fingerprints"][print.category] = print.text;
  std::string error = writeText(temporary + "/manifest.json", manifestText(manifest));
  if (error.empty())
    error = syncFolder(temporary);
  if (!error.empty())
    return error;
  const std::string place = directory + "/" + folderName(step), old = temporary + ".old";
  std::error_code failed, ignored;
  // A folder of this name is one that was found damaged, or of a run that was told to start afresh.
  if (fs::exists(place, ignored))
    fs::rename(place, old, ignored);
  fs::rename(temporary, place, failed);
  if (failed)
    return "cannot write \"" + place + "\": " + failed.message();
  fs::remove_all(old, ignored);
  error = syncFolder(directory);
  if (!error.empty() || keep == 0)
    return error;
  // Later ones are damaged, or this run would have gone on from them; they do not count.
  int64_t kept = 0;
  for (const std::string &path : listSnapshots(directory))
    if (stepOf(fs::path(path).filename().string()) <= step && ++kept > keep)
      fs::remove_all(path, ignored);
  return "";
}

} // namespace

std::vector<std::string> listSnapshots(const std::string &directory) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code failed;
  for (fs::directory_iterator it(directory, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code ignored;
    const int64_t step = stepOf(it->path().filename().string());
    if (step >= 0 && it->is_directory(ignored))
      found.emplace_back(step, it->path().string());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> paths;
  for (auto &[step, path] : found)
    paths.push_back(path);
  return paths;
}

std::string openSnapshot(const std::string &path, Snapshot &snapshot) {
  const std::string damaged = "snapshot \"" + path + "\" is damaged: ";
  FileBytes bytes;
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
    if (manifest.at("format") != "echelon-snapshot" || manifest.at("version") != kVersion)
      return "snapshot \"" + path + "\" is of a format that this program does not read";
    bool whole = manifest.at("step").is_number_unsigned();
    for (const auto &file : manifest.at("files"))
      whole &= file.at("bytes").is_number_unsigned();
    if (!whole)
      return damaged + "its manifest.json is not one of a snapshot";
    snapshot.step = manifest.at("step").get<int64_t>();
    for (const auto &file : manifest.at("files"))
      files.push_back(
          {file.at("name").get<std::string>(), file.at("crc32").get<std::string>(), file.at("bytes").get<size_t>()});
    for (const FileRow &file : files) // what lies elsewhere is not read
      if (std::find(std::begin(kFiles), std::end(kFiles), file.name) == std::end(kFiles))
        return damaged + "its manifest.json names \"" + printable(file.name) + "\", which is no file of a snapshot";
    if (manifest.contains("fingerprints"))
      for (const auto &[category, value] : manifest["fingerprints"].items())
        snapshot.fingerprints.push_back({category, value.get<std::string>()});
  } catch (const nlohmann::json::exception &) {
    return damaged + "its manifest.json is not one of a snapshot";
  }
  for (const FileRow &file : files) {
    SafetensorsFile tensors;
    std::error_code ignored;
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
    snapshot.files.push_back(tensors);
  }
  return "";
}

std::string findSnapshot(const std::string &path, Snapshot &snapshot, std::vector<std::string> &warnings) {
  std::error_code ignored;
  if (fs::exists(path + "/manifest.json", ignored))
    return openSnapshot(path, snapshot);
  const std::vector<std::string> all = listSnapshots(path);
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

std::string differences(const Program &program, const Snapshot &snapshot, const std::vector<std::string> &categories) {
  auto linesOf = [](const std::vector<Fingerprint> &prints, const std::string &category) {
    std::vector<std::string> lines;
    for (const Fingerprint &print : prints)
      if (print.category == category) {
        std::istringstream text(print.text);
        for (std::string line; std::getline(text, line);)
          lines.push_back(line);
      }
    return lines;
  };
  std::string result;
  for (const std::string &category : categories) {
    const std::vector<std::string> now = linesOf(program.fingerprints, category),
                                   then = linesOf(snapshot.fingerprints, category);
    if (now == then)
      continue;
    auto without = [](const std::vector<std::string> &lines, const std::vector<std::string> &other) {
      std::vector<std::string> rest;
      for (const std::string &line : lines)
        if (std::count(lines.begin(), lines.end(), line) != std::count(other.begin(), other.end(), line))
          rest.push_back(line);
      return rest;
    };
    result += "  " + category + " differs:\n";
    const std::vector<std::string> gone = without(then, now), added = without(now, then);
    for (const std::string &line : gone)
      result += "    snapshot: " + line + "\n";
    for (const std::string &line : added)
      result += "    now:      " + line + "\n";
    if (gone.empty() && added.empty())
      result += "    the same lines in another order\n";
  }
  return result;
}

void saveSnapshot(Rank &rank, const std::string &directory, int64_t step, int64_t keep) {
  const Program &program = rank.program();
  rank.transport().setPlace(Doing::Save, directory.c_str());
  Turns turns(rank, "save");
  const std::string temporary = directory + "/" + unfinishedName(folderName(step));
  SafetensorsWriter writers[2];
  const std::vector<TensorPiece> tensors = storedTensors(rank);
  auto check = [&](const std::string &error) {
    if (error.empty())
      return;
    std::error_code ignored;
    fs::remove_all(temporary, ignored); // a full disk is not left full
    fail(error);
  };
  if (rank.rank() == 0) {
    std::error_code failed, ignored;
    fs::create_directories(directory, failed);
    fs::remove_all(temporary, ignored); // of a run that died while writing
    fs::create_directory(temporary, failed);
    if (failed)
      fail("cannot write \"" + temporary + "\": " + failed.message());
  }
  for (int f = 0; f < 2; ++f) {
    if (rank.rank() == 0) {
      std::vector<TensorEntry> entries;
      for (const Stored &stored : program.stored)
        if (belongsTo(stored.kind, f))
          entries.push_back({stored.path, stored.type, logicalSizes(stored.layout, stored.axes)});
      check(writers[f].open(temporary + "/" + kFiles[f], entries));
    }
    for (size_t i = 0; i < tensors.size(); ++i)
      if (belongsTo(program.stored[i].kind, f))
        assemble(rank, turns, tensors[i],
                 [&](const std::byte *data, size_t bytes) { check(writers[f].append(data, bytes)); });
  }
  if (rank.rank() == 0) { // one thread waits for the disk, the other gives word
    std::future<std::string> published =
        std::async(std::launch::async, [&] { return publish(writers, program, directory, temporary, step, keep); });
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
    const SafetensorsFile::Tensor *found = nullptr;
    for (const SafetensorsFile &file : snapshot.files) {
      auto it = file.tensors().find(stored.path);
      if (it != file.tensors().end())
        found = &it->second;
    }
    if (!found)
      fail("snapshot \"" + snapshot.path + "\" has no tensor " + stored.path);
    if (found->type != stored.type || found->sizes != logicalSizes(stored.layout, stored.axes))
      fail("snapshot \"" + snapshot.path + "\" has " + stored.path + " in another shape or type");
    takePiece(rank, tensors[i], found->data);
  }
}

} // namespace echelon::runtime
