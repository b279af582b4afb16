// The collectives that generated programs call.
//
// Every rank of the group calls the same collective with the same count (or runs and length), operation and algorithm,
// in the same order. `count` and `length` are in elements. Results are the same bits on every rank that gets them and
// on every run: an element is summed in an order that the algorithm and the size of the group fix, never in the order
// of arrival.
//
// A `Rank` converts to `Transport &`. `label` is the place in the user's source ("mlp.ech:33"), told when a rank does
// not come. Each _start form returns at once; between it and wait() the buffers belong to the collective. Where memory
// is shared and comes from Transport::allocate (always, for threads), a started collective needs no rank's attention to
// go on: any rank that has time does the work of those that have not (DirectCollectives.h says how). Otherwise it moves
// on inside other communication calls and Transport::progress().
#pragma once

#include "runtime/collectives/Ticket.h"
#include "runtime/transport/Transport.h"

#include <cstring>

namespace echelon::runtime {

/// Rounds and bytes are in the header of each collective's file.
enum class Algorithm : uint8_t {
  automatic,  // direct where the transport has it, else native
  direct,     // passes over shared memory: shm and threads
  ring,       // neighbours only, bandwidth-optimal
  butterfly,  // recursive halving and doubling, any group size
  tree,       // binomial tree: log2(size) rounds of the whole message
  one_to_all, // the first rank of the group, or the root, talks to each
  native,     // what the transport takes: MPI's own (mpi), one of those above by size (tcp)
  // of sums of floats: what is summed travels rounded to two bytes, and sums are made in floats
  bf16_summands,
  fp16_summands
};

const char *nameOf(Algorithm algorithm);

/// Of one collective: its algorithm, and the place in the spec that messages name, "mlp.ech:33".
struct CollectiveOptions {
  Algorithm algorithm = Algorithm::automatic;
  const char *label = "";
  CollectiveOptions() = default;
  CollectiveOptions(const char *label) : label(label) {}
  CollectiveOptions(Algorithm algorithm, const char *label = "") : algorithm(algorithm), label(label) {}
};

/// Does `call` in the given way, to the end. What the transport or the collective cannot do that way ends the run with
/// a message.
void runCollective(Transport &transport, const Group &group, const CollectiveCall &call, Algorithm algorithm);
Ticket startCollective(Transport &transport, const Group &group, const CollectiveCall &call, Algorithm algorithm);

template <typename T>
CollectiveCall callOf(Collective kind, const T *in, T *out, int64_t count, ReduceOp op, int root, const char *label) {
  CollectiveCall call;
  call.kind = kind;
  call.type = ElementTypeOf<T>::value;
  call.op = op;
  call.root = root;
  call.in = in;
  call.out = out;
  call.count = count;
  call.label = label;
  return call;
}

template <typename T>
CollectiveCall innerCallOf(Collective kind, const T *in, T *out, int64_t runs, int64_t length, ReduceOp op,
                           const char *label) {
  CollectiveCall call = callOf<T>(kind, in, out, runs * length, op, 0, label);
  call.runs = runs;
  return call;
}

/// data: (count), summed (or maximum, minimum) over the group, in place, on every rank.
template <typename T>
void all_reduce(Transport &t, const Group &g, T *data, int64_t count, ReduceOp op,
                const CollectiveOptions &options = {}) {
  runCollective(t, g, callOf<T>(Collective::AllReduce, data, data, count, op, 0, options.label), options.algorithm);
}
template <typename T>
Ticket all_reduce_start(Transport &t, const Group &g, T *data, int64_t count, ReduceOp op,
                        const CollectiveOptions &options = {}) {
  return startCollective(t, g, callOf<T>(Collective::AllReduce, data, data, count, op, 0, options.label),
                         options.algorithm);
}

/// in: (size, count); out: (count) = this rank's row of the sum. out may be in's own row.
template <typename T>
void reduce_scatter(Transport &t, const Group &g, T *out, const T *in, int64_t count, ReduceOp op,
                    const CollectiveOptions &options = {}) {
  runCollective(t, g, callOf<T>(Collective::ReduceScatter, in, out, count, op, 0, options.label), options.algorithm);
}
template <typename T>
Ticket reduce_scatter_start(Transport &t, const Group &g, T *out, const T *in, int64_t count, ReduceOp op,
                            const CollectiveOptions &options = {}) {
  return startCollective(t, g, callOf<T>(Collective::ReduceScatter, in, out, count, op, 0, options.label),
                         options.algorithm);
}

/// in: (count); out: (size, count), rank i's in as row i. in may be out's own row.
template <typename T>
void all_gather(Transport &t, const Group &g, T *out, const T *in, int64_t count,
                const CollectiveOptions &options = {}) {
  runCollective(t, g, callOf<T>(Collective::AllGather, in, out, count, Sum, 0, options.label), options.algorithm);
}
template <typename T>
Ticket all_gather_start(Transport &t, const Group &g, T *out, const T *in, int64_t count,
                        const CollectiveOptions &options = {}) {
  return startCollective(t, g, callOf<T>(Collective::AllGather, in, out, count, Sum, 0, options.label),
                         options.algorithm);
}

/// The same along an axis that is not the outermost. in: (runs, size, length); out: (runs, length), this rank's part of
/// the sum. Not in place.
template <typename T>
void reduce_scatter_inner(Transport &t, const Group &g, T *out, const T *in, int64_t runs, int64_t length, ReduceOp op,
                          const CollectiveOptions &options = {}) {
  runCollective(t, g, innerCallOf<T>(Collective::ReduceScatter, in, out, runs, length, op, options.label),
                options.algorithm);
}
template <typename T>
Ticket reduce_scatter_inner_start(Transport &t, const Group &g, T *out, const T *in, int64_t runs, int64_t length,
                                  ReduceOp op, const CollectiveOptions &options = {}) {
  return startCollective(t, g, innerCallOf<T>(Collective::ReduceScatter, in, out, runs, length, op, options.label),
                         options.algorithm);
}

/// in: (runs, length); out: (runs, size, length), rank i's in at [:, i, :]. Not in place.
template <typename T>
void all_gather_inner(Transport &t, const Group &g, T *out, const T *in, int64_t runs, int64_t length,
                      const CollectiveOptions &options = {}) {
  runCollective(t, g, innerCallOf<T>(Collective::AllGather, in, out, runs, length, Sum, options.label),
                options.algorithm);
}
template <typename T>
Ticket all_gather_inner_start(Transport &t, const Group &g, T *out, const T *in, int64_t runs, int64_t length,
                              const CollectiveOptions &options = {}) {
  return startCollective(t, g, innerCallOf<T>(Collective::AllGather, in, out, runs, length, Sum, options.label),
                         options.algorithm);
}

/// in, out: (size, count); row j of rank i's in becomes row i of rank j's out. Not in place.
template <typename T>
void all_to_all(Transport &t, const Group &g, T *out, const T *in, int64_t count,
                const CollectiveOptions &options = {}) {
  runCollective(t, g, callOf<T>(Collective::AllToAll, in, out, count, Sum, 0, options.label), options.algorithm);
}
template <typename T>
Ticket all_to_all_start(Transport &t, const Group &g, T *out, const T *in, int64_t count,
                        const CollectiveOptions &options = {}) {
  return startCollective(t, g, callOf<T>(Collective::AllToAll, in, out, count, Sum, 0, options.label),
                         options.algorithm);
}

/// data: (count), the root's on every rank. root is a place in the group.
template <typename T>
void broadcast(Transport &t, const Group &g, T *data, int64_t count, int root, const CollectiveOptions &options = {}) {
  runCollective(t, g, callOf<T>(Collective::Broadcast, data, data, count, Sum, root, options.label), options.algorithm);
}
template <typename T>
Ticket broadcast_start(Transport &t, const Group &g, T *data, int64_t count, int root,
                       const CollectiveOptions &options = {}) {
  return startCollective(t, g, callOf<T>(Collective::Broadcast, data, data, count, Sum, root, options.label),
                         options.algorithm);
}

/// data: (count), the sum at the root; unchanged elsewhere.
template <typename T>
void reduce(Transport &t, const Group &g, T *data, int64_t count, ReduceOp op, int root,
            const CollectiveOptions &options = {}) {
  runCollective(t, g, callOf<T>(Collective::Reduce, data, data, count, op, root, options.label), options.algorithm);
}
template <typename T>
Ticket reduce_start(Transport &t, const Group &g, T *data, int64_t count, ReduceOp op, int root,
                    const CollectiveOptions &options = {}) {
  return startCollective(t, g, callOf<T>(Collective::Reduce, data, data, count, op, root, options.label),
                         options.algorithm);
}

/// in: (size, count) at the root, else unused; out: (count), row i for rank i. out may be in's own row at the root.
template <typename T>
void scatter(Transport &t, const Group &g, T *out, const T *in, int64_t count, int root,
             const CollectiveOptions &options = {}) {
  runCollective(t, g, callOf<T>(Collective::Scatter, in, out, count, Sum, root, options.label), options.algorithm);
}
template <typename T>
Ticket scatter_start(Transport &t, const Group &g, T *out, const T *in, int64_t count, int root,
                     const CollectiveOptions &options = {}) {
  return startCollective(t, g, callOf<T>(Collective::Scatter, in, out, count, Sum, root, options.label),
                         options.algorithm);
}

/// in: (count); out: (size, count) at the root, else unused. in may be out's own row at the root.
template <typename T>
void gather(Transport &t, const Group &g, T *out, const T *in, int64_t count, int root,
            const CollectiveOptions &options = {}) {
  runCollective(t, g, callOf<T>(Collective::Gather, in, out, count, Sum, root, options.label), options.algorithm);
}
template <typename T>
Ticket gather_start(Transport &t, const Group &g, T *out, const T *in, int64_t count, int root,
                    const CollectiveOptions &options = {}) {
  return startCollective(t, g, callOf<T>(Collective::Gather, in, out, count, Sum, root, options.label),
                         options.algorithm);
}

/// Returns when every rank of the group has come.
inline void barrier(Transport &t, const Group &g, const CollectiveOptions &options = {}) {
  runCollective(t, g, callOf<uint8_t>(Collective::Barrier, nullptr, nullptr, 0, Sum, 0, options.label),
                options.algorithm);
}
inline Ticket barrier_start(Transport &t, const Group &g, const CollectiveOptions &options = {}) {
  return startCollective(t, g, callOf<uint8_t>(Collective::Barrier, nullptr, nullptr, 0, Sum, 0, options.label),
                         options.algorithm);
}

/// From one rank to another; `to` and `from` are places in the group. Messages between two ranks keep their order.
template <typename T>
void send(Transport &t, const Group &g, int to, const T *data, int64_t count, const char *label = "") {
  t.send(g.ranks[to], data, count * sizeof(T), g.id, label);
}
template <typename T>
void receive(Transport &t, const Group &g, int from, T *data, int64_t count, const char *label = "") {
  t.receive(g.ranks[from], data, count * sizeof(T), g.id, label);
}
template <typename T>
Ticket send_start(Transport &t, const Group &g, int to, const T *data, int64_t count, const char *label = "") {
  return Ticket(t, t.isend(g.ranks[to], data, count * sizeof(T), g.id, label));
}
template <typename T>
Ticket receive_start(Transport &t, const Group &g, int from, T *data, int64_t count, const char *label = "") {
  return Ticket(t, t.ireceive(g.ranks[from], data, count * sizeof(T), g.id, label));
}

/// Moves on what has been started, without waiting.
inline void progress(Transport &transport) { transport.progress(); }

} // namespace echelon::runtime
