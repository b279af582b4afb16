#include "runtime/snapshot/SnapshotFiles.h"
#include "runtime/kernels/Check.h"
#include "runtime/snapshot/DirectoryClaim.h"
#include "runtime/snapshot/Snapshot.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace echelon::runtime {

namespace fs = std::filesystem;

namespace {

/// A state of the model's own may be what it likes.
bool isFinite(const Stored &stored, const std::byte *data, size_t bytes) {
  if (stored.kind == Stored::State)
    return true;
  return check_finite(stored.type, data, int64_t(bytes / bytesOf(stored.type))) < 0;
}

size_t fileOf(const Stored &stored) { return stored.kind == Stored::Optimizer || stored.kind == Stored::Average; }

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

} // namespace

SnapshotFiles::SnapshotFiles(const Program &p, const Course &c, const std::string &d, int64_t s, int64_t k)
    : program(p), course(c), directory(d), temporary(d + "/" + unfinishedName(snapshotName(s))), step(s), keep(k) {}

std::vector<size_t> SnapshotFiles::order(const Program &program) {
  std::vector<size_t> order;
  for (size_t file = 0; file < 2; ++file)
    for (size_t i = 0; i < program.stored.size(); ++i)
      if (fileOf(program.stored[i]) == file)
        order.push_back(i);
  return order;
}

std::string SnapshotFiles::begin() {
  std::error_code failed;
  fs::create_directories(directory, failed);
  remove(); // of a run that died while writing
  fs::create_directory(temporary, failed);
  if (failed)
    return "cannot write \"" + temporary + "\": " + failed.message();
  for (size_t file = 0; file < 2; ++file) {
    std::vector<TensorEntry> entries;
    for (const Stored &stored : program.stored)
      if (fileOf(stored) == file)
        entries.push_back({stored.path, stored.type, logicalSizes(stored.layout, stored.axes)});
    const std::string error = writers[file].open(temporary + "/" + kSnapshotFiles[file], entries);
    if (!error.empty())
      return error;
  }
  return "";
}

std::string SnapshotFiles::append(size_t stored, const std::byte *data, size_t bytes) {
  if (!isFinite(program.stored[stored], data, bytes))
    return program.stored[stored].path +
           " has become inf or nan, so it is not kept, and those before it stay; a lower learning rate, a longer "
           "warmup, `clip`, or a larger `epsilon` may help";
  return writers[fileOf(program.stored[stored])].append(data, bytes);
}

std::string SnapshotFiles::publish() {
  std::vector<WrittenFile> files;
  for (size_t file = 0; file < 2; ++file) {
    const std::string error = writers[file].finish();
    if (!error.empty())
      return error;
    files.push_back({kSnapshotFiles[file], writers[file].bytes(), writers[file].checksum()});
  }
  std::string error = writeText(temporary + "/manifest.json", newManifest(program, course, step, files));
  if (error.empty())
    error = syncFolder(temporary);
  if (!error.empty())
    return error;
  const std::string place = directory + "/" + snapshotName(step), old = temporary + ".old";
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
  std::vector<std::string> all;
  if (error = listSnapshots(directory, all); !error.empty())
    return error;
  for (const std::string &path : all)
    if (stepOfSnapshot(path) <= step && ++kept > keep)
      fs::remove_all(path, ignored);
  return "";
}

void SnapshotFiles::remove() {
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
}

std::string SnapshotFiles::named(const std::string &error) const {
  return "snapshot of step " + std::to_string(step) + ": " + error;
}

} // namespace echelon::runtime
