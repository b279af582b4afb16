#include "test/composition/RandomClauses.h"

#include <algorithm>
#include <sstream>

namespace echelon::test {

namespace {

struct Row {
  std::string name, text, model = "";
};

/// What `recompute` acts on: random values, and something to keep.
const char *kStack = "  repeat depth = 4 {\n    bent = tanh(1.1 * x)\n    x = dropout(bent * sin(bent), 0.2) + "
                     "0.1 * x * (1 + index(depth))\n  }\n";

/// A product of a parameter that is large enough to pack.
const char *kProduct = "  axis tall = 8\n  axis wide = 8\n  param wpress[tall, wide] ~ normal(0.3)\n"
                       "  pressed = dot(tanh(x * (0.5 + 0.1 * index(tall))), wpress, over = tall)\n"
                       "  loss press = 0.02 * mean(pressed * cos(pressed))\n";

/// {| a || b |} is one of a and b, the first the plainest. $K is a number of gradients, one a worker; $B one of any
/// size; $S the least staleness that these allow, or a little more; $T a time for each worker; $O nothing, or ` over`
/// the workers' axes; $P a parameter that a product reads.
const std::vector<Row> kRows = {
    {"sync k_sync",
     "sync k_sync($K{| ||, delay = exponential(1)||, delay = shifted(0.5, 0.5)||, delay = each($T)|})$O"},
    {"sync k_batch_sync",
     "sync k_batch_sync($B{| ||, delay = exponential(2)||, delay = shifted(0.2, 1)||, delay = each($T)|})$O"},
    {"sync async", "sync async(delay = {|exponential(1)||shifted(0.5, 0.5)||each($T)|}"
                   "{| ||, staleness = $S|}{| ||, damp = true|})$O"},
    {"sync k_async", "sync k_async($K{| ||, delay = exponential(1)||, delay = shifted(0.5, 0.5)||, delay = each($T)|}"
                     "{| ||, staleness = $S|}{| ||, damp = true|})$O"},
    {"sync k_batch_async",
     "sync k_batch_async($B{| ||, delay = exponential(1)||, delay = shifted(0.1, 1)||, delay = each($T)|}"
     "{| ||, staleness = $S|}{| ||, damp = true|})$O"},
    {"sync local", "sync local(steps = {|1||2||3|})$O"},
    {"sync local_outer", "sync local(steps = {|2||1||3|}, outer = {|sgd(lr = 1)||sgd(lr = 0.5, momentum = 0.9)||"
                         "nesterov(lr = 0.7, momentum = 0.9)|})$O"},
    {"compress randomk", "compress gradients$O with randomk({|30%||60%|}){| || feedback|}"},
    {"compress powersgd", "compress gradients$O with powersgd(rank = {|1||2|}){| || feedback|}", kProduct},
    {"compress topk", "compress gradients$O with topk({|30%||10%||100%|}){| || feedback|}"},
    {"compress onebit", "compress gradients$O with onebit{| || feedback|}"},
    {"compress int8", "compress gradients$O with int8{| || feedback|}"},
    {"compress fp16", "compress gradients$O with fp16{| || feedback|}"},
    {"precision bf16", "precision {|bf16||compute bf16, params fp32, reduce fp32, keep (norm, softmax, loss) fp32|}"},
    {"precision fp8", "precision fp8"},
    {"precision keep", "precision compute bf16, keep (norm, softmax, loss, {|*||$P|}) fp32", kProduct},
    {"precision params", "precision compute bf16, params bf16"},
    {"precision reduce", "precision compute bf16, reduce {|bf16||fp16|}"},
    {"precision fp16", "precision compute fp16, scale {|1||16||256|}"},
    {"precision fp16_dynamic", "precision fp16"},
    {"precision tf32", "precision {|tf32||compute tf32, scale 64|}"},
    {"precision fp32", "precision {|fp32||compute fp32, scale 1024|}"},
    {"average ema", "average ema({|0.5||0||0.99|})"},
    {"until loss", "until eval_loss {|<||<=||>|} {|1||0.5||2|}"},
    {"recompute full", "recompute full", kStack},
    {"recompute every", "recompute every {|2||1|} depth", kStack},
    {"recompute keep", "recompute keep (bent)", kStack},
    // a loss that is infinite in some steps
    {"on nan", "on nan skip up to 20", "  loss trap = 0.01 * mean(exp(where(goal > 3, 1000, 0)))\n"},
};

/// Groups that cannot be compared beside one another: where a run ends may turn on the last digit of a precision; under
/// fp8 a worker that packs its own gradient takes the largest number of its own samples; under a precision one rounding
/// decides what a sign or a choice of the largest sends.
const std::vector<std::pair<std::string, std::string>> kApart = {{"until", "precision"},
                                                                 {"precision fp8", "compress"},
                                                                 {"precision", "compress onebit"},
                                                                 {"precision", "compress topk"}};

Clause drawn(const Row &row, Random &random) {
  Clause clause{row.name, row.text, row.text, row.model, random()};
  choose(clause.text, &random);
  choose(clause.plain, nullptr);
  return clause;
}

bool areApart(const Clause &a, const Clause &b) {
  auto is = [](const Clause &clause, const std::string &name) { return clause.name.rfind(name, 0) == 0; };
  return a.group() == b.group() || std::any_of(kApart.begin(), kApart.end(), [&](const auto &pair) {
           return (is(a, pair.first) && is(b, pair.second)) || (is(b, pair.first) && is(a, pair.second));
         });
}

} // namespace

bool needsWorkers(const Clause &clause) { return clause.group() == "sync"; }
bool needsHop(const Clause &clause) { return clause.group() == "compress"; }
bool needsEvaluation(const Clause &clause) { return clause.group() == "average" || clause.group() == "until"; }
bool needsSmallNumbers(const Clause &clause) { return clause.name.rfind("precision fp16", 0) == 0; }
bool needsWholeBatch(const Clause &clause) { return clause.name == "precision fp8"; } // the largest of a micro batch
bool needsOwnSamples(const Clause &clause) { return needsWorkers(clause) || needsHop(clause); }

bool hasLocal(const std::vector<Clause> &clauses) {
  return std::any_of(clauses.begin(), clauses.end(),
                     [](const Clause &clause) { return clause.name.rfind("sync local", 0) == 0; });
}

std::vector<Clause> drawClauses(uint64_t turn, Random &random) {
  std::vector<Clause> clauses{drawn(kRows[turn % kRows.size()], random)};
  std::vector<Row> others = kRows;
  std::shuffle(others.begin(), others.end(), random);
  for (const Row &row : others) {
    Clause next = drawn(row, random);
    if (below(random, 5) == 0 &&
        std::none_of(clauses.begin(), clauses.end(), [&](const Clause &clause) { return areApart(clause, next); }))
      clauses.push_back(next);
  }
  if (hasLocal(clauses)) // no gradients travel between its workers
    for (Clause &clause : clauses) {
      replaceAll(clause.text, "gradients", "deltas");
      replaceAll(clause.plain, "gradients", "deltas");
    }
  return clauses;
}

Clause drawClause(const std::string &name, Random &random) {
  return drawn(*std::find_if(kRows.begin(), kRows.end(), [&](const Row &row) { return row.name == name; }), random);
}

std::string print(const Clause &clause, const WorkerAxes &workers, const std::vector<std::string> &factors) {
  Random random(clause.draw);
  const auto count = size_t(workers.count);
  const bool isOneEach = clause.text.find("$K") != std::string::npos;
  const bool isBatch = clause.text.find("$B") != std::string::npos;
  const size_t drawnNumber = random(), more = below(random, 3);
  const size_t k = isOneEach ? 1 + drawnNumber % count : isBatch ? 1 + drawnNumber % (2 * count) : 1;
  std::string times, over;
  for (size_t worker = 0; worker < count; ++worker) {
    static const char *kTimes[] = {"1", "0.5", "2", "3", "1"};
    times += (worker ? ", " : "") + std::string(kTimes[below(random, std::size(kTimes))]);
  }
  if (workers.areNamed)
    for (const std::string &name : workers.names)
      over += (over.empty() ? " over " : ", ") + name;
  std::string text = clause.text;
  replaceAll(text, "$K", std::to_string(k));
  replaceAll(text, "$B", std::to_string(k));
  replaceAll(text, "$S", std::to_string((count + k - 1) / k - 1 + more));
  replaceAll(text, "$T", times);
  replaceAll(text, "$O", over);
  replaceAll(text, "$P", factors[drawnNumber % factors.size()]);
  return text.empty() ? "" : "  " + text + "\n";
}

std::vector<std::string> clauseNames() {
  std::vector<std::string> names;
  for (const Row &row : kRows)
    names.push_back(row.name);
  names.insert(names.end(), {kMicroBatches, kStoreOptimizer, kStoreGradients, kStoreParams, kDeltas});
  return names;
}

} // namespace echelon::test
