#include "runtime/program/Assemble.h"

#include "runtime/program/Offload.h"

#include <algorithm>
#include <cstring>

namespace echelon::runtime {

namespace {

/// The part of a run whose logical indices lie in [low, high): first place and number.
std::pair<int64_t, int64_t> clip(const Run &run, int64_t low, int64_t high) {
  const int64_t first = run.logical >= low ? 0 : (low - run.logical + run.stride - 1) / run.stride;
  const int64_t last = run.logical >= high ? 0 : (high - run.logical + run.stride - 1) / run.stride;
  const int64_t begin = std::min(first, run.count), end = std::min(last, run.count);
  return {begin, std::max<int64_t>(0, end - begin)};
}

template <class T> void spreadRun(T *to, const T *from, int64_t stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i * stride] = from[i];
}

/// from: in a row; to: `stride` elements apart.
void spread(std::byte *to, const std::byte *from, int64_t stride, int64_t count, size_t width) {
  if (stride == 1)
    std::memcpy(to, from, size_t(count) * width);
  else if (width == 8)
    spreadRun(reinterpret_cast<uint64_t *>(to), reinterpret_cast<const uint64_t *>(from), stride, count);
  else if (width == 4)
    spreadRun(reinterpret_cast<uint32_t *>(to), reinterpret_cast<const uint32_t *>(from), stride, count);
  else
    spreadRun(reinterpret_cast<uint8_t *>(to), reinterpret_cast<const uint8_t *>(from), stride, count);
}

/// What an offloaded tensor's piece has in memory goes again once it is as much as a piece of an update; what is not
/// offloaded stays.
class Visit {
public:
  Visit(Rank &rank, const TensorPiece &tensor)
      : offloaded(rank.offloaded() && rank.offloaded()->holds(tensor.data) ? rank.offloaded() : nullptr),
        data(tensor.data),
        bytes(localCount(*tensor.layout, rank.program().mesh) * static_cast<int64_t>(bytesOf(tensor.type))) {}
  ~Visit() {
    if (touched)
      end();
  }

  void setToZero() {
    if (offloaded)
      offloaded->clear(data, bytes);
    else
      std::memset(data, 0, size_t(bytes));
  }
  void touches(int64_t more) {
    touched += more;
    if (touched >= kPieceBytes)
      end();
  }

private:
  void end() {
    if (offloaded)
      offloaded->letGo(data, bytes);
    touched = 0;
  }

  OffloadedState *offloaded;
  std::byte *data;
  int64_t bytes, touched = 0;
};

} // namespace

std::vector<TensorPiece> storedTensors(Rank &rank) {
  std::vector<TensorPiece> tensors;
  for (const Stored &s : rank.program().stored)
    tensors.push_back({s.path, s.axes, &s.layout, s.type, rank.state<std::byte>(s.offset)});
  return tensors;
}

bool holdsSome(Rank &rank, const Layout &layout) {
  const Piece piece = pieceOf(layout, rank.program().mesh, rank.coordinates());
  for (size_t i = 0; i < layout.axes.size(); ++i)
    if (std::none_of(piece.runs[i].begin(), piece.runs[i].end(),
                     [&](const Interval &run) { return run.begin < layout.axes[i].size; }))
      return false;
  return true;
}

std::vector<Chunk> chunksOf(const TensorPiece &tensor, size_t chunkBytes) {
  const int64_t total = logicalCount(*tensor.layout),
                most = std::max<int64_t>(1, int64_t(chunkBytes / bytesOf(tensor.type)));
  std::vector<Chunk> chunks;
  for (int64_t low = 0; low < total; low += most)
    chunks.push_back({low, std::min(total, low + most)});
  return chunks;
}

Share::Share(const std::vector<MeshAxis> &m, const TensorPiece &t, int holder)
    : mesh(m), tensor(t), coordinates(meshCoordinates(m, holder)), width(bytesOf(t.type)),
      gives(writesPiece(*t.layout, m, coordinates)) {}

/// Calls act(first element of the piece, first of the chunk, how far apart they lie there, number).
template <class Act> void Share::forEachRunIn(Chunk chunk, Act act) const {
  if (gives)
    forEachRun(*tensor.layout, tensor.axes, mesh, coordinates, [&](const Run &run) {
      const auto [first, count] = clip(run, chunk.low, chunk.high);
      if (count > 0)
        act(run.local + first, run.logical + first * run.stride - chunk.low, run.stride, count);
    });
}

std::vector<size_t> Share::bytesFor(const std::vector<Chunk> &chunks) const {
  std::vector<size_t> bytes(chunks.size());
  if (gives)
    forEachRun(*tensor.layout, tensor.axes, mesh, coordinates, [&](const Run &run) {
      const int64_t most = chunks.front().count(), last = run.logical + (run.count - 1) * run.stride;
      for (int64_t c = run.logical / most; c <= last / most; ++c)
        bytes[size_t(c)] += size_t(clip(run, chunks[size_t(c)].low, chunks[size_t(c)].high).second) * width;
    });
  return bytes;
}

void Share::pack(Chunk chunk, const std::byte *piece, std::byte *packed) const {
  forEachRunIn(chunk, [&](int64_t local, int64_t, int64_t, int64_t count) {
    std::memcpy(packed, piece + size_t(local) * width, size_t(count) * width);
    packed += size_t(count) * width;
  });
}

void Share::unpack(Chunk chunk, const std::byte *packed, std::byte *whole) const {
  forEachRunIn(chunk, [&](int64_t, int64_t at, int64_t stride, int64_t count) {
    spread(whole + size_t(at) * width, packed, stride, count, width);
    packed += size_t(count) * width;
  });
}

void Share::place(Chunk chunk, const std::byte *piece, std::byte *whole) const {
  forEachRunIn(chunk, [&](int64_t local, int64_t at, int64_t stride, int64_t count) {
    spread(whole + size_t(at) * width, piece + size_t(local) * width, stride, count, width);
  });
}

void assemble(Rank &rank, WriterTurns &turns, const TensorPiece &tensor,
              const std::function<void(const std::byte *, size_t)> &take, size_t chunkBytes) {
  constexpr int kTag = 1 << 19; // apart from the tags of generated programs, which are group numbers
  const std::vector<Chunk> chunks = chunksOf(tensor, chunkBytes);
  Transport &transport = rank.transport();
  std::vector<Share> shares;
  std::vector<std::vector<size_t>> bytes; // of shares, by chunk
  for (int holder = rank.rank(); holder < (rank.rank() == 0 ? rank.size() : rank.rank() + 1); ++holder) {
    shares.emplace_back(rank.program().mesh, tensor, holder);
    bytes.push_back(shares.back().bytesFor(chunks));
  }
  std::vector<std::byte> whole, packed;
  Visit visit(rank, tensor);
  for (size_t c = 0; c < chunks.size(); ++c) {
    if (rank.rank() != 0) {
      packed.resize(bytes[0][c]);
      if (packed.empty())
        continue;
      turns.await();
      shares[0].pack(chunks[c], tensor.data, packed.data());
      visit.touches(int64_t(packed.size()));
      transport.send(0, packed.data(), packed.size(), kTag, tensor.name.c_str());
      continue;
    }
    whole.resize(size_t(chunks[c].count()) * bytesOf(tensor.type));
    shares[0].place(chunks[c], tensor.data, whole.data());
    visit.touches(int64_t(bytes[0][c]));
    for (int from = 1; from < rank.size(); ++from) {
      packed.resize(bytes[size_t(from)][c]);
      if (packed.empty())
        continue;
      turns.give(from);
      transport.receive(from, packed.data(), packed.size(), kTag, tensor.name.c_str());
      shares[size_t(from)].unpack(chunks[c], packed.data(), whole.data());
    }
    take(whole.data(), whole.size());
    turns.stillWriting();
  }
}

void takePiece(Rank &rank, const TensorPiece &tensor, const std::byte *whole) {
  if (!holdsSome(rank, *tensor.layout))
    return;
  const size_t width = bytesOf(tensor.type);
  const int64_t most = kPieceBytes / int64_t(width);
  Visit visit(rank, tensor);
  visit.setToZero();
  forEachRun(*tensor.layout, tensor.axes, rank.program().mesh, rank.coordinates(), [&](const Run &run) {
    for (int64_t first = 0; first < run.count; first += most) {
      const int64_t count = std::min(most, run.count - first);
      const std::byte *from = whole + size_t(run.logical + first * run.stride) * width;
      std::byte *to = tensor.data + size_t(run.local + first) * width;
      if (run.stride == 1)
        std::memcpy(to, from, size_t(count) * width);
      else
        for (int64_t i = 0; i < count; ++i)
          std::memcpy(to + size_t(i) * width, from + size_t(i * run.stride) * width, width);
      visit.touches(count * int64_t(width));
    }
  });
}

} // namespace echelon::runtime
