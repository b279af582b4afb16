#include "runtime/program/Offload.h"

#include "runtime/launch/Fail.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace echelon::runtime {

namespace {

std::string clause(const std::string &directory) { return "offload optimizer to \"" + directory + "\": "; }

/// A file without a name: nothing is left behind, however the run ends.
int openFileIn(const std::string &directory) {
  const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
    return file;
  std::string path = directory + "/.echelon-offload-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named < 0 || unlink(path.c_str()) == 0)
    return named;
  const int why = errno;
  close(named);
  errno = why;
  return -1;
}

} // namespace

std::string noteOfOffload(const Offload &offload) {
  struct statfs system = {};
  if (!offload.isInFile() || statfs(offload.directory.c_str(), &system) != 0)
    return "";
  const bool isMemory = system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
  return isMemory ? clause(offload.directory) + "this directory lies in memory itself; name one on a disk" : "";
}

OffloadedState::OffloadedState(const Offload &offload, std::byte *stateArena)
    : directory(offload.directory), begin(stateArena + offload.from), end(begin + offload.bytes) {
  descriptor = openFileIn(directory);
  if (descriptor < 0)
    fail(clause(directory) + "cannot make a file in this directory: " + std::strerror(errno) +
         "; make the directory, or name one that you may write to");
  // all of it now: later a full disk would end the program without a word
  int error = EINTR;
  while (error == EINTR)
    error = posix_fallocate(descriptor, 0, off_t(offload.bytes));
  if (error) {
    char size[40];
    std::snprintf(size, sizeof(size), "%.1f MB", double(offload.bytes) * 1e-6);
    fail(clause(directory) + "no room for the " + size +
         " that the optimizer keeps on this rank: " + std::strerror(error) + "; name a directory on another disk");
  }
  if (mmap(begin, size_t(offload.bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0) == MAP_FAILED)
    fail(clause(directory) + "cannot map a file of this directory: " + std::strerror(errno));
}

OffloadedState::~OffloadedState() { close(descriptor); }

void OffloadedState::fetch(size_t row, const std::byte *from, int64_t bytes) {
  bytes = std::min<int64_t>(bytes, end - from);
  if (bytes <= 0)
    return;
  fetched.resize(std::max(fetched.size(), row + 1));
  Range &last = fetched[row]; // small parameters share what has been fetched
  if (from >= last.first && from + bytes / 2 <= last.second)
    return;
  last = {from, from + bytes};
  willNeed(from, bytes);
}

void OffloadedState::willNeed(const std::byte *from, int64_t bytes) const {
  const std::byte *to = std::min<const std::byte *>(from + bytes, end);
  from = std::max<const std::byte *>(from, begin);
  if (from >= to)
    return;
  std::byte *page = begin + (from - begin) / kOffloadAlignment * kOffloadAlignment;
  madvise(page, size_t(to - page), MADV_WILLNEED);
}

void OffloadedState::letGo(const std::byte *from, int64_t bytes) {
  const std::byte *to = std::min<const std::byte *>(from + bytes, end);
  from = std::max<const std::byte *>(from, begin);
  if (from >= to)
    return;
  auto before = std::find_if(released.begin(), released.end(), [&](const Range &range) {
    return range.second <= from && from - range.second < kOffloadAlignment;
  });
  if (before != released.end())
    before->second = to;
  else
    released.push_back({from, to});
  releasedBytes += to - from;
  if (releasedBytes >= kPieceBytes / 2)
    flush();
}

/// Pages that a range has in common with what lies behind it stay until that is let go.
void OffloadedState::flush() {
  for (const Range &range : written) // no more than two pieces are on their way to the disk
    sync(range, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  written.clear();
  const int64_t page = sysconf(_SC_PAGESIZE);
  for (const auto &[from, to] : released) {
    const Range pages{begin + (from - begin) / page * page, begin + (to - begin) / page * page};
    if (pages.first == pages.second)
      continue;
    if (madvise(const_cast<std::byte *>(pages.first), size_t(pages.second - pages.first), MADV_DONTNEED) != 0)
      fail(clause(directory) + "pages of its file do not leave memory: " + std::strerror(errno) +
           "; lift the lock on memory (mlockall), or leave the line out");
    sync(pages, SYNC_FILE_RANGE_WRITE);
    written.push_back(pages);
  }
  released.clear();
  releasedBytes = 0;
}

void OffloadedState::sync(const Range &range, unsigned flags) const {
  if (sync_file_range(descriptor, range.first - begin, range.second - range.first, flags) != 0 &&
      (errno == EIO || errno == ENOSPC)) // else the system has a time of its own
    fail(clause(directory) + "cannot write a file of this directory: " + std::strerror(errno));
}

UpdatePieces::UpdatePieces(OffloadedState &of, int64_t n, std::initializer_list<OffloadedRow> list)
    : state(of), count(n), rows(list) {
  int64_t width = 0;
  for (const OffloadedRow &row : rows)
    width += row.width;
  most = positionsOfPiece(width);
}

/// What lies behind the last piece is the next parameter's.
void UpdatePieces::Iterator::fetchNext() const {
  for (size_t i = 0; i < of.rows.size(); ++i) {
    const OffloadedRow &row = of.rows[i];
    of.state.fetch(i, row.data + (first + count()) * row.width, of.most * row.width);
  }
}

UpdatePieces::Iterator &UpdatePieces::Iterator::operator++() {
  for (const OffloadedRow &row : of.rows)
    of.state.letGo(row.data + first * row.width, count() * row.width);
  first += count();
  if (first < of.count)
    fetchNext();
  return *this;
}

void OffloadedState::clear(std::byte *from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    const int64_t part = std::min(kPieceBytes, bytes - at);
    std::memset(from + at, 0, size_t(part));
    letGo(from + at, part);
  }
}

} // namespace echelon::runtime
