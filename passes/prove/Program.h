// What one rank's text does with messages and with memory, in the order in which it runs.
#pragma once
#include "ir/rt/Rt.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace echelon::prove {

/// Bytes of an arena: [begin, end), which are part of a buffer's.
struct Range {
  rt::Arena arena;
  int64_t begin, end;
  const void *buffer;           ///< whose they are: of an rt.alloc, or of what is stored under a name
  int64_t wholeBegin, wholeEnd; ///< all bytes of that
  std::string (*nameOf)(const void *);

  bool overlaps(const Range &other) const { return arena == other.arena && begin < other.end && other.begin < end; }
  std::string name() const { return nameOf(buffer); }
};

/// Ranks whose messages meet in the order in which each starts them: of a group, or of an edge from one to another.
struct Channel {
  bool isEdge = false;
  llvm::SmallVector<int, 4> members; ///< parties, ascending; of an edge {from, to}
};

/// A message that a rank starts.
struct Start {
  rt::Message is;
  int channel = 0;
  llvm::SmallVector<int64_t, 2> label; ///< with is.what: which value travels
  mlir::Operation *op = nullptr;

  bool isEdge() const { return is.side != rt::Message::Side::Member; }
  bool hasLabelOf(const Start &other) const { return is.what == other.is.what && label == other.label; }
};

/// One thing that a rank does.
struct Instruction {
  enum Kind : uint8_t {
    Touch, ///< computes on memory
    Make,  ///< a buffer (in `writes`) begins: what it held before is over
    Begin, ///< starts a message
    Wait,  ///< for it to be done
    Leave, ///< the step ends here if all ranks find that a loss or the norm is not finite
    Look   ///< what other functions do comes in between, where workers arrive in real time
  } kind;
  mlir::Operation *op;
  int start = -1; ///< of Begin and Wait: of Program::starts
  llvm::SmallVector<Range, 2> reads, writes;
  bool isAmid = false; ///< of an iteration of which messages alone are followed: what its buffers hold is not known
};

struct Program {
  int64_t rank = 0; ///< the first of those whose program it is
  std::vector<Instruction> instructions;
  std::vector<Start> starts;
};

/// All channels of a module, by what they are.
class Channels {
public:
  int find(const std::vector<int64_t> &key, const Channel &channel);
  const Channel &operator[](int i) const { return all[i]; }
  size_t size() const { return all.size(); }

private:
  std::map<std::vector<int64_t>, int> known;
  std::vector<Channel> all;
};

/// Why a program is refused.
struct Refusal {
  mlir::Operation *at;
  std::string text;
  llvm::SmallVector<std::pair<mlir::Operation *, std::string>, 2> notes;
};
using Verdict = std::optional<Refusal>;

/// "all_reduce over dp (mlp.ech:33)".
std::string shortly(const Start &start);
/// The same with all that its ranks have to agree on: "all_reduce over dp of 64 f32, Sum, with ring (mlp.ech:33)".
std::string described(const Start &start);

} // namespace echelon::prove
