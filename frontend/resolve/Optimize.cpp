// Optimizers, their numbers and schedules of the learning rate.
#include "frontend/resolve/Resolver.h"

namespace echelon::frontend {

void TrainResolver::take(const OptimizeClause &c, const Clause &clause) {
  const std::string &kind = c.method.name.text;
  if (!oneOf(c.method.name, {"sgd", "adam", "adamw", "lamb"}, "optimizer", Code::E0405))
    return;
  OptimizerLine line;
  line.range = clause.range;
  line.patterns = c.patterns;
  line.rule = kind;
  std::vector<std::string> names = {"lr", "momentum", "decay", "nesterov", "clip", "scale_lr"};
  if (kind != "sgd")
    names = {"lr", "betas", "decay", "epsilon", "clip", "scale_lr"};
  Arguments args(kind, c.method.range, c.method.arguments, names, diagnostics);

  if (args.require("lr"))
    if (auto s = schedule(*args.expr("lr")))
      line.schedule = *s;
  line.decay = args.number("decay", atLeast(0)).value_or(0);
  if (kind == "sgd") {
    const double momentum = args.number("momentum", belowOne()).value_or(0);
    const bool nesterov = args.truth("nesterov").value_or(false);
    line.numbers = {{"momentum", momentum}, {"nesterov", nesterov ? 1 : 0}};
    if (nesterov && momentum == 0)
      error(Code::E0410, args.rangeOf("nesterov"),
            "'nesterov' changes nothing without a momentum; give one, as in momentum = 0.9");
  } else {
    const double epsilon = args.number("epsilon", above(0)).value_or(1e-8);
    std::vector<double> betas = args.numbers("betas", belowOne()).value_or(std::vector<double>{0.9, 0.999});
    if (betas.size() != 2) {
      error(Code::E0404, args.rangeOf("betas"), "'betas' are two numbers, as in betas = (0.9, 0.95)");
      betas.resize(2);
    }
    line.numbers = {{"beta1", betas[0]}, {"beta2", betas[1]}, {"epsilon", epsilon}};
  }
  if (auto clip = args.number("clip", above(0))) {
    if (settings.clip)
      error(Code::E0402, args.rangeOf("clip"), "'clip' is one norm over all gradients; say it once")
          .note(clipRange, "it is given here first");
    settings.clip = clip;
    clipRange = args.rangeOf("clip");
  }
  if (const CallExpr *rule = args.call("scale_lr")) {
    if (rule->callee.text() != "linear") {
      error(Code::E0407, rule->callee.range,
            "unknown rule " + quoted(rule->callee.text()) + "; the learning rate is scaled by linear(base = 256)");
    } else {
      Arguments inner("linear", rule->range, rule->arguments, {"base"}, diagnostics);
      if (auto base = inner.require("base") ? inner.whole("base", atLeast(1)) : std::nullopt) {
        double factor = double(settings.batch) / double(*base);
        line.schedule.peak *= factor;
        line.schedule.floor *= factor;
      }
    }
  }
  settings.optimizers.push_back(std::move(line));
}

std::optional<Schedule> TrainResolver::schedule(const Expr &rate) {
  Schedule s;
  auto *call = dynCast<CallExpr>(&rate);
  if (!call) {
    if (isUnread(rate))
      return std::nullopt;
    auto value = constant(rate);
    if (!value) {
      error(Code::E0408, rate.range,
            "'lr' is a number or a schedule, as in cosine(peak = 1e-3, warmup = 100), not " + kindOf(rate));
      return std::nullopt;
    }
    const std::string beyond = beyondFp32(*value);
    if (!(*value >= 0) || !beyond.empty()) {
      error(Code::E0404, rate.range, "'lr' is " + (*value >= 0 ? beyond : "at least 0, not " + plain(*value)));
      return std::nullopt;
    }
    s.peak = *value;
    return s;
  }
  std::string kind = call->callee.text();
  if (!oneOf({kind, call->callee.range}, {"constant", "cosine", "linear", "wsd", "steps_at"}, "schedule", Code::E0406))
    return std::nullopt;
  static const std::map<std::string, std::pair<Schedule::Kind, std::vector<std::string>>> forms = {
      {"constant", {Schedule::Constant, {"peak", "warmup"}}},
      {"cosine", {Schedule::Cosine, {"peak", "warmup", "floor"}}},
      {"linear", {Schedule::Linear, {"peak", "warmup", "floor"}}},
      {"wsd", {Schedule::Wsd, {"peak", "warmup", "decay", "floor"}}},
      {"steps_at", {Schedule::StepsAt, {"peak", "drops", "by", "warmup"}}}};
  s.kind = forms.at(kind).first;
  Arguments args(kind, call->range, call->arguments, forms.at(kind).second, diagnostics);
  if (args.require("peak"))
    s.peak = args.number("peak", atLeast(0)).value_or(0);
  s.warmup = args.whole("warmup", atLeast(0)).value_or(0);
  s.floor = args.number("floor", atLeast(0)).value_or(0);
  if (s.floor > s.peak && s.peak > 0)
    error(Code::E0404, args.rangeOf("floor"),
          "'floor' of " + kind + " is " + plain(s.floor) + ", above its peak of " + plain(s.peak));
  if (s.kind == Schedule::Wsd && args.require("decay"))
    s.decaySteps = args.whole("decay", atLeast(1)).value_or(0);
  if (s.kind == Schedule::StepsAt) {
    s.by = args.number("by", above(0)).value_or(0.1);
    auto drops =
        args.require("drops") ? args.numbers("drops", {1, double(int64_t(1) << 53), false, false}) : std::nullopt;
    for (double d : drops.value_or(std::vector<double>())) {
      if (d != double(int64_t(d)) || (!s.drops.empty() && int64_t(d) <= s.drops.back())) {
        error(Code::E0404, args.rangeOf("drops"),
              "'drops' of steps_at are whole numbers of steps, each later than the one before");
        s.drops.clear(); // nothing else is said of them
        break;
      }
      s.drops.push_back(int64_t(d));
    }
    s.dropsRange = args.rangeOf("drops");
  }
  s.range = call->range;
  s.endRange = args.has("warmup") ? args.rangeOf("warmup") : call->range;
  return s;
}

static const char *const kScheduleNames[] = {"constant", "cosine", "linear", "wsd", "steps_at"};

void checkLength(const RunSettings &settings, Diagnostics &diagnostics) {
  if (!settings.steps)
    return;
  int64_t samples = 0;
  constexpr int64_t most = int64_t(1) << 53;
  if (__builtin_mul_overflow(settings.steps, std::max<int64_t>(settings.batch, 1), &samples) || samples > most)
    diagnostics.error(Code::E0704, settings.lengthRange,
                      "the run takes " + plain(double(settings.steps) * double(settings.batch)) +
                          " samples; they are counted up to 2^53");
  for (const OptimizerLine &line : settings.optimizers) {
    const Schedule &s = line.schedule;
    if (!s.drops.empty() && s.drops.back() >= settings.steps)
      diagnostics.error(Code::E0410, s.dropsRange,
                        "the drop at step " + std::to_string(s.drops.back()) + " comes after the run's last step, " +
                            std::to_string(settings.steps - 1));
    if (!s.drops.empty() && s.drops.front() < s.warmup && s.warmup <= settings.steps)
      diagnostics.error(Code::E0410, s.dropsRange,
                        "the drop at step " + std::to_string(s.drops.front()) + " lies in the warmup, which takes " +
                            std::to_string(s.warmup) + " steps");
    if (s.warmup + s.decaySteps > settings.steps)
      diagnostics.error(Code::E0404, s.endRange,
                        std::string("the warmup") + (s.decaySteps ? " and the decay of " : " of ") +
                            kScheduleNames[s.kind] + (s.decaySteps ? " take " : " takes ") +
                            std::to_string(s.warmup + s.decaySteps) + " steps; the run has " +
                            std::to_string(settings.steps));
  }
}

// A line for all parameters is the last: what comes after it would match nothing. A schedule that ends needs an end.
void TrainResolver::checkSchedules() {
  if (settings.until && !settings.lengthRange.valid())
    for (const OptimizerLine &line : settings.optimizers)
      if (const Schedule &s = line.schedule; s.kind != Schedule::Constant && s.kind != Schedule::StepsAt)
        error(Code::E0409, s.range,
              quoted(kScheduleNames[s.kind]) +
                  " falls until the run's last step, and 'until' alone names none: say a length beside it, as in "
                  "steps 10_000, the schedule's end and the run's limit, or take constant or steps_at")
            .note(settings.until->range, "the run ends by this clause alone");
  const OptimizerLine *all = nullptr;
  for (const OptimizerLine &line : settings.optimizers) {
    if (all && !line.patterns.empty())
      error(Code::E0410, line.range,
            "this line matches nothing: the first match wins, and the line above takes all parameters")
          .note(all->range, "put the line for all parameters last");
    if (!all && line.patterns.empty())
      all = &line;
  }
}

void TrainResolver::take(const AverageClause &c, const Clause &clause) {
  if (!oneOf(c.method.name, {"ema"}, "average"))
    return;
  Arguments args("ema", c.method.range, c.method.arguments, {"decay"}, diagnostics);
  if (args.require("decay"))
    settings.averageDecay = args.number("decay", belowOne());
  bool evaluates = false;
  for (const Clause &other : train.clauses)
    if (auto *evaluate = std::get_if<EvaluateClause>(&other.what)) {
      evaluates = true;
      if (evaluate->name && (evaluate->name->text == "last" || evaluate->name->text.compare(0, 5, "last_") == 0))
        error(Code::E0103, evaluate->name->range,
              "with 'average', what is called 'last' is an evaluation of the parameters themselves; call this one "
              "otherwise")
            .note(clause.range, "here evaluations are to read the average");
    }
  if (!evaluates)
    error(Code::E0401, clause.range,
          "'average' is what evaluations read, and train " + train.name.text +
              " makes none: add a line as 'evaluate every 100 steps'");
}

} // namespace echelon::frontend
