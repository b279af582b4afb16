// Rank 0 writes to a disk what all ranks hold. Disks may take longer than the deadline, so every other rank waits for
// word from rank 0, which gives it often enough: that it still writes, that it is this rank's turn to send, that all is
// written. One byte a word.
#pragma once

#include "runtime/program/Rank.h"

namespace echelon::runtime {

class WriterTurns {
public:
  /// `what` is told when rank 0 or another does not come; a string literal.
  WriterTurns(Rank &rank, const char *what);

  /// Rank 0, between two parts of its writing: tells all that it is still there, where it has not for a while.
  void stillWriting();
  /// Rank 0: it is `to`'s turn. What it sends is waited for next.
  void give(int to);
  /// The other ranks: returns when it is their turn.
  void await();
  /// All ranks: rank 0 when all is written; the others return when they have heard so.
  void end();

private:
  enum Word : uint8_t { StillWriting, YourTurn, AllWritten };
  void tell(int to, Word word);
  void awaitWord(Word awaited);

  Rank &rank;
  const char *what;
  double lastWord;
};

} // namespace echelon::runtime
