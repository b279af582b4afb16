#include "passes/prove/Parties.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::prove;

Parties::Parties(ArrayRef<int64_t> meshSizes, ArrayRef<int64_t> apart) : sizes(meshSizes), apart(apart) {
  for (int64_t axis : this->apart)
    count *= static_cast<int>(sizes[axis]);
}

SmallVector<int64_t> Parties::coordinates(int party) const {
  SmallVector<int64_t> at(sizes.size(), -1);
  int64_t rest = party;
  for (int64_t axis : llvm::reverse(apart)) {
    at[axis] = rest % sizes[axis];
    rest /= sizes[axis];
  }
  return at;
}

int Parties::partyAt(ArrayRef<int64_t> coordinates) const {
  int64_t party = 0;
  for (int64_t axis : apart)
    party = party * sizes[axis] + coordinates[axis];
  return static_cast<int>(party);
}

int64_t Parties::firstRank(int party) const {
  int64_t rank = 0;
  for (auto [size, at] : llvm::zip(sizes, coordinates(party)))
    rank = rank * size + std::max<int64_t>(at, 0);
  return rank;
}

/// Adds the parties that differ from these coordinates along the spans from `span` on.
void Parties::members(const rt::Message &message, size_t span, SmallVector<int64_t> &coordinates,
                      Channel &channel) const {
  if (span == message.over.size()) {
    channel.members.push_back(partyAt(coordinates));
    return;
  }
  const rt::Span &along = message.over[span];
  if (!tellsApart(along.axis))
    return members(message, span + 1, coordinates, channel);
  const int64_t own = coordinates[along.axis];
  const int64_t places = along.at.empty() ? sizes[along.axis] : static_cast<int64_t>(along.at.size());
  for (int64_t i = 0; i < places; ++i) {
    coordinates[along.axis] = along.at.empty() ? i : along.at[i];
    members(message, span + 1, coordinates, channel);
  }
  coordinates[along.axis] = own;
}

std::optional<int> Parties::channelOf(const rt::Message &message, int party, Channels &channels) const {
  const bool isEdge = message.side != rt::Message::Side::Member;
  SmallVector<int64_t> own = coordinates(party);
  std::vector<int64_t> key = {isEdge, isEdge ? message.tag : 0, static_cast<int64_t>(message.over.size())};
  SmallVector<int64_t> outside(own);
  for (const rt::Span &along : message.over) {
    key.insert(key.end(), {along.axis, static_cast<int64_t>(along.at.size())});
    key.insert(key.end(), along.at.begin(), along.at.end());
    // Part of an axis whose coordinates the walk does not know: no rank's.
    if (!along.at.empty() && !tellsApart(along.axis))
      return std::nullopt;
    for (int64_t at : along.at)
      if (at < 0 || at >= sizes[along.axis])
        return std::nullopt;
    if (along.axis < static_cast<int64_t>(outside.size()))
      outside[along.axis] = -2;
  }
  key.insert(key.end(), outside.begin(), outside.end());
  Channel channel;
  channel.isEdge = isEdge;
  members(message, 0, own, channel);
  const size_t side = message.side == rt::Message::Side::Receiver;
  if (isEdge ? channel.members.size() != 2 || channel.members[side] != party
             : !llvm::is_contained(channel.members, party))
    return std::nullopt;
  return channels.find(key, channel);
}
