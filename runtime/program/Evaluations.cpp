#include "runtime/program/Evaluations.h"
#include "runtime/collectives/Collectives.h"
#include "runtime/program/Clock.h"
#include "runtime/program/Reported.h"
#include "runtime/sync/Workers.h"

#include <algorithm>

namespace echelon::runtime {
namespace {

bool isDue(const Evaluation &evaluation, int64_t step) {
  return evaluation.everySteps && step % evaluation.everySteps == 0;
}

} // namespace

bool Evaluations::isAnyDue(int64_t step) const {
  return std::any_of(program.evaluations.begin(), program.evaluations.end(),
                     [&](const Evaluation &e) { return isDue(e, step); });
}

bool Evaluations::run(int64_t step, bool all, RunLog *log, const std::function<void()> &check) {
  if (!program.evaluateBatch)
    return false;
  std::vector<bool> isDone(program.evaluations.size());
  auto runThose = [&](bool allOfThem) {
    std::vector<size_t> wanted;
    for (size_t i = 0; i < program.evaluations.size(); ++i)
      if (!isDone[i] && (allOfThem || isDue(program.evaluations[i], step)))
        wanted.push_back(i);
    if (wanted.empty())
      return;
    auto call = [&](void (*function)(Rank &)) {
      rank.transport().setPlace(Activity::Evaluate, "");
      function(rank);
    };
    if (program.exchange)
      call(program.exchange);
    for (const size_t i : wanted) {
      evaluate(i, step, false, log, check);
      isDone[i] = true;
    }
    if (!program.exchange)
      return;
    call(program.restore ? program.restore : program.exchange);
    for (const size_t i : wanted)
      evaluate(i, step, true, log, check);
  };
  runThose(all);
  if (untilReached)
    runThose(true);
  return std::find(isDone.begin(), isDone.end(), true) != isDone.end();
}

/// `ofLast`: where parameters have averages, an evaluation of the parameters themselves.
void Evaluations::evaluate(size_t index, int64_t step, bool ofLast, RunLog *log, const std::function<void()> &check) {
  rank.transport().setPlace(Activity::Evaluate, "");
  rank.transport().setComputes(!program.takesTurns() && spent > 0); // in the first one memory is new
  const double began = secondsNow();
  const Evaluation &evaluation = program.evaluations[index];
  readBatches(evaluation, prepared.evaluationData[index] ? *prepared.evaluationData[index] : *prepared.data);
  const NamedValues values = reported(rank);
  const double seconds = secondsNow() - began;
  spent += seconds;
  const std::string last = evaluation.name.empty() ? "last" : "last_" + evaluation.name;
  if (log)
    log->evaluation(step, ofLast ? last : evaluation.name, values, seconds);
  check();
  rank.transport().setComputes(false);
  if (!ofLast && !program.until.metric.empty() && program.until.evaluation == evaluation.name)
    decideUntil(values);
}

void Evaluations::readBatches(const Evaluation &evaluation, const DataStream &stream) {
  const bool plain = stream.heldOutSize() == 0;
  int64_t samples = plain ? stream.trainSize() : stream.heldOutSize();
  if (evaluation.batches && evaluation.batches <= samples / program.batch)
    samples = evaluation.batches * program.batch;
  rank.beginEvaluation(samples);
  program.evaluateBegin(rank);
  // Under a sync policy, each worker has batches of its own.
  const int64_t batch = program.miniBatch(), stride = program.sync.meshAxes.empty() ? batch : program.batch;
  for (int64_t offset = workerOf(rank) * batch; offset < samples; offset += stride) {
    const int64_t valid = std::min(batch, samples - offset);
    loader.load(stream, plain ? Reading::Plain : Reading::HeldOut, offset, valid);
    rank.setEvaluationBatch(offset, valid);
    program.evaluateBatch(rank);
  }
  program.evaluateEnd(rank);
}

void Evaluations::decideUntil(const NamedValues &values) {
  int32_t isMet = 0; // values are equal on all ranks; that one decides keeps the end of a run from resting on it
  for (const auto &[name, value] : values)
    if (name == program.until.metric)
      isMet = program.until.isMetBy(value);
  if (rank.size() > 1)
    broadcast(rank.transport(), rank.transport().world(), &isMet, 1, 0, "decision to end");
  untilReached = isMet;
}

} // namespace echelon::runtime
