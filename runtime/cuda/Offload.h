// Moments that lie in the host's memory between updates, or in a file that the host maps (runtime/program/Offload.h),
// as in ZeRO-Offload (Ren et al., 2021). The device has two pieces of them. While one is computed, the next one arrives
// on a stream of its own, and the one before leaves on another:
//
//   stream arrivals     0     1           2
//   stream                    0     1     …     2
//   stream departures               0     1           2
//
//   arrivals     waits until the last piece in this place has left
//   stream       waits until its piece has arrived
//   departures   waits until it has been computed
//
// The first pieces wait for the beginning of the function, so they arrive while a step computes its gradients; the
// stream waits for the last departure at its end. A captured function is the same, as a graph. Nothing waits for the
// device within a step.
//
// A tensor is in pieces, or whole, in a function, and once (passes/cuda/StageOffloaded.h): then nothing that arrives is
// to wait for what has left.
//
// What a program says of such state, `opt.m.w`, is its address on the host. Kernels are given places of a piece.
#pragma once
#include "runtime/cuda/Rank.h"
#include "runtime/cuda/Tensors.h"

#include <memory>
#include <mutex>
#include <vector>

namespace echelon::cuda {

/// What a piece has of one tensor's rows.
struct PieceOfTensor {
  size_t tensor; // in the list that is divided
  int64_t first, count;
  std::vector<int64_t> at; // of each row, its byte in the piece; -1: it is on the device already
};

/// Bytes of the host that lie in a row, and where they are in a piece.
struct Span {
  std::byte *host;
  int64_t bytes, at;
};

struct OffloadedPiece {
  std::vector<PieceOfTensor> parts;
  std::vector<Span> spans;
  int64_t bytes = 0;
};

class OffloadedPieces {
public:
  OffloadedPieces(Host &host, Stream stream);
  ~OffloadedPieces();
  OffloadedPieces(const OffloadedPieces &) = delete;

  /// Around a function of the program.
  void begin();
  void end();

  /// A tensor's rows, on the host or the device, of `count` elements each.
  struct Rows {
    std::vector<std::byte *> data;
    int64_t count;
  };
  /// Pieces of all these tensors, in their order. widths: bytes of an element of each row.
  std::vector<OffloadedPiece> divide(const std::vector<Rows> &tensors, const std::vector<int64_t> &widths) const;

  /// Where a piece is once the stream goes on; and that the stream has computed it. In turn.
  std::byte *arrive(const OffloadedPiece &piece);
  void leave(const OffloadedPiece &piece);

  /// A tensor whole, on the stream.
  void fetch(void *there, const void *here, int64_t bytes);
  void writeBack(void *here, const void *there, int64_t bytes);

private:
  /// One of the two.
  struct Place {
    std::byte *onDevice = nullptr, *pinned = nullptr; // the second where the state itself is not
    cudaEvent_t arrived = nullptr, computed = nullptr, left = nullptr;
    bool isUsed = false; // in this function
  };
  /// What a function of the host copies in its turn of a stream.
  struct Copy {
    OffloadedPieces *of;
    std::byte *pinned;
    std::vector<Span> spans;
    bool fromHost, isLast; // isLast: nothing brings it back
  };

  bool holds(const std::byte *memory) const { return memory >= first && memory < last; }
  void lay(OffloadedPiece &piece, const std::vector<Rows> &tensors, const std::vector<int64_t> &widths) const;
  void copy(Stream on, Place &place, const std::vector<Span> &spans, bool fromHost, bool isLast);
  static void copyOnHost(void *copy);
  Place &take(Stream on);
  template <typename Act> void inChunks(const void *here, int64_t bytes, Act act);
  void pin();

  Host &host;
  Stream stream, arrivals = nullptr, departures = nullptr;
  std::byte *first, *last; // of the host
  int64_t pieceBytes;
  bool isPinned = false;
  Place places[2];
  int next = 0; // of the places
  cudaEvent_t begun = nullptr;
  bool hasArrivals = false; // in this function
  std::vector<std::unique_ptr<Copy>> ofFunction, ofGraphs;
  std::mutex mutex; // functions of the host may run side by side
};

/// As launch_each, of tensors some of whose rows are offloaded: a launch for each piece.
template <int k, typename... T, typename... P, typename... A>
void launch_in_pieces(const char *what, void (*kernel)(Tensors<k, T...>, P...), Rank &r,
                      std::initializer_list<Tensor<T...>> all, A... args) {
  std::vector<OffloadedPieces::Rows> rows;
  for (const Tensor<T...> &tensor : all) {
    rows.push_back({{}, tensor.n});
    for (void *row : tensor.rows)
      rows.back().data.push_back(static_cast<std::byte *>(row));
  }
  const std::vector<int64_t> widths{static_cast<int64_t>(sizeof(T))...};
  OffloadedPieces &pieces = r.pieces();
  for (const OffloadedPiece &piece : pieces.divide(rows, widths)) {
    std::byte *place = pieces.arrive(piece);
    std::vector<Tensor<T...>> tensors;
    for (const PieceOfTensor &part : piece.parts) {
      Tensor<T...> &tensor = tensors.emplace_back(all.begin()[part.tensor]);
      tensor.n = part.count;
      for (size_t i = 0; i < sizeof...(T); ++i)
        tensor.rows[i] = part.at[i] >= 0 ? place + part.at[i] : rows[part.tensor].data[i] + part.first * widths[i];
    }
    launch_each(what, kernel, static_cast<Stream>(r), tensors.data(), tensors.data() + tensors.size(), args...);
    pieces.leave(piece);
  }
}

/// there, here: (count). A buffer of the device, and what is offloaded.
template <typename T> void fetch(Rank &r, T *there, const T *here, int64_t count) {
  r.pieces().fetch(there, here, count * int64_t(sizeof(T)));
}
template <typename T> void write_back(Rank &r, T *here, const T *there, int64_t count) {
  r.pieces().writeBack(here, there, count * int64_t(sizeof(T)));
}

} // namespace echelon::cuda
