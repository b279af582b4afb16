// An abstract run of all ranks' programs, together.
//
// How messages move, as the transports do it (runtime/transport, runtime/cuda), or more strictly:
//
//   1. A start joins a stream of its rank. At the head of its stream it *arrives*, and the k-th arrivals of the members
//      of a channel meet. When all have come, the message is done, and the next of each stream arrives.
//   2. What a rank does with groups is one stream: NCCL launches what is in several communicators in the order of calls
//      (NCCL_LAUNCH_ORDER_IMPLICIT). On a CPU each group goes on by itself. What is done in one stream is done in
//      several. Each edge and direction is a stream of its own: transports match messages by tag and keep what comes
//      early.
//   3. A rank has at most kRoom messages of a group under way: DirectChannel has so many slots, and the next start
//      waits until the oldest is done. Edges have no such limit.
//   4. A send is done when its receive has arrived: long messages are not copied aside.
//   5. Ranks of a group wait for its messages in one order: in memory that other processes do not reach, a collective
//      goes in pieces that the waits count (DirectCollectives::issuePieces).
//   6. A rank waits, or goes on. Nothing waits for any of several messages, tests, or gives up: runs differ in order
//      and in nothing else, so one run stands for all. The runtime's own messages, of snapshots, decisions and the
//      words of workers that arrive in real time, are not here; of these the words alone are taken as they come,
//      between functions and where a step looks for them (Alone.h, `Between`).
//
// A work list: every instruction is run once.
#pragma once
#include "passes/prove/Program.h"

namespace echelon::prove {

inline constexpr size_t kRoom = 16;

/// When messages meet, kind, element type, count, runs, reduction, root, algorithm and label are equal, an edge has its
/// sender and its receiver; none waits in vain; and where all ranks may leave the step, they have started the same.
/// `programs`: by party.
Verdict checkTogether(llvm::ArrayRef<Program> programs, const Channels &channels);

} // namespace echelon::prove
