#include "runtime/snapshot/SnapshotWriter.h"
#include "runtime/collectives/Collectives.h"
#include "runtime/launch/Fail.h"
#include "runtime/program/Assemble.h"
#include "runtime/snapshot/Snapshot.h"
#include "runtime/transport/shared/CopyBytes.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

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
    : rank(r), directory(d), keep(k), peers(size_t(r.size())), tensors(storedTensors(r)) {
  const Program &program = rank.program();
  Transport &transport = rank.transport();
  for (size_t i = 0; i < program.stored.size(); ++i)
    for (int holder = 0; holder < rank.size(); ++holder)
      if (writesPiece(program.stored[i].layout, program.mesh, meshCoordinates(program.mesh, holder))) {
        gathers |= holder != 0;
        if (holder == rank.rank())
          own.push_back(i);
      }
  int32_t agreed[2] = {hasRoom, 0}; // whether all copy, and whether rank 0 reads what they do
  if (hasRoom) {
    copy = static_cast<std::byte *>(transport.allocate(copyBytes(program)));
    agreed[1] = transport.isReached(copy);
  }
  if (rank.size() > 1)
    all_reduce(transport, transport.world(), agreed, 2, Min, "save");
  if (!agreed[0]) {
    copy = nullptr;
    return;
  }
  peers[size_t(rank.rank())] = copy;
  if (gathers && !agreed[1]) {
    mail.emplace(transport, program.mesh, tensors, SnapshotFiles::order(program));
  } else if (gathers) {
    static_assert(sizeof(copy) == 8);
    all_gather(transport, transport.world(), reinterpret_cast<int32_t *>(peers.data()),
               reinterpret_cast<const int32_t *>(&copy), 2, "save");
  }
  for (const size_t i : own)
    copied += pieceBytes(program, i);
  if (Device *device = rank.device(); device && !own.empty())
    device->expectCopies(copy, copyBytes(program));
  if (!own.empty())
    touched = std::async(std::launch::async, [this] { touch(); });
}

SnapshotWriter::~SnapshotWriter() {
  for (const size_t i : own)
    copied -= copy ? pieceBytes(rank.program(), i) : 0;
  if (rank.rank() == 0 && !written.valid()) // another rank failed while this one copied
    rank.transport().setSnapshotPhase(SnapshotPhase::No);
  if (mail && isBegun)
    awaitThread([] {});
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
  if (!copy) {
    rank.stateFromDevice();
    return saveSnapshot(rank, directory, step, keep);
  }
  if (touched.valid())
    touched.get();
  if (rank.rank() == 0) // before the others can go on, and fail
    rank.transport().setSnapshotPhase(SnapshotPhase::Copies);
  copyState();
  isBegun = true;
  if (mail) {
    mail->begin();
    rank.transport().addBackground(*mail);
  } else if (gathers) {
    barrier(rank.transport(), rank.transport().world(), "save");
  }
  if (rank.rank() != 0) {
    if (mail)
      written = std::async(std::launch::async, [this] { return pack(); });
    return;
  }
  rank.transport().setSnapshotPhase(mail ? SnapshotPhase::No
                                         : SnapshotPhase::Writes); // what still has to come may never do
  auto files = std::make_shared<SnapshotFiles>(rank.program(), rank.course(), directory, step, keep);
  written = std::async(std::launch::async, [this, files] { return write(*files); });
}

void SnapshotWriter::copyState() {
  const Program &program = rank.program();
  for (const size_t i : own) {
    const int64_t offset = program.stored[i].offset;
    if (rank.device())
      rank.readState(offset, copy + offset, pieceBytes(program, i));
    else
      copyBytes(copy + offset, rank.state<std::byte>(offset), pieceBytes(program, i), /*streams=*/true);
  }
  drainStores();
}

std::string SnapshotWriter::write(SnapshotFiles &files) {
  struct End {
    Transport &transport;
    ~End() { transport.setSnapshotPhase(SnapshotPhase::No); }
  } end{rank.transport()};
  std::string error = files.begin();
  for (const size_t i : SnapshotFiles::order(rank.program()))
    if (error.empty())
      error = writeTensor(files, i);
  rank.transport().setSnapshotPhase(SnapshotPhase::Writes);
  if (error.empty())
    error = files.publish();
  secondsBefore += processorSecondsOfThread();
  rank.transport().setAside(secondsBefore);
  if (error.empty())
    return "";
  files.remove();
  return files.named(error);
}

std::string SnapshotWriter::writeTensor(SnapshotFiles &files, size_t stored) {
  const Program &program = rank.program();
  std::vector<std::pair<Share, const std::byte *>> read;
  for (size_t holder = 0; holder < peers.size(); ++holder)
    if (peers[holder])
      read.push_back(
          {Share(program.mesh, tensors[stored], int(holder)), peers[holder] + program.stored[stored].offset});
  std::vector<std::byte> whole;
  for (const Chunk chunk : chunksOf(tensors[stored])) {
    whole.resize(size_t(chunk.count()) * bytesOf(tensors[stored].type));
    for (const auto &[share, piece] : read)
      share.place(chunk, piece, whole.data());
    if (mail)
      mail->take(stored, chunk, whole.data());
    tellTime();
    const std::string error = files.append(stored, whole.data(), whole.size());
    if (!error.empty())
      return error;
  }
  return "";
}

std::string SnapshotWriter::pack() {
  std::vector<const std::byte *> pieces;
  for (const Stored &stored : rank.program().stored)
    pieces.push_back(copy + stored.offset);
  mail->pack(pieces, [this] { tellTime(); });
  secondsBefore += processorSecondsOfThread();
  return "";
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

/// Until the thread beside this rank is through, and what it packed has been sent.
void SnapshotWriter::awaitThread(const std::function<void()> &meanwhile) {
  const std::chrono::milliseconds pause(mail ? 1 : 50);
  while (written.valid() && written.wait_for(pause) != std::future_status::ready) {
    if (mail)
      rank.transport().progress();
    meanwhile();
  }
  if (!mail)
    return;
  if (rank.rank() != 0) // rank 0 has taken all, or failed
    while (!mail->advance())
      rank.transport().progress();
  rank.transport().removeBackground(*mail);
}

void SnapshotWriter::finish() {
  if (!isBegun)
    return;
  isBegun = false;
  rank.transport().setPlace(Activity::Save, directory.c_str());
  WriterTurns turns(rank, "save");
  if (rank.rank() == 0)
    awaitThread([&] { turns.stillWriting(); });
  turns.end();
  if (rank.rank() != 0)
    awaitThread([] {});
  if (written.valid())
    collect();
}

} // namespace echelon::runtime
