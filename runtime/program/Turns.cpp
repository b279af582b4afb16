#include "runtime/program/Turns.h"
#include "runtime/program/Clock.h"

#include <algorithm>

namespace echelon::runtime {

constexpr int kTag = (1 << 19) + 1; // apart from those of groups and of assemble

Turns::Turns(Rank &r, const char *w) : rank(r), what(w), lastWord(secondsNow()) {}

void Turns::tell(int to, Word word) { rank.transport().send(to, &word, 1, kTag, what); }

void Turns::awaitWord(Word awaited) {
  Word word = StillWriting;
  while (word != awaited)
    rank.transport().receive(0, &word, 1, kTag, what);
}

void Turns::stillWriting() {
  if (secondsNow() - lastWord < std::min(0.5, rank.transport().deadline() / 4))
    return;
  for (int to = 1; to < rank.size(); ++to)
    tell(to, StillWriting);
  lastWord = secondsNow();
}

void Turns::give(int to) { tell(to, YourTurn); }

void Turns::await() { awaitWord(YourTurn); }

void Turns::end() {
  if (rank.rank() != 0)
    return awaitWord(AllWritten);
  for (int to = 1; to < rank.size(); ++to)
    tell(to, AllWritten);
}

} // namespace echelon::runtime
