// What a simulated step does when. What the simulation runs once and multiplies stands here once, too, with how often.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echelon::planner {

inline constexpr size_t kNoCall = size_t(-1);

struct Span {
  enum class Kind {
    Call,    ///< of the device, which does a call, or moves what it sends
    Wait,    ///< of the device, which does nothing: its term says why
    Host,    ///< of the host, which issues a call
    Message, ///< is under way, in the queue of its term
    Again,   ///< of the device: all from `from` to `to` of this record, so many `times` more, in loops
    Piece,   ///< of the device: all from `from` to `to`, which are told of one turn for all like it
  };
  Kind kind = Kind::Call;
  size_t stage = 0;
  double begin = 0, end = 0; ///< seconds
  size_t term = 0;           ///< place among the step's terms
  size_t call = kNoCall;     ///< Action::call
  size_t message = 0;        ///< of a message: place among the step's
  int64_t peer = -1;         ///< of a message to another stage
  size_t from = 0, to = 0;   ///< of Again and Piece
  int64_t times = 1;         ///< of Again
  size_t body = 0;           ///< of Piece: which of the stage's turns
  int64_t nth = 0;           ///< of Piece: how many turns with this body the stage has done before
  bool isOfTurn = false;     ///< told for all turns like it: its times are those of the simulation of one alone
};

class Record {
public:
  static constexpr size_t kNowhere = size_t(-1);
  static constexpr size_t kMost = 1'000'000; ///< spans: 100 MB

  /// The span's place, else kNowhere: what comes when it is full is left out.
  size_t add(const Span &span);
  bool isFull() const { return isCut; }
  /// How often each span is done in the step.
  std::vector<double> counts() const;

  std::vector<Span> spans;

private:
  bool isCut = false;
};

} // namespace echelon::planner
