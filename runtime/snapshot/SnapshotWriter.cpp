#include "runtime/snapshot/SnapshotWriter.h"
#include "runtime/collectives/Collectives.h"
#include "runtime/launch/Fail.h"
#include "runtime/program/Assemble.h"
#include "runtime/snapshot/Snapshot.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>

namespace echelon::runtime {

static std::atomic<size_t> copied{0};

size_t copiedBytes() { return copied.load(); }

namespace {

double processorSecondsOfThread() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

size_t pieceBytes(const Program &program, size_t stored) {
  const Stored &tensor = program.stored[stored];
  return size_t(localCount(tensor.layout, program.mesh)) * bytesOf(tensor.type);
}

} // namespace

SnapshotWriter::SnapshotWriter(Rank &r, const std::string &d, int64_t k, bool hasRoom)
    : rank(r), directory(d), keep(k), peers(size_t(r.size())) {
  const Program &program = rank.program();
  Transport &transport = rank.transport();
  for (size_t i = 0; i < program.stored.size(); ++i)
    for (int holder = 0; holder < rank.size(); ++holder)
      if (writesPiece(program.stored[i].layout, program.mesh, meshCoordinates(program.mesh, holder))) {
        gathers |= holder != 0;
        if (holder == rank.rank())
          own.push_back(i);
      }
  if (hasRoom && (transport.isDirect() || !gathers))
    copy = static_cast<std::byte *>(transport.allocate(copyBytes(program)));
  int32_t copies = copy && (!gathers || transport.isReached(copy));
  if (rank.size() > 1)
    all_reduce(transport, transport.world(), &copies, 1, Min, Algorithm::automatic, "save");
  if (!copies) {
    copy = nullptr;
    return;
  }
  peers[size_t(rank.rank())] = copy;
  if (gathers) {
    static_assert(sizeof(copy) == 8);
    all_gather(transport, transport.world(), reinterpret_cast<int32_t *>(peers.data()),
               reinterpret_cast<const int32_t *>(&copy), 2, Algorithm::automatic, "save");
  }
  for (const size_t i : own)
    copied += pieceBytes(program, i);
  if (!own.empty())
    touched = std::async(std::launch::async, [this] { touch(); });
}

SnapshotWriter::~SnapshotWriter() {
  for (const size_t i : own)
    copied -= copy ? pieceBytes(rank.program(), i) : 0;
  if (rank.rank() == 0 && !written.valid()) // another rank failed while this one copied
    rank.transport().setSaving(Saving::No);
}

/// Of the thread that calls; what ranks compute they do on another.
void SnapshotWriter::tellTime() { rank.transport().setAside(secondsBefore + processorSecondsOfThread()); }

/// The system finds and clears pages when they are first written to, which takes several times as long as the copy.
void SnapshotWriter::touch() {
  constexpr size_t kPart = size_t(4) << 20;
  for (const size_t i : own)
    for (size_t at = 0, bytes = pieceBytes(rank.program(), i); at < bytes; at += kPart) {
      std::memset(copy + rank.program().stored[i].offset + at, 0, std::min(kPart, bytes - at));
      tellTime();
    }
  secondsBefore += processorSecondsOfThread();
}

void SnapshotWriter::begin(int64_t step) {
  finish();
  if (!copy)
    return saveSnapshot(rank, directory, step, keep);
  if (touched.valid())
    touched.get();
  if (rank.rank() == 0) // before the others can go on, and fail
    rank.transport().setSaving(Saving::Copies);
  const Program &program = rank.program();
  for (const size_t i : own)
    std::memcpy(copy + program.stored[i].offset, rank.state<std::byte>(program.stored[i].offset),
                pieceBytes(program, i));
  if (gathers)
    barrier(rank.transport(), rank.transport().world(), Algorithm::automatic, "save");
  isBegun = true;
  if (rank.rank() != 0)
    return;
  rank.transport().setSaving(Saving::Writes);
  auto files = std::make_shared<SnapshotFiles>(program, directory, step, keep);
  written = std::async(std::launch::async, [this, files] { return write(*files); });
}

std::string SnapshotWriter::write(SnapshotFiles &files) {
  struct End {
    Transport &transport;
    ~End() { transport.setSaving(Saving::No); }
  } end{rank.transport()};
  const Program &program = rank.program();
  const std::vector<TensorPiece> tensors = storedTensors(rank);
  std::string error = files.begin();
  for (const size_t i : SnapshotFiles::order(program)) {
    std::vector<const std::byte *> pieces;
    for (const std::byte *peer : peers)
      pieces.push_back(peer ? peer + program.stored[i].offset : nullptr);
    if (error.empty())
      error = assembleHere(program.mesh, tensors[i], pieces, [&](const std::byte *data, size_t bytes) {
        tellTime();
        return files.append(i, data, bytes);
      });
  }
  if (error.empty())
    error = files.publish();
  secondsBefore += processorSecondsOfThread();
  rank.transport().setAside(secondsBefore);
  if (error.empty())
    return "";
  files.remove();
  return files.named(error);
}

void SnapshotWriter::collect() {
  const std::string error = written.get();
  if (!error.empty())
    fail(error);
}

void SnapshotWriter::check() {
  if (written.valid() && written.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    collect();
}

void SnapshotWriter::finish() {
  if (!isBegun)
    return;
  isBegun = false;
  rank.transport().setPlace(Doing::Save, directory.c_str());
  Turns turns(rank, "save");
  while (written.valid() && written.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready)
    turns.stillWriting();
  if (written.valid())
    collect();
  turns.end();
}

} // namespace echelon::runtime
