// The data clause: sources, how they nest, how many values they give, and transforms.
#include "frontend/resolve/Resolver.h"
#include <algorithm>

namespace echelon::frontend {

namespace {
// What a source gives: a stream of tokens, to be cut into windows, or samples.
enum class Gives { Stream, Samples };

const std::vector<std::string> &sourceNames() {
  static const std::vector<std::string> names = {"text", "tokens", "next_token", "mnist", "cifar10",
                                                 "npy",  "csv",    "synthetic",  "mix",   "pack"};
  return names;
}

Gives gives(const std::string &kind) { return kind == "text" || kind == "tokens" ? Gives::Stream : Gives::Samples; }

/// A word without a name in front.
bool isWord(const Argument &a) {
  return !a.name && a.value->kind == ExprKind::Path && cast<PathExpr>(*a.value).path.single();
}

std::string number(size_t n, const std::string &what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }
} // namespace

void TrainResolver::take(const DataClause &c, const Clause &clause) {
  if (settings.dataRange.valid()) // that it is given twice is told
    return;
  settings.dataRange = clause.range;
  std::map<std::string, SourceRange> seen;
  for (const Path &input : c.inputs) {
    settings.inputs.push_back({input.text(), input.range});
    auto [it, fresh] = seen.emplace(input.text(), input.range);
    if (!fresh)
      error(Code::E0505, input.range, "input " + quoted(input.text()) + " is filled twice")
          .note(it->second, "it is filled here first");
  }
  if (auto spec = source(cast<CallExpr>(*c.source), c.inputs.size(), false))
    settings.data = std::move(*spec);
  for (const Method &m : c.transforms)
    if (auto t = transform(m, c.inputs)) {
      // Mirrored or cut, a text is another one, and its labels stay. A table's rows may be pictures where axes are
      // named.
      bool pictures = settings.data.kind == "mnist" || settings.data.kind == "cifar10" || settings.data.kind == "npy" ||
                      (settings.data.kind == "csv" && !t->axes.empty());
      if (t->kind != "normalize" && !settings.data.kind.empty() && !pictures) {
        error(Code::E0504, m.range,
              t->kind + " is for pictures, from mnist, cifar10 or npy, and " + settings.data.kind +
                  " gives none; leave it out");
        continue;
      }
      settings.data.transforms.push_back(std::move(*t));
      settings.transformRanges.push_back(m.range);
    }
}

// A model sees the same scale in training and in evaluation; the other transforms are of training alone.
void TrainResolver::normalizeEvaluations() {
  for (EvaluationSettings &evaluation : settings.evaluations)
    if (evaluation.source)
      for (const runtime::TransformSpec &t : settings.data.transforms)
        if (t.kind == "normalize")
          evaluation.source->transforms.push_back(t);
}

// `inputs`: how many values it must give, unless `wrapped` in another source.
std::optional<runtime::DataSpec> TrainResolver::source(const CallExpr &call, size_t inputs, bool wrapped) {
  runtime::DataSpec spec;
  spec.kind = call.callee.text();
  if (!oneOf({spec.kind, call.callee.range}, sourceNames(), "data source", Code::E0501))
    return std::nullopt;
  if (!wrapped && gives(spec.kind) == Gives::Stream) {
    error(Code::E0504, call.callee.range,
          spec.kind + " gives one long stream, not samples; cut it into windows with next_token(" + spec.kind + "(…))");
    return std::nullopt;
  }
  size_t outputs = 2; // next_token, mnist, cifar10, synthetic(tokens)
  bool fine = true;
  if (spec.kind == "text" || spec.kind == "mnist" || spec.kind == "cifar10") {
    fine = paths(call, 1, spec);
  } else if (spec.kind == "npy" || spec.kind == "csv") {
    fine = paths(call, 1 << 20, spec);
    outputs = spec.kind == "npy" ? spec.paths.size() : inputs; // csv: columns are dealt out to the inputs
  } else if (spec.kind == "tokens") {
    fine = tokens(call, spec);
  } else if (spec.kind == "next_token") {
    fine = nextToken(call, inputs, spec);
  } else if (spec.kind == "synthetic") {
    fine = synthetic(call, spec);
    outputs = spec.name == "tokens" ? 2 : 3;
  } else {
    mixture(call, inputs, spec.kind);
    outputs = spec.kind == "pack" ? 4 : inputs;
  }
  if (!fine)
    return std::nullopt;
  if (!wrapped && outputs != inputs && inputs) {
    std::string what = spec.kind == "synthetic" ? "synthetic(" + spec.name + ")" : spec.kind;
    error(Code::E0503, call.range,
          what + " gives " + number(outputs, "value") + ", and " + number(inputs, "input") +
              (inputs == 1 ? " is" : " are") + " to be filled; name an input for each after '->'");
  }
  return spec;
}

// `columns = (age, income)`: names, as strings where they are no words.
bool TrainResolver::columns(const Argument &a, runtime::DataSpec &spec) {
  std::vector<const Expr *> list;
  if (auto *tuple = dynCast<TupleExpr>(a.value))
    for (const ExprPtr &e : tuple->elements)
      list.push_back(e.get());
  else
    list.push_back(a.value.get());
  if (!spec.columns.empty()) {
    error(Code::E0118, a.range, "'columns' is given twice");
    return false;
  }
  for (const Expr *e : list) {
    auto *word = dynCast<PathExpr>(e);
    auto *text = dynCast<StringExpr>(e);
    if (!word && !text) {
      error(Code::E0408, e->range,
            "'columns' of csv are names, as in columns = (age, \"net income\"), not " + kindOf(*e));
      return false;
    }
    const std::string name = word ? word->path.text() : text->value;
    if (std::find(spec.columns.begin(), spec.columns.end(), name) != spec.columns.end()) {
      error(Code::E0118, e->range, "column " + quoted(name) + " is named twice");
      return false;
    }
    spec.columns.push_back(name);
  }
  return true;
}

// The files of a source that takes nothing else, `most` of them.
bool TrainResolver::paths(const CallExpr &call, size_t most, runtime::DataSpec &spec) {
  for (const Argument &a : call.arguments) {
    auto *s = dynCast<StringExpr>(a.value);
    if (spec.kind == "csv" && a.name && a.name->text == "columns") {
      if (!columns(a, spec))
        return false;
      continue;
    }
    if (a.name) {
      error(Code::E0117, a.name->range,
            spec.kind + " has no argument " + quoted(a.name->text) + "; it takes files, as in " + spec.kind +
                (spec.kind == "csv" ? "(\"PATH\"), and columns = (NAME, …)" : "(\"PATH\")"));
      return false;
    }
    if (!s) {
      error(Code::E0408, a.range, spec.kind + " takes files as strings, not " + kindOf(*a.value));
      return false;
    }
    if (s->value.empty()) {
      error(Code::E0404, a.range, "the file has no name");
      return false;
    }
    spec.paths.push_back(s->value);
  }
  const bool folder = spec.kind == "mnist" || spec.kind == "cifar10";
  if (spec.paths.empty()) {
    error(Code::E0119, call.range,
          spec.kind + (folder ? " needs a folder, as in " : " needs a file, as in ") + spec.kind + "(\"PATH\")");
    return false;
  }
  if (spec.paths.size() > most) { // of a source that has files alone
    error(Code::E0120, call.arguments[most].range, spec.kind + " takes one " + (folder ? "folder" : "file"));
    return false;
  }
  return true;
}

// `tokens("a.bin", "b.bin", bits = 16)`: the files are one stream, in their order.
bool TrainResolver::tokens(const CallExpr &call, runtime::DataSpec &spec) {
  auto isFile = [](const Argument &a) {
    return dynCast<StringExpr>(a.value) != nullptr && (!a.name || a.name->text == "file");
  };
  bool fine = true;
  for (const Argument &a : call.arguments)
    if (isFile(a)) {
      spec.paths.push_back(dynCast<StringExpr>(a.value)->value);
      if (spec.paths.back().empty()) {
        error(Code::E0404, a.range, "the file has no name");
        fine = false;
      }
    }
  std::vector<std::string> names = {"bits"};
  if (spec.paths.empty())
    names.insert(names.begin(), "file");
  Arguments args("tokens", call.range, call.arguments, names, diagnostics, isFile);
  if (spec.paths.empty())
    fine = args.require("file") && args.string("file") && fine;
  auto bits = args.whole("bits");
  const bool odd = bits && *bits != 16 && *bits != 32 && *bits != 64;
  if (odd)
    error(Code::E0404, args.rangeOf("bits"),
          "'bits' of tokens is 16, 32 or 64, not " + std::to_string(*bits) +
              (*bits == 8 ? "; text(\"FILE\") reads bytes" : ""));
  if (bits)
    spec.args = {double(*bits)};
  return fine && !odd && (bits || !args.has("bits"));
}

bool TrainResolver::nextToken(const CallExpr &call, size_t inputs, runtime::DataSpec &spec) {
  Arguments args("next_token", call.range, call.arguments, {"source", "holdout"}, diagnostics);
  auto holdout = args.number("holdout", {0, 1, true, true});
  spec.args = {holdout.value_or(0)};
  const CallExpr *inner = args.require("source") ? args.call("source") : nullptr;
  if (!inner)
    return false;
  auto child = source(*inner, inputs, true);
  if (!child)
    return false;
  if (child->kind != "mix" && gives(child->kind) != Gives::Stream) {
    error(Code::E0504, inner->range,
          "next_token cuts windows out of a stream, text(\"FILE\") or tokens(\"FILE\"); " + child->kind +
              " gives samples already" +
              (child->kind == "npy" ? "; array.astype('uint16').tofile(\"FILE\") writes a file for tokens" : ""));
    return false;
  }
  spec.children.push_back(std::move(*child));
  return holdout || !args.has("holdout");
}

bool TrainResolver::synthetic(const CallExpr &call, runtime::DataSpec &spec) {
  Arguments args("synthetic", call.range, call.arguments, {"name"}, diagnostics);
  auto name = args.require("name") ? args.word("name") : std::nullopt;
  if (!name || !oneOf({*name, args.expr("name")->range}, {"tokens", "sorted_digits"}, "synthetic data", Code::E0501))
    return false;
  spec.name = *name;
  return true;
}

// mix and pack, whose sources are checked though nothing opens them yet.
void TrainResolver::mixture(const CallExpr &call, size_t inputs, const std::string &kind) {
  double shares = 0;
  bool areKnown = true;
  for (const Argument &a : call.arguments) {
    auto *inner = dynCast<CallExpr>(a.value);
    if (!inner) {
      error(Code::E0408, a.range, kind + " takes sources, not " + kindOf(*a.value));
      continue;
    }
    if (kind == "mix" && !a.weight)
      error(Code::E0119, a.range, "each source of mix has a share, as in mix(0.7 of A, 0.3 of B)");
    if (a.weight && a.weight->kind != UnitKind::None && a.weight->kind != UnitKind::Fraction)
      wantKind(*a.weight, UnitKind::Fraction, "a share");
    shares += a.weight ? a.weight->value : 0;
    areKnown &= !a.weight || a.weight->known;
    source(*inner, inputs, true);
  }
  if (kind == "mix" && areKnown && std::abs(shares - 1) > 1e-6 && shares > 0)
    error(Code::E0404, call.range, "the shares of mix add up to 1, not " + plain(shares));
  if (call.arguments.empty())
    error(Code::E0119, call.range, kind + " needs a source");
  notBuilt(call.range, "data " + kind, kind == "mix" ? "name one source" : "next_token(…) is");
}

// `on = image`, `on = (image, mask)`: the inputs that a transform acts on.
bool TrainResolver::actsOn(const Arguments &args, const std::vector<Path> &inputs, runtime::TransformSpec &t) {
  const Expr *given = args.expr("on");
  if (!given)
    return true;
  std::vector<const Expr *> list = {given};
  if (given->kind == ExprKind::Tuple) {
    list.clear();
    for (const ExprPtr &e : cast<TupleExpr>(*given).elements)
      list.push_back(e.get());
  }
  std::vector<std::string> known;
  for (const Path &input : inputs)
    known.push_back(input.text());
  for (const Expr *e : list) {
    if (e->kind != ExprKind::Path) {
      error(Code::E0408, e->range, "'on' of " + t.kind + " are inputs, not " + kindOf(*e));
      return false;
    }
    const std::string name = cast<PathExpr>(*e).path.text();
    if (!oneOf({name, e->range}, known, "input", Code::E0505))
      return false;
    t.inputs.push_back(name);
  }
  return true;
}

// The axes that a transform acts along: words without a name.
bool TrainResolver::actsAlong(const Method &method, runtime::TransformSpec &t) {
  for (const Argument &a : method.arguments) {
    if (!isWord(a)) {
      if (t.kind != "flip" || a.name)
        continue;
      error(Code::E0408, a.range, "flip takes the axis that it mirrors, as in flip(column), not " + kindOf(*a.value));
      return false;
    }
    const std::string axis = cast<PathExpr>(*a.value).path.text();
    if (std::find(t.axes.begin(), t.axes.end(), axis) != t.axes.end()) {
      error(Code::E0118, a.range, "axis " + quoted(axis) + " is named twice");
      return false;
    }
    if (!t.axes.empty() && t.kind != "crop") {
      error(Code::E0120, a.range,
            t.kind == "flip" ? "flip mirrors one axis; for both write flip(" + t.axes[0] + "), flip(" + axis + ")"
                             : "normalize takes one axis, along which its means and standard deviations lie");
      return false;
    }
    t.axes.push_back(axis);
  }
  return true;
}

std::optional<runtime::TransformSpec> TrainResolver::transform(const Method &method, const std::vector<Path> &inputs) {
  runtime::TransformSpec t;
  t.kind = method.name.text;
  if (!oneOf(method.name, {"flip", "crop", "normalize"}, "transform", Code::E0502) || !actsAlong(method, t))
    return std::nullopt;
  auto arguments = [&](std::vector<std::string> names) {
    names.emplace_back("on");
    return Arguments(t.kind, method.range, method.arguments, names, diagnostics, isWord);
  };
  if (t.kind == "flip") {
    if (!actsOn(arguments({}), inputs, t))
      return std::nullopt;
  } else if (t.kind == "crop") {
    Arguments args = arguments({"pad"});
    auto pad = args.require("pad") ? args.whole("pad", {1, 4096, false, false}) : std::nullopt;
    if (!pad || !actsOn(args, inputs, t))
      return std::nullopt;
    t.args = {double(*pad)};
  } else {
    Arguments args = arguments({"mean", "std"});
    auto mean = args.require("mean") ? args.numbers("mean") : std::nullopt;
    auto deviation = args.require("std") ? args.numbers("std", above(0)) : std::nullopt;
    if (!mean || !deviation || !actsOn(args, inputs, t))
      return std::nullopt;
    // One number is for all channels.
    if (mean->size() == 1)
      mean->resize(deviation->size(), mean->front());
    if (deviation->size() == 1)
      deviation->resize(mean->size(), deviation->front());
    if (mean->size() != deviation->size()) {
      error(Code::E0404, method.range,
            "'mean' of normalize has " + number(mean->size(), "number") + " and 'std' " +
                std::to_string(deviation->size()) + "; one a channel each, or one each");
      return std::nullopt;
    }
    t.args = *mean;
    t.args.insert(t.args.end(), deviation->begin(), deviation->end());
  }
  return t;
}

} // namespace echelon::frontend
