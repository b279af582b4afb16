// Clauses that change the mathematics: compression, and surgeries, which are checked here and left to come.
#include "frontend/resolve/Resolver.h"
#include <algorithm>

namespace echelon::frontend {

/// Under a sync policy, where what workers hand in is packed: all of their mesh axes, where `over` names one or
/// nothing, and what it names inside of them, whose ranks then hand in a part each. Empty: it is wrong, which is
/// reported.
std::vector<std::string> TrainResolver::hopOfPolicy(const CompressClause &c, const Clause &clause) {
  const std::vector<std::string> &axes = settings.sync->over;
  const size_t before = diagnostics.errorCount();
  meshAxes(c.over);
  if (diagnostics.errorCount() != before)
    return {};
  std::vector<Ident> names = c.over;
  names.erase(std::remove_if(names.begin(), names.end(), [&](const Ident &i) { return settings.isWorkerAxis(i.text); }),
              names.end());
  for (const Ident &name : names)
    if (c.what.text != "gradients")
      error(Code::E0409, name.range,
            "deltas travel between workers, and mesh axis " + name.text + " is inside of them; write over " +
                listed(axes));
  std::vector<std::string> hop;
  if (c.over.empty() || names.size() < c.over.size()) {
    hop = axes;
    for (const std::string &axis : axes)
      if (diagnostics.errorCount() == before && !c.over.empty() &&
          std::none_of(c.over.begin(), c.over.end(), [&](const Ident &i) { return i.text == axis; }))
        error(Code::E0409, clause.range,
              "workers are coordinates of " + listed(axes) + ", and what they hand in travels over all of these");
  }
  if (!names.empty() && diagnostics.errorCount() == before)
    for (const std::string &axis : hopOf(names, clause))
      hop.push_back(axis);
  return diagnostics.errorCount() == before ? hop : std::vector<std::string>();
}

/// The hop: what `over` names, else all mesh axes that split the batch.
std::vector<std::string> TrainResolver::hopOf(const std::vector<Ident> &over, const Clause &clause) {
  const std::vector<MeshAxisSettings *> named = meshAxes(over);
  std::vector<std::string> hop, splitting;
  const std::string batch = batchAxis();
  for (MeshAxisSettings &axis : settings.mesh) {
    if (std::none_of(axis.list.begin(), axis.list.end(), [&](const auto &entry) { return entry.axis == batch; }) ||
        settings.isWorkerAxis(axis.name))
      continue;
    splitting.push_back(axis.name);
    if (!over.empty() && std::find(named.begin(), named.end(), &axis) == named.end())
      continue;
    hop.push_back(axis.name);
    if (axis.list.front().axis != batch && !oneRank)
      error(Code::E0409, clause.range,
            "mesh axis " + axis.name + " splits " + axis.list.front().axis + " before " + batch +
                ", so what a rank adds to a gradient is not of its own samples alone; split " + batch + " first");
  }
  if (splitting.empty() && over.empty() && !settings.mesh.empty())
    error(Code::E0409, clause.range,
          settings.sync
              ? "workers of sync local train by themselves, and inside of them no mesh axis splits " + batch +
                    ", so no gradients travel; compress deltas, which they meet with"
              : "no mesh axis splits " + batch + ", so gradients are no sums over ranks that could be compressed");
  for (const Ident &name : over)
    if (settings.isWorkerAxis(name.text))
      error(Code::E0409, name.range,
            "the workers of sync local train by themselves, and no gradients travel over " + name.text +
                "; compress deltas, which they meet with");
    else if (std::find(splitting.begin(), splitting.end(), name.text) == splitting.end() && !named.empty())
      error(Code::E0409, name.range,
            "mesh axis " + name.text + " splits no samples, so gradients are no sums over it that could be compressed" +
                (splitting.empty() ? "" : "; " + listed(splitting) + (splitting.size() == 1 ? " does" : " do")));
  return hop;
}

void TrainResolver::take(const CompressClause &c, const Clause &clause) {
  const bool isKnown = oneOf(c.what, {"gradients", "deltas"}, "thing to compress");
  const size_t before = diagnostics.errorCount();
  const auto policy = std::find_if(train.clauses.begin(), train.clauses.end(), [](const Clause &other) {
    auto *sync = std::get_if<SyncClause>(&other.what);
    return sync && sync->method;
  });
  const bool hasPolicy = policy != train.clauses.end();
  if (hasPolicy && !settings.sync) // which is reported
    return;
  CompressSettings made;
  made.ofDeltas = c.what.text == "deltas";
  const bool isLocal = hasPolicy && settings.sync->isLocal();
  if (made.ofDeltas && !isLocal)
    error(Code::E0409, c.what.range,
          std::string("deltas are what the workers of sync local(…) meet with; ") +
              (hasPolicy ? "under sync " + settings.sync->policy : "with every step") + ", compress gradients");
  else if (!hasPolicy || (isLocal && !made.ofDeltas))
    made.over = hopOf(c.over, clause);
  else
    made.over = hopOfPolicy(c, clause);
  static const std::map<std::string, std::vector<std::string>> forms = {
      {"fp16", {}}, {"int8", {}}, {"onebit", {}}, {"topk", {"share"}}, {"randomk", {"share"}}, {"powersgd", {"rank"}}};
  std::vector<std::string> known;
  for (const auto &form : forms)
    known.push_back(form.first);
  if (!oneOf(c.with.name, known, "compression"))
    return;
  Arguments args(c.with.name.text, c.with.range, c.with.arguments, forms.at(c.with.name.text), diagnostics);
  if (!forms.at(c.with.name.text).empty()) {
    const std::string &needed = forms.at(c.with.name.text)[0];
    if (args.require(needed)) {
      if (needed == "rank")
        made.amount = double(args.whole(needed, atLeast(1)).value_or(1));
      else
        made.amount = args.number(needed, {0, 1, true, false}).value_or(1);
    }
  }
  if (!isKnown || diagnostics.errorCount() != before)
    return;
  made.kind = c.with.name.text;
  made.feedback = c.feedback;
  made.range = clause.range;
  settings.compress = std::move(made);
}

std::string CompressSettings::method() const {
  if (kind == "powersgd")
    return kind + "(rank = " + plain(amount) + ")";
  return kind == "topk" || kind == "randomk" ? kind + "(" + plain(amount * 100) + "%)" : kind;
}

void TrainResolver::take(const AdaptClause &c, const Clause &clause) {
  if (!oneOf(c.method.name, {"lora"}, "adapter"))
    return;
  Arguments args("lora", c.method.range, c.method.arguments, {"rank", "alpha"}, diagnostics);
  if (args.require("rank"))
    args.whole("rank", atLeast(1));
  args.number("alpha", above(0));
  notBuilt(clause.range, "adapt lora");
}

void TrainResolver::take(const FreezeClause &, const Clause &clause) {
  notBuilt(clause.range, "freeze",
           "optimize sgd(lr = 0) on (PATTERNS) leaves them as they are, though `clip` counts their gradients");
}

void TrainResolver::take(const QuantizeClause &c, const Clause &clause) {
  for (const QuantizeClause::Item &item : c.items) {
    oneOf(item.what, {"weights", "activations"}, "thing to quantize");
    oneOf(item.type, {"int8", "int4", "fp8"}, "type");
    if (item.per)
      oneOf(*item.per, {"channel", "tensor"}, "grain");
  }
  notBuilt(clause.range, "quantize");
}

void TrainResolver::take(const PruneClause &c, const Clause &clause) {
  if (!oneOf(c.method.name, {"magnitude", "filters", "kernels", "layers"}, "way of pruning"))
    return;
  Arguments args(c.method.name.text, c.method.range, c.method.arguments, {"sparsity", "rounds", "retrain"},
                 diagnostics);
  if (args.require("sparsity"))
    args.number("sparsity", {0, 1, true, true});
  args.whole("rounds", atLeast(1));
  args.whole("retrain", atLeast(0));
  notBuilt(clause.range, "prune " + c.method.name.text);
}

} // namespace echelon::frontend
