// Train blocks: from parse tree to syntax tree.
#include "frontend/parse/AstBuilder.h"
#include <algorithm>
#include <charconv>
#include <cmath>

using antlr4::ParserRuleContext;

namespace echelon::frontend {

Train AstBuilder::train(P::TrainContext *c) {
  Train t;
  t.name = ident(c->name());
  t.range = range(c->start, c->name()->stop);
  t.end = places.of(c->stop ? c->stop : c->start);
  t.broken = withErrors && (c->exception || holdsErrorNode(c));
  P::ClauseContext *kept = nullptr; // the last that became a clause
  for (size_t i = 0; i < c->children.size(); ++i) {
    auto *part = dynamic_cast<P::ClauseContext *>(c->children[i]);
    if (!part)
      continue;
    if (broken(part) || leftOpen(*c, i)) {
      t.broken = true;
      continue;
    }
    lost = false;
    Clause made = clause(part);
    t.broken |= lost;
    const bool goesOn = i && c->children[i - 1] == kept && kept->stop->getLine() == part->start->getLine();
    if (goesOn && takeBarePattern(t.clauses, made)) {
      t.broken = true;
      continue;
    }
    t.clauses.push_back(std::move(made));
    kept = part;
  }
  return t;
}

/// `optimize sgd(lr = 0.1) on head.w` in one line, which reads as a clause `on` behind it; tells so, and takes
/// it for a pattern.
bool AstBuilder::takeBarePattern(std::vector<Clause> &before, const Clause &clause) {
  const auto *on = std::get_if<OnClause>(&clause.what);
  auto *optimize = before.empty() ? nullptr : std::get_if<OptimizeClause>(&before.back().what);
  if (!on || on->hasArguments || !optimize || !optimize->patterns.empty())
    return false;
  diagnostics.error(Code::E0010, clause.range,
                    "patterns stand in parentheses, as in on (" + escaped(on->cluster.text()) +
                        "), and a cluster in a line of its own");
  optimize->patterns.push_back({on->cluster.text(), on->cluster.range});
  return true;
}

/// Whether what was skipped goes on behind a clause in its line, as the unit of `steps 5 s`: nothing follows from it.
bool AstBuilder::leftOpen(P::TrainContext &c, size_t i) {
  auto *skipped = i + 1 < c.children.size() ? dynamic_cast<antlr4::tree::ErrorNode *>(c.children[i + 1]) : nullptr;
  auto *clause = static_cast<ParserRuleContext *>(c.children[i]);
  return skipped && clause->stop && skipped->getSymbol()->getLine() == clause->stop->getLine();
}

Clause AstBuilder::clause(P::ClauseContext *c) {
  Ident word{c->start->getText(), places.of(c->start)};
  SourceRange whole = range(c);
  rangesAllowed = dynamic_cast<P::SearchClauseContext *>(c) != nullptr;
  Clause out{clauseBody(c), word, whole};
  rangesAllowed = false;
  return out;
}

Clause::What AstBuilder::clauseBody(P::ClauseContext *c) {
  if (auto *n = dynamic_cast<P::ModelClauseContext *>(c))
    return ModelClause{path(n->path()), arguments(n->arguments())};
  if (auto *n = dynamic_cast<P::OnClauseContext *>(c))
    return OnClause{path(n->path()), n->arguments() != nullptr, arguments(n->arguments())};
  if (auto *n = dynamic_cast<P::OnNanClauseContext *>(c)) {
    OnNanClause out;
    out.action = n->SKIP_WORD() ? OnNanClause::Skip : n->ROLL() ? OnNanClause::RollBack : OnNanClause::Stop;
    if (n->count())
      out.upTo = count(n->count());
    return out;
  }
  if (auto *n = dynamic_cast<P::DataClauseContext *>(c)) {
    DataClause out;
    out.source = call(n->path(), n->arguments());
    out.inputs = names(n->names());
    for (auto *m : n->method())
      out.transforms.push_back(method(m));
    return out;
  }
  if (auto *n = dynamic_cast<P::BatchClauseContext *>(c)) {
    BatchClause out;
    out.size = count(n->count(0));
    if (n->count().size() == 2)
      out.micro = count(n->count(1));
    return out;
  }
  if (auto *n = dynamic_cast<P::LengthClauseContext *>(c))
    return LengthClause{n->STEPS()    ? LengthClause::Steps
                        : n->EPOCHS() ? LengthClause::Epochs
                                      : LengthClause::Samples,
                        count(n->count())};
  if (auto *n = dynamic_cast<P::UntilClauseContext *>(c))
    return UntilClause{expression(n->expression())};
  if (auto *n = dynamic_cast<P::OptimizeClauseContext *>(c))
    return OptimizeClause{method(n->method()),
                          n->onPatterns() ? patterns(n->onPatterns()->pattern()) : std::vector<Pattern>()};
  if (auto *n = dynamic_cast<P::AverageClauseContext *>(c))
    return AverageClause{method(n->method())};
  if (auto *n = dynamic_cast<P::EvaluateClauseContext *>(c)) {
    EvaluateClause out;
    if (n->name()) {
      out.name = ident(n->name());
      out.source = call(n->path(), n->arguments());
    }
    out.every = count(n->count(0));
    if (n->count().size() == 2)
      out.batches = count(n->count(1));
    return out;
  }
  if (auto *n = dynamic_cast<P::SeedClauseContext *>(c))
    return SeedClause{count(n->count())};
  if (auto *n = dynamic_cast<P::LayoutBlockContext *>(c))
    return layout(n);
  if (auto *n = dynamic_cast<P::SyncClauseContext *>(c)) {
    SyncClause out;
    out.everyStep = n->EVERY() != nullptr;
    if (n->method())
      out.method = method(n->method());
    if (n->meshNames())
      out.over = axisNames(n->meshNames()->axisNames());
    return out;
  }
  if (auto *n = dynamic_cast<P::PrecisionClauseContext *>(c))
    return precision(n);
  if (auto *n = dynamic_cast<P::CompressClauseContext *>(c))
    return CompressClause{ident(n->name()),
                          n->meshNames() ? axisNames(n->meshNames()->axisNames()) : std::vector<Ident>(),
                          method(n->method()), n->FEEDBACK() != nullptr};
  if (auto *n = dynamic_cast<P::RecomputeClauseContext *>(c))
    return recompute(n->recomputePolicy());
  if (auto *n = dynamic_cast<P::CheckpointClauseContext *>(c))
    return checkpoint(n);
  if (auto *n = dynamic_cast<P::ExportClauseContext *>(c))
    return ExportClause{stringValue(n->STRING()), range(n->STRING()), mappings(n->mappings())};
  if (auto *n = dynamic_cast<P::RestartClauseContext *>(c))
    return RestartClause{count(n->count())};
  if (auto *n = dynamic_cast<P::ElasticClauseContext *>(c))
    return ElasticClause{ident(n->name()), count(n->count(0)), count(n->count(1))};
  if (auto *n = dynamic_cast<P::AdaptClauseContext *>(c))
    return AdaptClause{method(n->method()), patterns(n->onPatterns()->pattern())};
  if (auto *n = dynamic_cast<P::FreezeClauseContext *>(c))
    return FreezeClause{patterns(n->patterns()->pattern())};
  if (auto *n = dynamic_cast<P::QuantizeClauseContext *>(c))
    return quantize(n);
  if (auto *n = dynamic_cast<P::PruneClauseContext *>(c))
    return PruneClause{method(n->method()),
                       n->onPatterns() ? patterns(n->onPatterns()->pattern()) : std::vector<Pattern>()};
  if (auto *n = dynamic_cast<P::StartClauseContext *>(c)) {
    StartClause out{stringValue(n->STRING()), range(n->STRING()), mappings(n->mappings()), {}, {}};
    auto lists = n->patterns();
    if (n->NEW())
      out.fresh = patterns(lists.front()->pattern());
    if (n->SKIP_WORD())
      out.skip = patterns(lists.back()->pattern());
    return out;
  }
  if (auto *n = dynamic_cast<P::SearchClauseContext *>(c))
    return search(n);
  auto *n = static_cast<P::GoalClauseContext *>(c);
  return GoalClause{n->MAXIMIZE() != nullptr, path(n->path())};
}

PrecisionClause AstBuilder::precision(P::PrecisionClauseContext *c) {
  using Item = PrecisionClause::Item;
  PrecisionClause out;
  for (auto *part : c->precisionItem()) {
    Item item;
    item.range = range(part);
    item.what = part->COMPUTE()  ? Item::Compute
                : part->PARAMS() ? Item::Params
                : part->REDUCE() ? Item::Reduce
                : part->KEEP()   ? Item::Keep
                : part->SCALE()  ? Item::Scale
                                 : Item::All;
    if (part->nameList())
      item.kept = paths(part->nameList()->path());
    if (part->NUMBER())
      item.factor = numberValue(part->NUMBER()->getSymbol(), part->NUMBER()->getText()).value_or(1);
    if (part->NAME())
      item.word = ident(part->NAME());
    out.items.push_back(std::move(item));
  }
  return out;
}

RecomputeClause AstBuilder::recompute(P::RecomputePolicyContext *c) {
  RecomputeClause out;
  if (c->FULL()) {
    out.policy = RecomputeClause::Full;
  } else if (c->EVERY()) {
    out.policy = RecomputeClause::Every;
    out.every = count(c->count());
    out.axis = ident(c->name());
  } else if (c->KEEP()) {
    out.policy = RecomputeClause::Keep;
    out.keep = names(c->names());
  } else if (c->AUTO()) {
    out.policy = RecomputeClause::Auto;
    if (c->quantity())
      out.within = quantity(c->quantity());
  }
  return out;
}

CheckpointClause AstBuilder::checkpoint(P::CheckpointClauseContext *c) {
  CheckpointClause out;
  out.isAuto = c->AUTO() != nullptr;
  if (auto *period = c->period()) {
    if (period->count())
      out.steps = count(period->count());
    else
      out.period = quantity(period->start, period->stop != period->start ? period->stop : nullptr);
  }
  if (c->STRING()) {
    out.folder = stringValue(c->STRING());
    out.folderRange = range(c->STRING());
  }
  if (c->count())
    out.keep = count(c->count());
  return out;
}

QuantizeClause AstBuilder::quantize(P::QuantizeClauseContext *c) {
  QuantizeClause out;
  for (auto *part : c->quantizeItem()) {
    QuantizeClause::Item item{ident(part->name(0)), ident(part->name(1)), std::nullopt, !part->ASYMMETRIC(),
                              range(part)};
    if (part->PER())
      item.per = ident(part->name(2));
    out.items.push_back(std::move(item));
  }
  if (c->count())
    out.fromStep = count(c->count());
  return out;
}

SearchClause AstBuilder::search(P::SearchClauseContext *c) {
  SearchClause out;
  for (auto *part : c->searchItem()) {
    SearchClause::Item item;
    item.path = path(part->path());
    item.range = range(part);
    if (part->name())
      item.scale = Method{ident(part->name()), arguments(part->arguments()),
                          join(range(part->name()), range(part->arguments()))};
    else
      item.values = arguments(part->argument());
    out.items.push_back(std::move(item));
  }
  if (c->method())
    out.with = method(c->method());
  return out;
}

std::vector<Mapping> AstBuilder::mappings(P::MappingsContext *c) {
  std::vector<Mapping> out;
  if (!c)
    return out;
  for (auto *part : c->mapping()) {
    Mapping m{stringValue(part->STRING()), range(part->STRING()), {}, names(part->names()), range(part)};
    for (auto *group : part->group())
      m.axes.push_back(idents(group->name()));
    out.push_back(std::move(m));
  }
  return out;
}

std::vector<Pattern> AstBuilder::patterns(const std::vector<P::PatternContext *> &list) {
  std::vector<Pattern> out;
  for (auto *p : list)
    out.push_back({p->getText(), range(p)});
  return out;
}

std::vector<Path> AstBuilder::names(P::NamesContext *c) {
  return paths(c->nameList() ? c->nameList()->path() : c->path());
}

// `8 * 64`, `2^16`, `2 * 3^2`: powers first, from the right.
Count AstBuilder::count(P::CountContext *c) {
  constexpr double most = 9007199254740992.0; // 2^53
  Count out{1, range(c)};
  std::vector<double> numbers;
  for (auto *n : c->NUMBER()) {
    const std::optional<double> read = numberValue(n->getSymbol(), n->getText());
    if (!read) {
      out.known = false;
      return out;
    }
    const double value = *read;
    if (value != std::floor(value)) {
      diagnostics.error(Code::E0404, range(n), "a whole number stands here, not " + escaped(n->getText()));
      out.known = false;
      return out;
    }
    numbers.push_back(value);
  }
  double product = 1, power = numbers.back();
  for (size_t i = numbers.size() - 1; i-- > 0;) {
    if (c->children[2 * i + 1]->getText() == "^") {
      power = std::pow(numbers[i], power);
    } else {
      product *= power;
      power = numbers[i];
    }
  }
  product *= power;
  std::string digits = c->getText();
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  int64_t exact = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), exact);
  const bool rounded = read.ptr == digits.data() + digits.size() && exact > int64_t(most); // 2^53 + 1, as a double 2^53
  if (!(product <= most) || rounded) {
    diagnostics.error(Code::E0704, out.range, "the number is too large; counts go up to 2^53");
    out.known = false;
    return out;
  }
  out.value = int64_t(product);
  return out;
}

} // namespace echelon::frontend
