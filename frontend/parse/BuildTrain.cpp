// Train blocks: from parse tree to syntax tree.
#include "EchelonParserBaseVisitor.h"
#include "frontend/parse/AstBuilder.h"
#include <algorithm>
#include <cassert>
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

/// `optimize sgd(lr = 0.1) on head.w` in one line, which reads as a clause `on` after it; tells so, and takes
/// it for a pattern.
bool AstBuilder::takeBarePattern(std::vector<Clause> &before, const Clause &clause) {
  const auto *on = std::get_if<OnClause>(&clause.what);
  auto *optimize = before.empty() ? nullptr : std::get_if<OptimizeClause>(&before.back().what);
  if (!on || on->hasArguments || !optimize || !optimize->patterns.empty())
    return false;
  diagnostics.error(Code::E0010, clause.range,
                    "patterns are written in parentheses, as in on (" + escaped(on->cluster.text()) +
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

/// Makes what a clause says of its parse tree: one function a clause of the grammar.
class AstBuilder::ClauseVisitor final : public EchelonParserBaseVisitor {
public:
  explicit ClauseVisitor(AstBuilder &build) : b(build) {}
  Clause::What of(P::ClauseContext *c) {
    c->accept(this);
    assert(made && "every clause of the grammar has its function here");
    return std::move(*made);
  }

private:
  /// ANTLR's functions return Any, which holds nothing that cannot be copied: the clause goes to `made`.
  antlrcpp::Any is(Clause::What clause) {
    made = std::move(clause);
    return {};
  }

  antlrcpp::Any visitModelClause(P::ModelClauseContext *c) override {
    return is(ModelClause{b.path(c->path()), b.arguments(c->arguments())});
  }
  antlrcpp::Any visitOnClause(P::OnClauseContext *c) override {
    return is(OnClause{b.path(c->path()), c->arguments() != nullptr, b.arguments(c->arguments())});
  }
  antlrcpp::Any visitOnNanClause(P::OnNanClauseContext *c) override {
    OnNanClause out;
    out.action = c->SKIP_WORD() ? OnNanClause::Skip : c->ROLL() ? OnNanClause::RollBack : OnNanClause::Stop;
    if (c->count())
      out.upTo = b.count(c->count());
    return is(std::move(out));
  }
  antlrcpp::Any visitDataClause(P::DataClauseContext *c) override {
    DataClause out;
    out.source = b.call(c->path(), c->arguments());
    out.inputs = b.names(c->names());
    for (auto *m : c->method())
      out.transforms.push_back(b.method(m));
    return is(std::move(out));
  }
  antlrcpp::Any visitBatchClause(P::BatchClauseContext *c) override {
    BatchClause out;
    out.size = b.count(c->count(0));
    if (c->count().size() == 2)
      out.micro = b.count(c->count(1));
    return is(std::move(out));
  }
  antlrcpp::Any visitLengthClause(P::LengthClauseContext *c) override {
    return is(LengthClause{c->STEPS()    ? LengthClause::Steps
                           : c->EPOCHS() ? LengthClause::Epochs
                                         : LengthClause::Samples,
                           b.count(c->count())});
  }
  antlrcpp::Any visitUntilClause(P::UntilClauseContext *c) override {
    return is(UntilClause{b.expression(c->expression())});
  }
  antlrcpp::Any visitOptimizeClause(P::OptimizeClauseContext *c) override {
    return is(OptimizeClause{b.method(c->method()), patterns(c->onPatterns())});
  }
  antlrcpp::Any visitAverageClause(P::AverageClauseContext *c) override {
    return is(AverageClause{b.method(c->method())});
  }
  antlrcpp::Any visitEvaluateClause(P::EvaluateClauseContext *c) override {
    EvaluateClause out;
    if (c->name()) {
      out.name = b.ident(c->name());
      out.source = b.call(c->path(), c->arguments());
    }
    out.every = b.count(c->count(0));
    if (c->count().size() == 2)
      out.batches = b.count(c->count(1));
    return is(std::move(out));
  }
  antlrcpp::Any visitSeedClause(P::SeedClauseContext *c) override { return is(SeedClause{b.count(c->count())}); }
  antlrcpp::Any visitLayoutBlock(P::LayoutBlockContext *c) override { return is(b.layout(c)); }
  antlrcpp::Any visitSyncClause(P::SyncClauseContext *c) override {
    SyncClause out;
    out.everyStep = c->EVERY() != nullptr;
    if (c->method())
      out.method = b.method(c->method());
    out.over = meshAxes(c->meshNames());
    return is(std::move(out));
  }
  antlrcpp::Any visitPrecisionClause(P::PrecisionClauseContext *c) override { return is(b.precision(c)); }
  antlrcpp::Any visitCompressClause(P::CompressClauseContext *c) override {
    Ident what = b.ident(c->name());
    std::vector<Ident> over = meshAxes(c->meshNames());
    return is(CompressClause{std::move(what), std::move(over), b.method(c->method()), c->FEEDBACK() != nullptr});
  }
  antlrcpp::Any visitRecomputeClause(P::RecomputeClauseContext *c) override {
    return is(b.recompute(c->recomputePolicy()));
  }
  antlrcpp::Any visitCheckpointClause(P::CheckpointClauseContext *c) override { return is(b.checkpoint(c)); }
  antlrcpp::Any visitExportClause(P::ExportClauseContext *c) override {
    return is(ExportClause{b.stringValue(c->STRING()), b.range(c->STRING()), b.mappings(c->mappings())});
  }
  antlrcpp::Any visitRestartClause(P::RestartClauseContext *c) override {
    return is(RestartClause{b.count(c->count())});
  }
  antlrcpp::Any visitElasticClause(P::ElasticClauseContext *c) override {
    return is(ElasticClause{b.ident(c->name()), b.count(c->count(0)), b.count(c->count(1))});
  }
  antlrcpp::Any visitAdaptClause(P::AdaptClauseContext *c) override {
    return is(AdaptClause{b.method(c->method()), patterns(c->onPatterns())});
  }
  antlrcpp::Any visitFreezeClause(P::FreezeClauseContext *c) override {
    return is(FreezeClause{b.patterns(c->patterns()->pattern())});
  }
  antlrcpp::Any visitQuantizeClause(P::QuantizeClauseContext *c) override { return is(b.quantize(c)); }
  antlrcpp::Any visitPruneClause(P::PruneClauseContext *c) override {
    return is(PruneClause{b.method(c->method()), patterns(c->onPatterns())});
  }
  antlrcpp::Any visitStartClause(P::StartClauseContext *c) override {
    StartClause out{b.stringValue(c->STRING()), b.range(c->STRING()), b.mappings(c->mappings()), {}, {}};
    auto lists = c->patterns();
    if (c->NEW())
      out.fresh = b.patterns(lists.front()->pattern());
    if (c->SKIP_WORD())
      out.skip = b.patterns(lists.back()->pattern());
    return is(std::move(out));
  }
  antlrcpp::Any visitSearchClause(P::SearchClauseContext *c) override { return is(b.search(c)); }
  antlrcpp::Any visitGoalClause(P::GoalClauseContext *c) override {
    return is(GoalClause{c->MAXIMIZE() != nullptr, b.path(c->path())});
  }

  std::vector<Pattern> patterns(P::OnPatternsContext *c) {
    return c ? b.patterns(c->pattern()) : std::vector<Pattern>();
  }
  std::vector<Ident> meshAxes(P::MeshNamesContext *c) { return c ? b.axisNames(c->axisNames()) : std::vector<Ident>(); }

  AstBuilder &b;
  std::optional<Clause::What> made;
};

Clause AstBuilder::clause(P::ClauseContext *c) {
  Ident word{c->start->getText(), places.of(c->start)};
  SourceRange whole = range(c);
  rangesAllowed = dynamic_cast<P::SearchClauseContext *>(c) != nullptr;
  Clause out{ClauseVisitor(*this).of(c), word, whole};
  rangesAllowed = false;
  return out;
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
    item.kept = patterns(part->pattern());
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
      diagnostics.error(Code::E0404, range(n), "a whole number belongs here, not " + escaped(n->getText()));
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
