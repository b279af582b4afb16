#include "runtime/program/WriterTurns.h"
#include "runtime/program/Clock.h"

#include <algorithm>

namespace echelon::runtime {

constexpr int kTag = (1 << 19) + 1; // apart from those of groups and of assemble

WriterTurns::WriterTurns(Rank &r, const char *w) : rank(r), what(w), lastWord(secondsNow()) {}

void WriterTurns::tell(int to, Word word) { rank.transport().send(to, &word, 1, kTag, what); }

void WriterTurns::awaitWord(Word awaited) {
  Word word = StillWriting;
  while (word != awaited)
    rank.transport().receive(0, &word, 1, kTag, what);
}

void WriterTurns::stillWriting() {
  if (secondsNow() - lastWord < std::min(0.5, rank.transport().deadline() / 4))
    return;
  for (int to = 1; to < rank.size(); ++to)
    tell(to, StillWriting);
  lastWord = secondsNow();
}

void WriterTurns::give(int to) { tell(to, YourTurn); }

void WriterTurns::await() { awaitWord(YourTurn); }

void WriterTurns::end() {
  if (rank.rank() != 0)
    return awaitWord(AllWritten);
  for (int to = 1; to < rank.size(); ++to)
    tell(to, AllWritten);
}

} // namespace echelon::runtime
