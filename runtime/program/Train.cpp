#include "runtime/program/Train.h"
#include "runtime/collectives/Collectives.h"
#include "runtime/data/File.h"
#include "runtime/launch/Fail.h"
#include "runtime/profile/Profile.h"
#include "runtime/program/Clock.h"
#include "runtime/program/Dump.h"
#include "runtime/program/Evaluations.h"
#include "runtime/program/Inputs.h"
#include "runtime/program/Log.h"
#include "runtime/program/Memory.h"
#include "runtime/program/NotFinite.h"
#include "runtime/program/Opening.h"
#include "runtime/program/Reported.h"
#include "runtime/program/StartValues.h"
#include "runtime/snapshot/SnapshotFiles.h"
#include "runtime/snapshot/SnapshotWriter.h"
#include "runtime/sync/LiveWorkers.h"
#include "runtime/sync/Workers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

namespace echelon::runtime {

namespace {

/// What rank 0 decides for all, now and then: signals and clocks differ between ranks, decisions may not.
struct Decision {
  int64_t stop = 0;
  int64_t save = 0;
  int64_t next = 0; // the step after which it decides again
};

/// What the log's row says of the workers.
std::string workersRow(const Update &update, int64_t step) {
  std::string of[3];
  int64_t stale = 0;
  for (const HandedIn &gradient : update.gradients) {
    const int64_t values[] = {gradient.worker, gradient.ticket, gradient.read};
    for (size_t i = 0; i < 3; ++i)
      of[i] += (of[i].empty() ? "" : ", ") + std::to_string(values[i]);
    stale += step - gradient.read;
  }
  return ", \"workers\": [" + of[0] + "], \"tickets\": [" + of[1] + "], \"reads\": [" + of[2] +
         "], \"staleness\": " + shortest(double(stale) / double(update.gradients.size())) +
         ", \"time\": " + shortest(update.time);
}

class Trainer {
public:
  Trainer(Rank &r, const Options &o, const Prepared &p)
      : rank(r), program(r.program()), options(o), prepared(p), loader(r), evaluations(r, p, loader),
        last(o.steps         ? o.steps
             : program.steps ? program.steps
                             : std::numeric_limits<int64_t>::max()) {}

  int train();
  int evaluateSnapshot();

private:
  void start();
  void nameStep();
  void oneStep();
  bool applied(const Update &update);
  void finishStep(int64_t step, double began, double lr, const std::string &ofWorkers);
  bool endOfStep();
  std::string work(int64_t step, double lr);
  void prepareAfter(int64_t step);
  void dump(const Update &update);
  void meet();
  std::unique_ptr<Arrivals> arrivals() const;
  void skip(int64_t step, bool overflowed);
  int64_t rollBack(int64_t step);
  Decision decide(int64_t step);
  bool evaluate(int64_t step, bool force);
  void tellUntil(int64_t step);
  bool save(int64_t step);
  void checkLosses(int64_t step, const std::string &also = "");
  void lap(Around what) {
    if (profile)
      profile->lap(what);
  }

  Rank &rank;
  const Program &program;
  const Options &options;
  const Prepared &prepared;
  InputLoader loader;
  Evaluations evaluations;
  std::optional<RunLog> log; // rank 0
  std::optional<Profile> profile;
  std::optional<SnapshotWriter> snapshots;
  std::optional<Workers> workers;  // under a sync policy whose order all know
  std::optional<LiveWorkers> live; // under one whose workers arrive in real time
  int64_t first = 0, done = 0, last;
  double updatedAt = 0;
  bool stopped = false, wantsStop = false, wantsSave = false; // the last two wait for a meeting of local workers
  bool isAtEnd = false, isSaved = false, isMeetingDue = false, mustRollBack = false; // after the last step
  int64_t savedAt = -1, decideAt = 1, decisionInterval = 1;
  double lastSave = 0, stepSeconds = 0, began = 0;
  int64_t skippedInRow = 0, rolledBackTo = -1, timesRolledBack = 0;
};

void Trainer::start() {
  if (prepared.hasSnapshot) {
    first = savedAt = prepared.snapshot.step;
    rank.beginTraining(first);
    loadSnapshot(rank, prepared.snapshot, options.evaluateFrom.empty());
    rank.stateToDevice();
  } else {
    rank.beginTraining(0);
    fillStartValues(rank);
    rank.stateToDevice();
    if (program.start)
      program.start(rank);
  }
  if (!prepared.checkpointDirectory.empty())
    snapshots.emplace(rank, prepared.checkpointDirectory, program.checkpoint.keep, prepared.hasRoomForCopies);
  if (!program.profiled.empty() && rank.training()) // before the log's clock
    profile.emplace(rank, last - first, options.threads, options.trace);
  if (rank.rank() == 0) {
    const bool evaluatesFirst = first >= last || evaluations.isAnyDue(first);
    // mpirun gives it a terminal of its own, wherever it writes to.
    const bool repaints = options.transport != "mpi" && !std::getenv("OMPI_COMM_WORLD_RANK");
    log.emplace(options.log, options.resume, first, std::max(first, last), program.samplesAStep(), evaluatesFirst,
                repaints);
    if (options.evaluateFrom.empty())
      log->begin(openingLines(program, prepared, first, last, options.transport));
    for (const std::string &note : prepared.notes)
      log->warn(note);
    for (const std::string &note : rank.notes())
      log->say(note);
    for (const Change &change : prepared.changes)
      log->change(first, change);
    if (prepared.hasSnapshot)
      log->say("from snapshot " + prepared.snapshot.path + ", after step " + std::to_string(first));
  }
  if (program.sync && rank.training()) {
    if (program.sync.isLive() && options.replay.empty())
      live.emplace(rank, loader, *prepared.data, rank.course().tickets);
    else
      workers.emplace(rank, loader, *prepared.data, arrivals(), last);
  }
  lastSave = began = secondsNow();
  decideAt = first + 1;
}

std::unique_ptr<Arrivals> Trainer::arrivals() const {
  if (options.replay.empty())
    return drawnArrivals(program.sync, program.seed, rank.course().step, rank.course().tickets);
  std::string error;
  std::unique_ptr<Arrivals> order = replayedArrivals(program.sync, options.replay, first, last, error);
  if (!order)
    fail("--replay " + error);
  return order;
}

/// A metric may be what it likes; a loss or the gradients' norm that is not finite ends the run.
void Trainer::checkLosses(int64_t step, const std::string &also) {
  for (size_t i = 0; i < program.scalars.size(); ++i) {
    const Scalar &scalar = program.scalars[i];
    if (!rank.hasReport(int(i)) || scalar.kind == Scalar::Metric)
      continue;
    const double value = rank.reported(int(i));
    if (std::isfinite(value))
      continue;
    if (snapshots) // the message names the newest
      snapshots->finish();
    failNotFinite(rank, reportedName(rank, scalar), value, step, savedAt, also);
  }
}

/// A step whose loss or gradients are not finite has changed nothing: it counts for the schedule and the data alone.
/// `overflowed`: that is the loss scale's doing, which is no concern of `on nan`.
void Trainer::skip(int64_t step, bool overflowed) {
  if (!overflowed && ++skippedInRow > program.onNan.times)
    checkLosses(step, "; it would be the " + std::to_string(skippedInRow) +
                          ". step skipped in a row, and `on nan skip` " + "allows " +
                          std::to_string(program.onNan.times));
  Course course = rank.course();
  ++course.momentsFrom;
  ++course.averagesFrom;
  rank.setCourse(course);
  if (log)
    log->say("step " + std::to_string(step) + " is skipped: " +
             (overflowed ? "its gradients are not finite; the loss scale is halved"
                         : "a loss or the gradients' norm is not finite"));
}

/// Goes on from the newest snapshot, with the data after the step that is not finite. Returns the snapshot's step.
int64_t Trainer::rollBack(int64_t step) {
  int64_t samples = rank.samplesBefore(step);
  if (snapshots)
    snapshots->finish();
  if (savedAt < 0)
    checkLosses(step, "; there is no snapshot yet that `on nan roll back` could go back to");
  timesRolledBack = savedAt == rolledBackTo ? timesRolledBack + 1 : 1;
  rolledBackTo = savedAt;
  if (timesRolledBack > program.onNan.times)
    checkLosses(step, "; `on nan roll back` has gone back to it " + std::to_string(program.onNan.times) + " times");
  Course course = program.course;
  if (prepared.hasSnapshot && prepared.snapshot.step == savedAt) {
    loadSnapshot(rank, prepared.snapshot, true);
  } else {
    Snapshot newest;
    const std::string error = openSnapshot(prepared.checkpointDirectory + "/" + snapshotName(savedAt), newest);
    if (!error.empty())
      fail("on nan roll back: " + error);
    loadSnapshot(rank, newest, true);
    course.momentsFrom = newest.momentsFrom;
    course.averagesFrom = newest.averagesFrom;
    if (program.lossScale.isDynamic) {
      course.lossScale = newest.lossScale;
      course.goodSteps = newest.goodSteps;
    }
  }
  rank.stateToDevice();
  if (workers || live) {
    if (workers)
      workers->meet(step);
    course.tickets = live ? live->tickets() : workers->tickets();
    course.tickets.again.clear(); // the data behind them
    samples = course.tickets.next * program.miniBatch();
  }
  course.step = savedAt;
  course.samples = samples;
  rank.setCourse(course);
  if (live)
    live.emplace(rank, loader, *prepared.data, course.tickets);
  else if (workers)
    workers.emplace(rank, loader, *prepared.data, arrivals(), last);
  if (log)
    log->rollBack(step, savedAt, samples);
  decideAt = savedAt + 1;
  return savedAt;
}

/// While a device computes a step: the samples of the next one. Before an evaluation, whose batches come first, there
/// is nothing to do. Where the run goes on elsewhere, load() finds others than it wants.
void Trainer::prepareAfter(int64_t step) {
  if (step + 1 >= last || evaluations.isAnyDue(step + 1))
    return;
  if (profile)
    profile->mark(Around::Rest);
  loader.loadAhead(*prepared.data, Reading::Training, rank.samplesBefore(step + 1), program.batch);
  if (profile)
    profile->mark(Around::Data);
}

/// The step, on the samples that it takes. Returns what the log's row says of the workers.
std::string Trainer::work(int64_t step, double lr) {
  if (!workers) {
    loader.load(*prepared.data, Reading::Training, rank.samplesBefore(step), program.batch);
    if (!options.dump.empty())
      dumpBatch(rank, *prepared.data, options.dump);
    lap(Around::Data);
    rank.setMeanwhile([this, step] { prepareAfter(step); });
    program.step(rank, lr);
    return "";
  }
  const Update &update = workers->step(step, lr);
  dump(update);
  return program.sync.kind == SyncPolicy::Local ? "" : workersRow(update, step);
}

void Trainer::dump(const Update &update) {
  if (!options.dump.empty())
    dumpMiniBatches(rank, *prepared.data, update, options.dump);
}

/// Before an evaluation, a snapshot and the end: all workers go on at the newest parameters.
void Trainer::meet() {
  if (!live && (!workers || !isMeetingDue))
    return;
  if (workers)
    workers->meet(done);
  Course course = rank.course();
  course.tickets = live ? live->tickets() : workers->tickets();
  rank.setCourse(course);
}

/// What the transport tells of this rank.
void Trainer::nameStep() {
  rank.transport().setStep(done + 1);
  if (program.takesTurns())
    rank.transport().setComputes(false);
}

void Trainer::oneStep() {
  if (profile)
    profile->beginStep(done + 1);
  const double began = secondsNow();
  rank.beginTraining(done);
  nameStep();
  const double lr = program.learningRate(done);
  const std::string ofWorkers = work(done, lr);
  finishStep(done, began, lr, ofWorkers);
  endOfStep();
}

/// The update of workers that arrive in real time; true: all meet after it.
bool Trainer::applied(const Update &update) {
  rank.beginTraining(done);
  nameStep();
  const double lr = program.learningRate(done);
  program.update(rank, lr);
  dump(update);
  const double began = updatedAt;
  updatedAt = secondsNow();
  finishStep(done, began, lr, workersRow(update, done));
  nameStep(); // it goes on computing
  return endOfStep();
}

void Trainer::finishStep(int64_t step, double began, double lr, const std::string &ofWorkers) {
  lap(Around::Rest);
  const double seconds = std::max(secondsNow() - began, 1e-9);
  stepSeconds = stepSeconds == 0 ? seconds : 0.9 * stepSeconds + 0.1 * seconds;
  NamedValues values = reported(rank);
  const bool isBroken = rank.isBroken(), hasOverflowed = rank.hasOverflowed();
  const bool isSkipped = hasOverflowed || (isBroken && program.onNan.action == OnNan::Skip);
  if (log) {
    NamedValues row = values;
    const auto place = std::find_if(row.begin(), row.end(), [](const auto &v) { return v.first == "loss"; });
    row.insert(place == row.end() ? row.begin() : place + 1, {"lr", lr});
    if (program.lossScale.start)
      row.emplace_back("loss_scale", double(rank.lossScale()));
    log->step(step + 1, row, seconds, isSkipped, ofWorkers);
  }
  lap(Around::Log);
  if (isSkipped)
    skip(step + 1, hasOverflowed);
  else if (program.onNan.action != OnNan::RollBack)
    checkLosses(step + 1);
  if (!isBroken)
    skippedInRow = 0;
  if (program.lossScale.isDynamic) {
    Course course = rank.course();
    course.adaptLossScale(!isBroken, hasOverflowed);
    rank.setCourse(course);
  }
  lap(Around::Checks);
  rank.transport().setComputes(false);
  if (options.dumpState) {
    rank.stateFromDevice();
    dumpState(rank, options.dump);
  }
  mustRollBack = isBroken && !hasOverflowed && program.onNan.action == OnNan::RollBack;
}

/// After a step: what is due then. True: something that all workers meet for.
bool Trainer::endOfStep() {
  ++done;
  if (mustRollBack) {
    if (profile)
      profile->endStep();
    return true;
  }
  if (snapshots)
    snapshots->check();
  const Decision decision = decide(done);
  if (profile) {
    profile->lap(Around::Decision);
    profile->endStep();
  }
  wantsStop |= decision.stop;
  wantsSave |= decision.save;
  const bool isMeeting = !program.sync.every || done % program.sync.every == 0 || done == last;
  stopped = wantsStop && isMeeting;
  isAtEnd = done == last && !stopped;
  const int64_t every = program.checkpoint.everySteps;
  isSaved = (every && done % every == 0) || (wantsSave && isMeeting) || isAtEnd || stopped;
  wantsSave &= !isSaved;
  isMeetingDue = isSaved || evaluations.isAnyDue(done);
  return isMeetingDue;
}

Decision Trainer::decide(int64_t step) {
  Decision decision;
  if (step != decideAt)
    return decision;
  if (rank.rank() == 0) {
    decision.stop = rank.transport().stopRequested();
    const double every = program.checkpoint.everySeconds;
    decision.save = every > 0 && secondsNow() - lastSave >= every;
    // A quarter of a second is soon enough, and keeps short steps free of this message. Approached by doubling, since
    // the first steps tell little of the later ones.
    const int64_t wanted = int64_t(0.25 / std::max(stepSeconds, 1e-6));
    decisionInterval = std::clamp<int64_t>(wanted, 1, 2 * decisionInterval);
    decision.next = step + decisionInterval;
  }
  if (rank.size() > 1) {
    static_assert(sizeof(Decision) == 24);
    broadcast(rank.transport(), rank.transport().world(), reinterpret_cast<int32_t *>(&decision), 6, 0,
              "decision to stop or save");
  }
  decideAt = decision.next;
  return decision;
}

/// False: there is nothing to do.
bool Trainer::save(int64_t step) {
  lastSave = secondsNow();
  if (!snapshots || savedAt == step)
    return false;
  snapshots->begin(step);
  savedAt = step;
  return true;
}

/// As Evaluations::run says.
bool Trainer::evaluate(int64_t step, bool force) {
  return evaluations.run(step, force, log ? &*log : nullptr, [&] { checkLosses(step); });
}

/// The run's last word, where it has a clause `until`: whether and when it came to what it was to come to.
void Trainer::tellUntil(int64_t step) {
  const Until &until = program.until;
  if (!log || until.metric.empty())
    return;
  const double seconds = secondsNow() - began;
  log->end(step, until.text(), evaluations.isUntilReached(), first, seconds, seconds - evaluations.seconds(),
           seconds / 3600 * until.dollarsPerHour);
}

int Trainer::train() {
  start();
  if (!options.dump.empty()) {
    rank.stateFromDevice();
    dumpStart(rank, options.dump);
  }
  if (prepared.hasSnapshot && first < last) // the run that was stopped may not have come to it
    evaluate(first, false);
  done = first;
  updatedAt = secondsNow();
  while (done < last && !stopped && !evaluations.isUntilReached()) {
    if (live)
      live->run(done, [&](const Update &update) { return applied(update); });
    else
      oneStep();
    if (mustRollBack) {
      done = rollBack(done);
      continue;
    }
    meet();
    const uint64_t met = ticks();
    if (!stopped && evaluate(done, isAtEnd) && profile)
      profile->between(Between::Evaluation, met);
    const uint64_t evaluated = ticks();
    if ((isSaved || evaluations.isUntilReached()) && save(done) && profile)
      profile->between(Between::Snapshot, evaluated);
    updatedAt = secondsNow();
  }
  live.reset();
  if (first >= last && prepared.hasSnapshot) {
    if (log)
      log->say("nothing to do: the run ends at step " + std::to_string(last));
    evaluate(done, true);
  }
  if (snapshots)
    snapshots->finish();
  if (stopped && log)
    log->say("stopped after step " + std::to_string(done) +
             (prepared.checkpointDirectory.empty() ? ": " + whatIsLost(program) : "; go on with --resume"));
  const std::string memory = memoryLine(rank, snapshots ? snapshots->bytes() : 0);
  if (log)
    log->say(memory);
  if (profile)
    for (const std::string &text : {profile->text(), profile->writeTrace()})
      if (!text.empty())
        log->show(text);
  if (!stopped)
    tellUntil(done);
  return 0;
}

int Trainer::evaluateSnapshot() {
  last = prepared.snapshot.step;
  start();
  evaluate(first, true);
  if (log && log->isLost() && options.log.empty())
    fail("what was evaluated is lost");
  return 0;
}

} // namespace

int trainRank(Rank &rank, const Options &options, const Prepared &prepared) {
  Trainer trainer(rank, options, prepared);
  return options.evaluateFrom.empty() ? trainer.train() : trainer.evaluateSnapshot();
}

} // namespace echelon::runtime
