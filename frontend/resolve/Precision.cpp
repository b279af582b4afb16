// The clause `precision`: a word for all, or its parts.
#include "frontend/resolve/Resolver.h"
#include <algorithm>
#include <cmath>

namespace echelon::frontend {

using Item = PrecisionClause::Item;

static constexpr int64_t kFirstScale = 65536, kLargestScale = 1 << 24;

/// How messages name a part; "" of a word for all.
static std::string partOf(Item::What what) {
  static const char *names[] = {"", "compute", "params", "reduce", "keep", "scale"};
  return names[what];
}

/// `scale 1024`; false: it is wrong, which is reported.
bool TrainResolver::takeScale(const Item &item) {
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

/// What a part says beside `compute`; false: it is wrong, which is reported.
bool TrainResolver::takePart(const Item &item, const std::string &compute) {
  const std::string part = partOf(item.what), word = item.word.text;
  if (compute == "fp64" || word == "fp64") {
    if (compute == word)
      return true;
    error(Code::E0409, item.range,
          "fp64 is for all; write precision fp64, or " + part + (item.what == Item::Keep ? " (…) fp32" : " fp32"));
    return false;
  }
  if (item.what == Item::Keep) {
    if (word != "fp32") {
      error(Code::E0409, item.range, "what is kept is kept in fp32, as in keep (norm, softmax, loss) fp32");
      return false;
    }
    for (const Pattern &pattern : item.kept) {
      if (pattern.text == "norm" || pattern.text == "softmax" || pattern.text == "loss")
        continue;
      if (compute == "fp32") {
        error(Code::E0409, pattern.range,
              "compute fp32 keeps all products in fp32, so keep (" + pattern.text + ") changes nothing; leave it out");
        return false;
      }
      settings.precision.keep.push_back(pattern);
    }
    return true;
  }
  if (word == "tf32" || word == "fp8") {
    error(Code::E0409, item.range, word + " is how products are computed; " + part + " can be fp32, bf16 or fp16");
    return false;
  }
  if (word != "fp32")
    (item.what == Item::Params ? settings.precision.params : settings.precision.reduce) = word;
  return true;
}

void TrainResolver::take(const PrecisionClause &c, const Clause &clause) {
  static const std::vector<std::string> precisions = {"fp64", "fp32", "tf32", "bf16", "fp16", "fp8"};
  std::map<Item::What, SourceRange> seen;
  std::string compute = "fp32";
  bool good = true;
  for (const Item &item : c.items) {
    if (item.what != Item::Keep) {
      auto [it, fresh] = seen.emplace(item.what, item.range);
      good &= fresh;
      if (!fresh)
        error(Code::E0402, item.range,
              item.what == Item::All ? "one precision is for all; this is a second one"
                                     : quoted(partOf(item.what)) + " is given twice")
            .note(it->second, "it is given here first");
    }
    if (item.what == Item::Scale) {
      good &= takeScale(item);
      continue;
    }
    good &= oneOf(item.word, precisions, "precision");
    if (item.what == Item::All || item.what == Item::Compute)
      compute = item.word.text;
  }
  const bool others = std::any_of(c.items.begin(), c.items.end(), [](const Item &i) { return i.what != Item::All; });
  if (seen.count(Item::All) && others) {
    const Item &all = *std::find_if(c.items.begin(), c.items.end(), [](const Item &i) { return i.what == Item::All; });
    error(Code::E0409, all.range,
          "a precision for all is given alone; beside others say what it is for, as in compute " + all.word.text);
    return;
  }
  if (!good)
    return;
  for (const Item &item : c.items)
    if (item.what == Item::Params || item.what == Item::Reduce || item.what == Item::Keep)
      good &= takePart(item, compute);
  if (!good)
    return;
  for (const CollectiveSettings &line : settings.collectives)
    if (!settings.precision.reduce.empty() && (line.kind == "all_reduce" || line.kind == "reduce_scatter"))
      error(Code::E0409, line.range,
            "sums of " + settings.precision.reduce +
                " travel in a way of their own; leave out this line, or write reduce fp32")
          .note(clause.range, "reduce " + settings.precision.reduce + " is said here");
  settings.doublePrecision = compute == "fp64";
  if (compute != "fp64" && compute != "fp32")
    settings.precision.compute = compute;
  if (compute == "fp64" && settings.lossScale.start)
    error(Code::E0409, clause.range, "a loss scale is for what vanishes in few bits; fp64 takes none");
  if (compute == "fp16" && !seen.count(Item::Scale))
    settings.lossScale = {kFirstScale, true};
}

} // namespace echelon::frontend
