// Clauses that change the mathematics: precision, compression and surgeries. All but the precisions down to fp16 and
// `compress gradients` are checked here and left to come.
#include "frontend/resolve/Resolver.h"
#include <algorithm>
#include <cmath>

namespace echelon::frontend {

/// What a clause computes in where all else, but the loss scale, is what the word for it means: fp32. Else empty.
static std::string computesIn(const PrecisionClause &c) {
  using Item = PrecisionClause::Item;
  std::string compute;
  for (const Item &item : c.items) {
    if (item.what == Item::All || item.what == Item::Compute)
      compute = item.word.text;
    else if (item.what == Item::Scale)
      continue;
    else if (item.word.text != "fp32")
      return "";
    else if (item.what == Item::Keep)
      for (const Path &path : item.kept)
        if (path.text() != "norm" && path.text() != "softmax" && path.text() != "loss")
          return "";
  }
  return compute;
}

static constexpr int64_t kFirstScale = 65536, kLargestScale = 1 << 24;

/// `scale 1024`; false: it is wrong, which has been told.
bool TrainResolver::takeScale(const PrecisionClause::Item &item) {
  if (!item.factor) {
    settings.lossScale = {kFirstScale, true};
    return oneOf(item.word, {"dynamic"}, "loss scale");
  }
  int exponent = 0;
  if (std::frexp(*item.factor, &exponent) != 0.5 || *item.factor < 1 || *item.factor > double(kLargestScale)) {
    error(Code::E0404, item.range,
          "the loss scale is a power of two from 1 to 16777216, so that it changes no digit; as in scale 1024");
    return false;
  }
  settings.lossScale = {int64_t(*item.factor), false};
  return true;
}

void TrainResolver::take(const PrecisionClause &c, const Clause &clause) {
  using Item = PrecisionClause::Item;
  static const std::vector<std::string> precisions = {"fp64", "fp32", "tf32", "bf16", "fp16", "fp8"};
  static const char *names[] = {"", "compute", "params", "reduce", "keep", "scale"};
  std::map<Item::What, SourceRange> seen;
  std::string described;
  bool good = true;
  for (const Item &item : c.items) {
    described += (described.empty() ? "" : ", ") + std::string(names[item.what]) + (item.what == Item::All ? "" : " ") +
                 (item.factor ? plain(*item.factor) : item.word.text);
    if (item.what != Item::Keep) {
      auto [it, fresh] = seen.emplace(item.what, item.range);
      good &= fresh;
      if (!fresh)
        error(Code::E0402, item.range,
              item.what == Item::All ? "one precision is for all; this is a second one"
                                     : quoted(names[item.what]) + " is given twice")
            .note(it->second, "it is given here first");
    }
    if (item.what == Item::Scale) {
      good &= takeScale(item);
      continue;
    }
    good &= oneOf(item.word, precisions, "precision");
  }
  const bool others = std::any_of(c.items.begin(), c.items.end(), [](const Item &i) { return i.what != Item::All; });
  if (seen.count(Item::All) && others) {
    const Item &all = *std::find_if(c.items.begin(), c.items.end(), [](const Item &i) { return i.what == Item::All; });
    error(Code::E0409, all.range,
          "a precision for all is given alone; beside others say what it is for, as in compute " + all.word.text);
  }
  const std::string compute = computesIn(c);
  const bool isWord = c.items.size() == 1 && c.items.front().what == Item::All;
  if (isWord && compute == "fp64") {
    settings.doublePrecision = true;
  } else if (compute == "tf32" || compute == "bf16" || compute == "fp16") {
    settings.compute = compute;
    if (compute == "fp16" && !seen.count(Item::Scale))
      settings.lossScale = {kFirstScale, true};
  } else if (good && compute != "fp32") {
    notBuilt(clause.range, "precision " + described, "precision fp64, fp32, tf32, bf16 and fp16 are");
  }
}

/// The hop: what `over` names, else all mesh axes that split the batch.
std::vector<std::string> TrainResolver::hopOf(const CompressClause &c, const Clause &clause) {
  const std::vector<MeshAxisSettings *> named = meshAxes(c.over);
  std::vector<std::string> hop, splitting;
  const std::string batch = batchAxis();
  for (MeshAxisSettings &axis : settings.mesh) {
    if (std::none_of(axis.list.begin(), axis.list.end(), [&](const auto &entry) { return entry.axis == batch; }))
      continue;
    splitting.push_back(axis.name);
    if (!c.over.empty() && std::find(named.begin(), named.end(), &axis) == named.end())
      continue;
    hop.push_back(axis.name);
    if (axis.list.front().axis != batch && !oneRank)
      error(Code::E0409, clause.range,
            "mesh axis " + axis.name + " splits " + axis.list.front().axis + " before " + batch +
                ", so what a rank adds to a gradient is not of its own samples alone; split " + batch + " first");
  }
  if (splitting.empty() && c.over.empty() && !settings.mesh.empty())
    error(Code::E0409, clause.range,
          "no mesh axis splits " + batch + ", so gradients are no sums over ranks that could be compressed");
  for (const Ident &name : c.over)
    if (std::find(splitting.begin(), splitting.end(), name.text) == splitting.end() && !named.empty())
      error(Code::E0409, name.range,
            "mesh axis " + name.text + " splits no samples, so gradients are no sums over it that could be compressed" +
                (splitting.empty() ? "" : "; " + listed(splitting) + (splitting.size() == 1 ? " does" : " do")));
  return hop;
}

void TrainResolver::take(const CompressClause &c, const Clause &clause) {
  const bool isKnown = oneOf(c.what, {"gradients", "deltas"}, "thing to compress");
  const size_t before = diagnostics.errorCount();
  CompressSettings made;
  made.over = hopOf(c, clause);
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
  if (settings.sync) {
    notBuilt(clause.range, "compress " + c.what.text + " under sync " + settings.sync->policy);
    return;
  }
  if (c.what.text == "deltas") {
    if (std::none_of(train.clauses.begin(), train.clauses.end(), [](const Clause &other) {
          auto *sync = std::get_if<SyncClause>(&other.what);
          return sync && sync->method && sync->method->name.text == "local";
        }))
      error(Code::E0409, c.what.range,
            "deltas are what the workers of sync local(…) meet with; with every step, compress gradients");
    return;
  }
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
