// Which ranks are run, and what their messages are between these.
//
// All ranks of a program have one text. What it does on a rank differs by mesh coordinates alone, and only where an
// operation asks for them: those mesh axes *tell ranks apart* (Communicates::readsCoordinates). Ranks with equal
// coordinates along them are one party, and a party is run once, by its first rank. A walk is not told other
// coordinates, so the ranks of a party do the same, instruction by instruction.
//
// That one rank a party is enough: let f take each rank to its party. A group or an edge c of a rank becomes a channel
// f(c), named by its mesh axes, its tag, and the coordinates of the axes that tell apart; its members are the parties
// of the members of c. For a rank r, different c have different f(c), so messages on f(c) count as on c, and each party
// that is a member of f(c) is that of a member of c. Move all ranks of a party together: then a message on f(c) meets
// when all its parties have arrived, that is when all members of every such c have; what is enabled for a party is
// enabled for each of its ranks, and steps of different ranks commute. So the run of parties ends where the run of
// ranks does, and hangs where that hangs. What one reads, writes and waits for follows from its own instructions.
//
//   mesh(dp = 128, tp = 8), nothing asks for a coordinate   1 party; all_reduce over dp meets as it is started
//   mesh(pp = 8, dp = 128), a send asks for that along pp   8 parties; an edge from pp = 2 to pp = 3 is one channel
#pragma once
#include "passes/prove/Program.h"

namespace echelon::prove {

class Parties {
public:
  /// Sizes of all mesh axes; those that tell ranks apart, ascending.
  Parties(llvm::ArrayRef<int64_t> meshSizes, llvm::ArrayRef<int64_t> apart);

  int size() const { return count; }
  int64_t sizeOf(int64_t meshAxis) const { return sizes[static_cast<size_t>(meshAxis)]; }
  /// Coordinates of a party's ranks; -1 along axes that do not tell apart.
  llvm::SmallVector<int64_t> coordinates(int party) const;
  int64_t firstRank(int party) const;
  /// The channel of a message that a party takes part in; nothing: the message is not one of its ranks'.
  std::optional<int> channelOf(const rt::Message &message, int party, Channels &channels) const;

private:
  int partyAt(llvm::ArrayRef<int64_t> coordinates) const;
  void members(const rt::Message &message, size_t span, llvm::SmallVector<int64_t> &coordinates,
               Channel &channel) const;
  bool tellsApart(int64_t axis) const { return llvm::is_contained(apart, axis); }

  llvm::SmallVector<int64_t> sizes, apart;
  int count = 1;
};

} // namespace echelon::prove
