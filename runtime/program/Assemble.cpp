#include "runtime/program/Assemble.h"

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

/// Of a rank's piece, the runs within elements [low, high) of the whole: calls act(first element of the piece, first of
/// the whole behind `low`, how far apart they lie there, number).
template <class Act>
void forEachRunWithin(const TensorPiece &tensor, const std::vector<MeshAxis> &mesh, const std::vector<int> &coordinates,
                      int64_t low, int64_t high, Act act) {
  forEachRun(*tensor.layout, tensor.axes, mesh, coordinates, [&](const Run &run) {
    const auto [first, count] = clip(run, low, high);
    if (count > 0)
      act(run.local + first, run.logical + first * run.stride - low, run.stride, count);
  });
}

} // namespace

std::vector<TensorPiece> storedTensors(Rank &rank) {
  std::vector<TensorPiece> tensors;
  for (const Stored &s : rank.program().stored)
    tensors.push_back({s.path, s.axes, &s.layout, s.type, rank.state<std::byte>(s.offset)});
  return tensors;
}

void assemble(Rank &rank, Turns &turns, const TensorPiece &tensor,
              const std::function<void(const std::byte *, size_t)> &take, size_t chunkBytes) {
  constexpr int kTag = 1 << 19; // apart from the tags of generated programs, which are group numbers
  const std::vector<MeshAxis> &mesh = rank.program().mesh;
  const size_t width = bytesOf(tensor.type);
  const int64_t total = logicalCount(*tensor.layout), chunk = std::max<int64_t>(1, int64_t(chunkBytes / width));
  std::vector<std::byte> whole, packed;
  if (rank.rank() != 0 && !writesPiece(*tensor.layout, mesh, rank.coordinates()))
    return;
  // Every rank knows every layout, so that only values travel, in storage order.
  for (int64_t low = 0; low < total; low += chunk) {
    const int64_t high = std::min(total, low + chunk);
    if (rank.rank() == 0)
      whole.resize(size_t(high - low) * width);
    for (int from = 0; from < rank.size(); ++from) {
      const std::vector<int> coordinates = meshCoordinates(mesh, from);
      if ((rank.rank() != 0 && from != rank.rank()) || !writesPiece(*tensor.layout, mesh, coordinates))
        continue;
      auto visit = [&](auto &&act) { forEachRunWithin(tensor, mesh, coordinates, low, high, act); };
      if (from == 0) { // rank 0's own
        visit([&](int64_t local, int64_t at, int64_t stride, int64_t count) {
          spread(whole.data() + size_t(at) * width, tensor.data + size_t(local) * width, stride, count, width);
        });
        continue;
      }
      size_t bytes = 0;
      visit([&](int64_t, int64_t, int64_t, int64_t count) { bytes += size_t(count) * width; });
      if (bytes == 0)
        continue;
      packed.resize(bytes);
      size_t at = 0;
      if (rank.rank() == from) {
        turns.await();
        visit([&](int64_t local, int64_t, int64_t, int64_t count) {
          std::memcpy(packed.data() + at, tensor.data + size_t(local) * width, size_t(count) * width);
          at += size_t(count) * width;
        });
        rank.transport().send(0, packed.data(), bytes, kTag, tensor.name.c_str());
      } else {
        turns.give(from);
        rank.transport().receive(from, packed.data(), bytes, kTag, tensor.name.c_str());
        visit([&](int64_t, int64_t place, int64_t stride, int64_t count) {
          spread(whole.data() + size_t(place) * width, packed.data() + at, stride, count, width);
          at += size_t(count) * width;
        });
      }
    }
    if (rank.rank() == 0) {
      take(whole.data(), whole.size());
      turns.stillWriting();
    }
  }
}

std::string assembleHere(const std::vector<MeshAxis> &mesh, const TensorPiece &tensor,
                         const std::vector<const std::byte *> &pieces,
                         const std::function<std::string(const std::byte *, size_t)> &take, size_t chunkBytes) {
  const size_t width = bytesOf(tensor.type);
  const int64_t total = logicalCount(*tensor.layout), chunk = std::max<int64_t>(1, int64_t(chunkBytes / width));
  std::vector<std::byte> whole(size_t(std::min(total, chunk)) * width);
  for (int64_t low = 0; low < total; low += chunk) {
    const int64_t high = std::min(total, low + chunk);
    for (size_t from = 0; from < pieces.size(); ++from) {
      const std::vector<int> coordinates = meshCoordinates(mesh, int(from));
      if (writesPiece(*tensor.layout, mesh, coordinates))
        forEachRunWithin(
            tensor, mesh, coordinates, low, high, [&](int64_t local, int64_t at, int64_t stride, int64_t count) {
              spread(whole.data() + size_t(at) * width, pieces[from] + size_t(local) * width, stride, count, width);
            });
    }
    const std::string error = take(whole.data(), size_t(high - low) * width);
    if (!error.empty())
      return error;
  }
  return "";
}

void takePiece(Rank &rank, const TensorPiece &tensor, const std::byte *whole) {
  const size_t width = bytesOf(tensor.type);
  std::memset(tensor.data, 0, size_t(localCount(*tensor.layout, rank.program().mesh)) * width);
  forEachRun(*tensor.layout, tensor.axes, rank.program().mesh, rank.coordinates(), [&](const Run &run) {
    const std::byte *from = whole + size_t(run.logical) * width;
    std::byte *to = tensor.data + size_t(run.local) * width;
    if (run.stride == 1)
      std::memcpy(to, from, size_t(run.count) * width);
    else
      for (int64_t i = 0; i < run.count; ++i)
        std::memcpy(to + size_t(i) * width, from + size_t(i * run.stride) * width, width);
  });
}

} // namespace echelon::runtime
