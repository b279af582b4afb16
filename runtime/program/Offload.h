// State that lies in a file between updates, as in ZeRO-Infinity (Rajbhandari et al., 2021): the end of the state
// arena, which holds what an optimizer keeps, is mapped from a file without a name. With `offload optimizer, params`
// the parameters of repeats lie before it, and those of others before these.
//
//   state arena   | parameters | states || m of all parameters | v of all parameters | averages |
//                                       ^ Program::offload.from: from here on pages of the file
//
// An update goes through it piece by piece. Two pieces are in memory: the one that is computed, and the one before it,
// which is being written; the system reads the next one meanwhile.
//
//   reading     1      2      3      …
//   computing   0      1      2
//   writing            0      1
//
// The mapping is valid throughout: what is not in memory is read where it is touched. So no byte of a result depends on
// what is fetched and let go here.
#pragma once

#include "runtime/program/OffloadPiece.h"
#include "runtime/program/Rank.h"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace echelon::runtime {

class OffloadedState {
public:
  /// Maps the file; ends the run where the directory has no room for it.
  OffloadedState(const Offload &offload, std::byte *stateArena);
  ~OffloadedState();
  OffloadedState(const OffloadedState &) = delete;

  bool holds(const void *memory) const { return memory >= begin && memory < end; }
  /// `row` of an update will soon be touched from here on: its reading is begun. Bytes past the end are none.
  void fetch(size_t row, const std::byte *from, int64_t bytes);
  /// What of these bytes is offloaded will soon be read: its reading is begun.
  void willNeed(const std::byte *from, int64_t bytes) const;
  /// What of these bytes is offloaded has been used: it is written, and leaves memory once a piece has come together.
  void letGo(const std::byte *from, int64_t bytes);
  /// Sets it to zero.
  void clear(std::byte *from, int64_t bytes);

private:
  using Range = std::pair<const std::byte *, const std::byte *>;

  void flush();
  void sync(const Range &range, unsigned flags) const;

  const std::string directory;
  int descriptor = -1;
  std::byte *begin, *end;
  std::vector<Range> fetched;           // by row, the last
  std::vector<Range> released, written; // to be let go; and let go before, which may still be on its way to the disk
  int64_t releasedBytes = 0;
};

/// What a user is to know before the run: that the directory lies in memory. Else empty.
std::string noteOfOffload(const Offload &offload);

/// A row of an update that is offloaded.
struct OffloadedRow {
  template <class T> OffloadedRow(T *row) : data(reinterpret_cast<const std::byte *>(row)), width(sizeof(T)) {}
  const std::byte *data;
  int64_t width;
};

/// Positions of rows that an update works on at a time.
struct UpdatePiece {
  int64_t first, count;
};

/// The pieces of rows of `count` positions of which `rows` are offloaded: one is fetched while the one before it is
/// worked on, which is let go when the loop goes on.
class UpdatePieces {
public:
  UpdatePieces(OffloadedState &state, int64_t count, std::initializer_list<OffloadedRow> rows);

  struct End {};
  class Iterator {
  public:
    explicit Iterator(const UpdatePieces &of) : of(of) { fetchNext(); }
    bool operator!=(End) const { return first < of.count; }
    UpdatePiece operator*() const { return {first, count()}; }
    Iterator &operator++();

  private:
    int64_t count() const { return std::min(of.most, of.count - first); }
    void fetchNext() const;

    const UpdatePieces &of;
    int64_t first = 0;
  };
  Iterator begin() const { return Iterator(*this); }
  End end() const { return {}; }

private:
  OffloadedState &state;
  int64_t count, most;
  std::vector<OffloadedRow> rows;
};

/// for (const UpdatePiece piece : in_pieces(r, count, {m, v})) rule(w + piece.first, m + piece.first, …, piece.count);
inline UpdatePieces in_pieces(Rank &r, int64_t count, std::initializer_list<OffloadedRow> rows) {
  return {*r.offloaded(), count, rows};
}

/// Before and after operations that are no rules: a whole buffer, or what an iteration of a repeat has of it.
template <class T> void will_need(Rank &r, const T *buffer, int64_t count) {
  r.offloaded()->willNeed(reinterpret_cast<const std::byte *>(buffer), count * int64_t(sizeof(T)));
}
template <class T> void let_go(Rank &r, const T *buffer, int64_t count) {
  r.offloaded()->letGo(reinterpret_cast<const std::byte *>(buffer), count * int64_t(sizeof(T)));
}

} // namespace echelon::runtime
