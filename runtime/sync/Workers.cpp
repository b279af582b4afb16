#include "runtime/sync/Workers.h"

#include "runtime/launch/Fail.h"

#include <algorithm>

namespace echelon::runtime {

int64_t workerOf(const Rank &rank) {
  int64_t worker = 0;
  for (const int axis : rank.program().sync.meshAxes)
    worker = worker * rank.program().mesh[size_t(axis)].size + rank.coordinate(axis);
  return worker;
}

Workers::Workers(Rank &r, InputLoader &l, const DataStream &stream, std::unique_ptr<Arrivals> order, int64_t lastUpdate)
    : rank(r), loader(l), data(stream), arrivals(std::move(order)), policy(r.program().sync),
      isAll(policy.meshAxes.empty()), own(workerOf(r)), last(lastUpdate), copyOf(size_t(policy.workers), -1),
      away(policy.own.bytes ? size_t(policy.workers) : 0) {
  if (policy.kind != SyncPolicy::Local)
    return;
  if (rank.program().readNewest)
    rank.program().readNewest(rank);
  for (std::vector<std::byte> &one : away) // all start from the same parameters
    takeOwn(one);
  takeRows();
}

/// What a worker has for itself, as it lies where the program reads it.
void Workers::takeOwn(std::vector<std::byte> &to) {
  to.resize(size_t(policy.own.bytes));
  rank.readState(policy.own.offset, to.data(), to.size());
}

void Workers::fillRows() {
  select(0);
  forEachOfRows([&](int64_t row, int64_t place, std::byte *awayFrom, size_t bytes) {
    std::vector<std::byte> here;
    if (!awayFrom) {
      here.resize(bytes);
      rank.readState(place, awayFrom = here.data(), bytes);
    }
    rank.writeState(row, awayFrom, bytes);
  });
}

void Workers::takeRows() {
  forEachOfRows([&](int64_t row, int64_t place, std::byte *awayTo, size_t bytes) {
    std::vector<std::byte> there(awayTo ? 0 : bytes);
    rank.readState(row, awayTo ? awayTo : there.data(), bytes);
    if (!awayTo)
      rank.writeState(place, there.data(), bytes);
  });
}

/// visit(offset of a worker's row, offset where the program reads it, where it is put away: null for worker 0, bytes).
template <typename Visit> void Workers::forEachOfRows(Visit visit) {
  for (const SyncPolicy::Row &of : policy.rows)
    for (int64_t worker = 0; worker < policy.workers; ++worker)
      visit(of.row + worker * of.bytes, of.place,
            worker ? away[size_t(worker)].data() + (of.place - policy.own.offset) : nullptr, size_t(of.bytes));
}

/// On one rank that works for several, what one of them has for itself lies where the program reads it, and that of the
/// others is put away.
void Workers::select(int64_t worker) {
  if (away.empty() || selected == worker)
    return;
  takeOwn(away[size_t(selected)]);
  if (const std::vector<std::byte> &own = away[size_t(worker)]; own.size() == size_t(policy.own.bytes))
    rank.writeState(policy.own.offset, own.data(), own.size());
  selected = worker;
}

void Workers::readNewest(int64_t worker, int64_t version) {
  if (!policy.isAsync() || copyOf[size_t(worker)] == version)
    return;
  select(worker);
  rank.program().readNewest(rank);
  copyOf[size_t(worker)] = version;
}

void Workers::compute(const HandedIn &gradient, int64_t version) {
  const Program &program = rank.program();
  if (gradient.read == version)
    readNewest(gradient.worker, version);
  else if (copyOf[size_t(gradient.worker)] != gradient.read)
    fail("internal error, please report: worker " + std::to_string(gradient.worker) + " has no copy of update " +
         std::to_string(gradient.read));
  take(gradient);
  program.step(rank, 0);
}

/// The samples of a ticket, before its worker's step.
void Workers::take(const HandedIn &gradient) {
  const int64_t samples = rank.program().miniBatch();
  select(gradient.worker);
  rank.beginTicket(gradient.ticket);
  loader.load(data, Reading::Training, gradient.ticket * samples, samples);
}

/// A step of every worker by itself. What is reported is the mean of what they report, and where that is not finite no
/// worker's step counts: one rank looks at all of them before it updates the first.
const Update &Workers::stepOfEach(int64_t version, double lr) {
  const Program &program = rank.program();
  bool isBroken = false;
  if (isAll && (program.onNan.action == OnNan::Skip || program.lossScale.isDynamic)) {
    rank.holdBack(true);
    trainEach(lr);
    rank.holdBack(false);
    isBroken = rank.isBroken();
  }
  if (!isBroken)
    trainEach(lr);
  if ((version + 1) % policy.every == 0 || version + 1 == last)
    meetAll();
  fillRows();
  return update;
}

void Workers::trainEach(double lr) {
  const Program &program = rank.program();
  std::vector<double> sums(program.scalars.size());
  for (const HandedIn &gradient : update.gradients) {
    if (!isMine(gradient.worker))
      continue;
    take(gradient);
    program.step(rank, lr);
    for (size_t i = 0; isAll && i < sums.size(); ++i)
      sums[i] += rank.hasReport(int(i)) ? rank.reported(int(i)) : 0;
  }
  for (size_t i = 0; isAll && i < sums.size(); ++i)
    if (rank.hasReport(int(i)))
      rank.report(int(i), sums[i] / double(policy.workers));
}

void Workers::meetAll() {
  const Program &program = rank.program();
  for (int64_t worker = 0; program.handIn && worker < policy.workers; ++worker) {
    select(worker);
    rank.setHandIn(1, worker == 0, worker);
    program.handIn(rank);
  }
  program.meet(rank);
  for (int64_t worker = 0; program.takeMet && worker < (isAll ? policy.workers : 1); ++worker) {
    select(worker);
    program.takeMet(rank);
  }
}

const Update &Workers::step(int64_t version, double lr) {
  const Program &program = rank.program();
  update = arrivals->next(version);
  if (policy.kind == SyncPolicy::Local)
    return stepOfEach(version, lr);
  bool isFirst = true;
  rank.setHandIn(0, true);
  for (const HandedIn &gradient : update.gradients) {
    if (!isMine(gradient.worker))
      continue;
    compute(gradient, version);
    const int64_t stale = std::max<int64_t>(version - gradient.read, 1);
    rank.setHandIn(1.0 / double(policy.k * (policy.damps ? stale : 1)), isFirst, gradient.worker);
    if (program.handIn)
      program.handIn(rank);
    isFirst = false;
  }
  for (int64_t worker = 0; worker < policy.workers; ++worker) // who goes on before the update
    if (isMine(worker) && arrivals->readBy(worker) == version)
      readNewest(worker, version);
  rank.beginUpdate(version);
  program.update(rank, lr);
  return update;
}

void Workers::meet(int64_t version) { arrivals->meet(version); }

} // namespace echelon::runtime
