// The step of a run with a sync policy, on one rank: it computes the gradients of its worker that are in the update, at
// the parameters that each is to be computed at, and takes part in the update.
#pragma once

#include "runtime/program/Inputs.h"
#include "runtime/sync/Arrivals.h"

namespace echelon::runtime {

class Workers {
public:
  /// `order`: the order of arrival, equal on all ranks.
  /// `last`: updates of the run, after which all meet.
  Workers(Rank &rank, InputLoader &loader, const DataStream &data, std::unique_ptr<Arrivals> order, int64_t last);

  /// Update `version`, from 0.
  const Update &step(int64_t version, double lr);
  /// All workers meet after so many updates: the parameters of all are the newest.
  void meet(int64_t version);
  Tickets tickets() const { return arrivals->tickets(); }

private:
  const Update &stepOfEach(int64_t version, double lr);
  void trainEach(double lr);
  void meetAll();
  void take(const HandedIn &gradient);
  bool isMine(int64_t worker) const { return isAll || worker == own; }
  void compute(const HandedIn &gradient, int64_t version);
  void readNewest(int64_t worker, int64_t version);
  void select(int64_t worker);
  void takeOwn(std::vector<std::byte> &to);
  template <typename Visit> void forEachOfRows(Visit visit);
  /// On one rank that works for all: what snapshots hold of each worker is brought to its row, and taken from it.
  void fillRows();
  void takeRows();

  Rank &rank;
  InputLoader &loader;
  const DataStream &data;
  std::unique_ptr<Arrivals> arrivals;
  const SyncPolicy &policy;
  const bool isAll; // this rank works for all workers
  const int64_t own, last;
  Update update;
  std::vector<int64_t> copyOf;              // by worker: updates that had been made when it took its copy; -1: none
  std::vector<std::vector<std::byte>> away; // what the workers have for themselves that are not selected
  int64_t selected = 0;
};

/// The worker that a rank belongs to.
int64_t workerOf(const Rank &rank);

} // namespace echelon::runtime
