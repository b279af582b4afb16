// The steps of a run with a sync policy whose workers arrive when they do.
//
// Rank 0 decides: the first rank of each worker tells it of each mini-batch that is done, and is told what to start and
// what an update is made of; it hands this on to the worker's other ranks. So no two ranks derive an order apart. A
// rank looks for such word between its operations (Rank::look): there, asynchronous workers take part in the update and
// go on with their work, others leave theirs.
#pragma once

#include "runtime/program/Inputs.h"
#include "runtime/sync/Arrivals.h"

#include <functional>

namespace echelon::runtime {

class LiveWorkers {
public:
  /// Makes an update; true: all workers meet after it.
  using Apply = std::function<bool(const Update &)>;

  /// Collective.
  LiveWorkers(Rank &rank, InputLoader &loader, const DataStream &data, const Tickets &from);
  ~LiveWorkers();
  LiveWorkers(const LiveWorkers &) = delete;

  /// From a meeting after `version` updates to the next one.
  void run(int64_t version, const Apply &apply);
  /// At a meeting, on rank 0: where the run goes on from.
  Tickets tickets() const;
  /// Between operations of a step.
  void look();

private:
  /// What rank 0 tells the first rank of a worker.
  struct Command {
    enum Kind : int64_t { None, Start, Apply, End } kind = None;
    int64_t ticket = 0, read = 0, serial = 0; // Start
    Update made;                              // Apply

    std::vector<int64_t> words(const SyncPolicy &policy) const;
    void take(const std::vector<int64_t> &words, const SyncPolicy &policy);
    static size_t length(const SyncPolicy &policy) { return size_t(4 + 3 * policy.k); }
  };
  class Coordinator;
  class Mail;

  bool receive(Command &command);
  bool poll(Command &command);
  void compute(const Command &start);
  void handIn();
  void update(const Command &command);

  Rank &rank;
  InputLoader &loader;
  const DataStream &data;
  const SyncPolicy &policy;
  const int64_t worker;
  Group team;         // the ranks of the worker
  const bool isFirst; // of the team
  std::unique_ptr<Mail> mail;
  std::unique_ptr<Coordinator> coordinator; // on rank 0
  const Apply *apply = nullptr;
  int64_t version = 0, ticket = 0, read = 0, serial = 0;
  int64_t handedIn = 0; // gradients, for the next update
  bool isDone = false;  // a gradient is made that is not handed in
  bool isComputing = false, hasMet = false;
  double weight = 0;
  Request request = 0; // of the next word of rank 0
  std::vector<int64_t> words;
  Command stopped; // why the work was left
};

} // namespace echelon::runtime
