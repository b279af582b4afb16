// Files, models, blocks and machines: from parse tree to syntax tree.
#include "EchelonParserBaseVisitor.h"
#include "frontend/parse/AstBuilder.h"
#include "frontend/parse/SyntaxErrors.h"
#include <cassert>
#include <cmath>

using antlr4::ParserRuleContext;
using antlr4::tree::TerminalNode;

namespace echelon::frontend {

bool AstBuilder::broken(ParserRuleContext *c) const {
  if (!withErrors)
    return false;
  if (c->exception || !c->stop)
    return true;
  for (auto *child : c->children) {
    if (dynamic_cast<antlr4::tree::ErrorNode *>(child))
      return true;
    auto *rule = dynamic_cast<ParserRuleContext *>(child);
    if (!rule)
      continue;
    size_t index = rule->getRuleIndex();
    bool own = index == P::RuleStatement || index == P::RuleClause ||
               index == P::RuleLayoutClause; // these are asked themselves
    if (index == P::RuleBody &&
        !dynamic_cast<antlr4::tree::ErrorNode *>(rule->children.empty() ? nullptr : rule->children[0]))
      own = true; // a body with errors still has its good statements
    if (!own && broken(rule))
      return true;
  }
  return false;
}

bool AstBuilder::holdsErrorNode(ParserRuleContext *c) {
  for (auto *child : c->children)
    if (dynamic_cast<antlr4::tree::ErrorNode *>(child))
      return true;
  return false;
}

std::unique_ptr<File> AstBuilder::build(P::FileContext *tree, FileId id, bool errors) {
  withErrors = errors;
  auto file = std::make_unique<File>();
  file->id = id;
  file->broken = errors;
  for (auto *child : tree->children) {
    auto *c = dynamic_cast<ParserRuleContext *>(child);
    if (!c)
      continue;
    unitsAllowed = false;
    switch (c->getRuleIndex()) {
    case P::RuleImportDecl: {
      auto *import = static_cast<P::ImportDeclContext *>(c);
      if (broken(c))
        break;
      Import i;
      i.range = range(c);
      i.isLibrary = import->name() != nullptr;
      i.name = i.isLibrary ? import->name()->getText() : stringValue(import->STRING());
      i.range = i.isLibrary ? range(import->name()) : range(import->STRING());
      file->imports.push_back(std::move(i));
      break;
    }
    case P::RuleModel: {
      auto *m = static_cast<P::ModelContext *>(c);
      if (m->name() && m->body() && !(m->formals() && broken(m->formals())))
        file->models.push_back(model(m));
      break;
    }
    case P::RuleBlock: {
      auto *b = static_cast<P::BlockContext *>(c);
      if (b->name() && b->body() && b->formals() && !broken(b->formals())) {
        file->blocks.push_back(block(b));
        file->blocks.back().file = id;
      }
      break;
    }
    case P::RuleTrain: {
      auto *t = static_cast<P::TrainContext *>(c);
      unitsAllowed = true;
      if (t->name())
        file->trains.push_back(train(t));
      break;
    }
    case P::RuleDevice:
      unitsAllowed = true;
      if (!broken(c))
        file->devices.push_back(device(static_cast<P::DeviceContext *>(c)));
      break;
    case P::RuleLink:
      unitsAllowed = true;
      if (!broken(c))
        file->links.push_back(link(static_cast<P::LinkContext *>(c)));
      break;
    case P::RuleCluster:
      unitsAllowed = true;
      if (!broken(c))
        file->clusters.push_back(cluster(static_cast<P::ClusterContext *>(c)));
      break;
    }
  }
  return file;
}

Model AstBuilder::model(P::ModelContext *c) {
  Model m;
  lost = false;
  m.name = ident(c->name());
  m.formals = formals(c->formals());
  m.range = range(c->start, c->name()->stop);
  m.body = body(c->body());
  m.end = places.of(c->body()->stop ? c->body()->stop : c->start);
  m.broken = lost || (withErrors && c->exception);
  checkPlaces(m.body, false, 0);
  return m;
}

Block AstBuilder::block(P::BlockContext *c) {
  Block b;
  lost = false;
  b.name = ident(c->name());
  b.formals = formals(c->formals());
  b.range = range(c->start, c->name()->stop);
  b.body = body(c->body());
  b.end = places.of(c->body()->stop ? c->body()->stop : c->start);
  b.broken = lost || (withErrors && c->exception);
  checkPlaces(b.body, true, 0);
  return b;
}

std::vector<Formal> AstBuilder::formals(P::FormalsContext *c) {
  std::vector<Formal> out;
  if (!c)
    return out;
  for (auto *f : c->formal()) {
    Formal formal;
    formal.name = ident(f->name());
    formal.isAxis = f->AXIS() != nullptr;
    if (f->expression())
      formal.value = expression(f->expression());
    formal.range = range(f);
    for (const Formal &other : out)
      if (other.name.text == formal.name.text)
        diagnostics.error(Code::E0103, formal.name.range, "argument '" + formal.name.text + "' is declared twice")
            .note(other.name.range, "it is declared here first");
    out.push_back(std::move(formal));
  }
  return out;
}

Body AstBuilder::body(P::BodyContext *c) {
  Body out;
  if (!c)
    return out;
  if (withErrors && (c->exception || holdsErrorNode(c)))
    lost = true;
  for (auto *s : c->statement()) {
    if (broken(s))
      lost = true;
    else
      out.push_back(statement(s));
  }
  return out;
}

std::vector<Ident> AstBuilder::axes(P::AxesContext *c) { return idents(c->name()); }

/// Makes a statement of its parse tree: one function a statement of the grammar.
class AstBuilder::StatementVisitor final : public EchelonParserBaseVisitor {
public:
  explicit StatementVisitor(AstBuilder &build) : b(build) {}
  StatementPtr of(P::StatementContext *c) {
    c->accept(this);
    assert(made && "every statement of the grammar has its function here");
    return std::move(made);
  }

private:
  /// ANTLR's functions return Any, which holds nothing that cannot be copied: the statement goes to `made`.
  antlrcpp::Any is(StatementPtr statement, SourceRange range) {
    statement->range = range;
    made = std::move(statement);
    return {};
  }

  antlrcpp::Any visitAssignStatement(P::AssignStatementContext *c) override {
    auto s = std::make_unique<AssignStatement>();
    s->name = b.ident(c->name());
    s->value = b.expression(c->expression());
    return is(std::move(s), b.range(c));
  }
  antlrcpp::Any visitAxisStatement(P::AxisStatementContext *c) override {
    auto s = std::make_unique<AxisStatement>();
    s->name = b.ident(c->name(0));
    if (c->LIKE())
      s->like = b.ident(c->name(1));
    if (c->expression())
      s->size = b.expression(c->expression());
    return is(std::move(s), b.range(c));
  }
  antlrcpp::Any visitInputStatement(P::InputStatementContext *c) override {
    auto s = std::make_unique<InputStatement>();
    auto *type = c->elementType();
    s->name = b.ident(c->name());
    s->axes = b.axes(c->axes());
    s->element = type->FLOAT() ? InputStatement::Float : type->BOOL() ? InputStatement::Bool : InputStatement::Int;
    if (type->INT())
      s->below = b.ident(type->name());
    s->typeRange = b.range(type);
    return is(std::move(s), b.range(c));
  }
  antlrcpp::Any visitParamStatement(P::ParamStatementContext *c) override {
    auto s = std::make_unique<ParamStatement>();
    s->name = b.ident(c->name());
    s->axes = b.axes(c->axes());
    s->start = b.method(c->method());
    return is(std::move(s), b.range(c));
  }
  antlrcpp::Any visitStateStatement(P::StateStatementContext *c) override {
    auto s = std::make_unique<StateStatement>();
    s->name = b.ident(c->name());
    s->axes = b.axes(c->axes());
    s->value = b.expression(c->expression());
    return is(std::move(s), b.range(c));
  }
  antlrcpp::Any visitNextStatement(P::NextStatementContext *c) override {
    auto s = std::make_unique<NextStatement>();
    s->name = b.ident(c->name());
    s->value = b.expression(c->expression());
    return is(std::move(s), b.range(c));
  }
  antlrcpp::Any visitRandomStatement(P::RandomStatementContext *c) override {
    auto s = std::make_unique<RandomStatement>();
    s->name = b.ident(c->name());
    s->axes = b.axes(c->axes());
    s->distribution = b.method(c->method());
    return is(std::move(s), b.range(c));
  }
  antlrcpp::Any visitRepeatStatement(P::RepeatStatementContext *c) override {
    auto s = std::make_unique<RepeatStatement>();
    s->axis = b.ident(c->name());
    s->count = b.expression(c->expression());
    s->body = b.body(c->body());
    s->end = endOf(c->body());
    return is(std::move(s), b.range(c->start, c->expression()->stop));
  }
  antlrcpp::Any visitAlongStatement(P::AlongStatementContext *c) override {
    auto s = std::make_unique<RepeatAlongStatement>();
    s->axis = b.ident(c->name());
    s->body = b.body(c->body());
    s->end = endOf(c->body());
    return is(std::move(s), b.range(c->start, c->name()->stop));
  }
  antlrcpp::Any visitIfStatement(P::IfStatementContext *c) override {
    auto s = std::make_unique<IfStatement>();
    for (auto *branch : c->branch())
      s->branches.push_back({b.expression(branch->expression()), b.body(branch->body())});
    if (c->body())
      s->otherwise = b.body(c->body());
    return is(std::move(s), b.range(c->start, c->branch(0)->expression()->stop));
  }
  antlrcpp::Any visitLossStatement(P::LossStatementContext *c) override {
    auto s = std::make_unique<LossStatement>();
    if (c->name())
      s->name = b.ident(c->name());
    s->value = b.expression(c->expression());
    return is(std::move(s), b.range(c));
  }
  antlrcpp::Any visitMetricStatement(P::MetricStatementContext *c) override {
    auto s = std::make_unique<MetricStatement>();
    s->name = b.ident(c->name());
    s->value = b.expression(c->expression());
    return is(std::move(s), b.range(c));
  }
  antlrcpp::Any visitReturnStatement(P::ReturnStatementContext *c) override {
    auto s = std::make_unique<ReturnStatement>();
    s->value = b.expression(c->expression());
    return is(std::move(s), b.range(c));
  }

  SourceRange endOf(P::BodyContext *body) { return b.places.of(body->stop ? body->stop : body->start); }

  AstBuilder &b;
  StatementPtr made;
};

StatementPtr AstBuilder::statement(P::StatementContext *c) { return StatementVisitor(*this).of(c); }

// Statements that are where they cannot mean anything.
void AstBuilder::checkPlaces(const Body &body, bool inBlock, int repeats) {
  for (size_t i = 0; i < body.size(); ++i) {
    const Statement &s = *body[i];
    if (s.kind == StatementKind::Return) {
      if (!inBlock)
        diagnostics.error(Code::E0018, s.range, "'return' ends a block; a model has losses and metrics instead");
      else if (repeats)
        diagnostics.error(Code::E0018, s.range,
                          "'return' cannot be inside 'repeat'; assign to a name and return it after the loop");
      else if (i + 1 < body.size())
        diagnostics.error(Code::E0018, body[i + 1]->range, "nothing after 'return' is reached");
    } else if (s.kind == StatementKind::Input && (inBlock || repeats)) {
      diagnostics.error(Code::E0018, s.range, "an input belongs to the model itself, not to a block or a repeat");
    } else if (auto *repeat = dynCast<RepeatStatement>(&s)) {
      checkPlaces(repeat->body, inBlock, repeats + 1);
    } else if (auto *along = dynCast<RepeatAlongStatement>(&s)) {
      checkPlaces(along->body, inBlock, repeats + 1);
    } else if (auto *branches = dynCast<IfStatement>(&s)) {
      for (const auto &branch : branches->branches)
        checkPlaces(branch.body, inBlock, repeats);
      if (branches->otherwise)
        checkPlaces(*branches->otherwise, inBlock, repeats);
    }
  }
}

// ---- machines

Setting AstBuilder::setting(P::SettingContext *c) { return {ident(c->name()), std::nullopt, quantity(c->quantity())}; }

void AstBuilder::append(std::vector<Setting> &list, const std::vector<P::SettingContext *> &settings) {
  for (auto *c : settings)
    list.push_back(setting(c));
}

Curve AstBuilder::curve(P::CurveContext *c) {
  Curve out{ident(c->name()), c->NUMBER() ? whole(c->NUMBER()) : 0, {}, range(c)};
  for (auto *point : c->point())
    out.points.push_back({quantity(point->quantity(0)), quantity(point->quantity(1))});
  return out;
}

Measurement AstBuilder::measurement(P::MeasurementContext *c) {
  Measurement out{stringValue(c->STRING(0)), stringValue(c->STRING(1)), {}, range(c->STRING(0)), range(c)};
  append(out.settings, c->setting());
  return out;
}

Device AstBuilder::device(P::DeviceContext *c) {
  Device d;
  d.name = ident(c->name());
  d.range = range(c->start, c->name()->stop);
  if (c->path())
    d.base = path(c->path());
  auto twice = [&](ParserRuleContext *clause) {
    diagnostics.error(Code::E0402, places.of(clause->start),
                      "'" + clause->start->getText() + "' is given twice in device '" + d.name.text + "'");
  };
  for (auto *clause : c->deviceClause()) {
    if (auto *memory = dynamic_cast<P::MemoryClauseContext *>(clause)) {
      if (d.memory) {
        twice(clause);
        continue;
      }
      d.memory = quantity(memory->quantity(0));
      d.bandwidth = quantity(memory->quantity(1));
    } else if (auto *peaks = dynamic_cast<P::PeakClauseContext *>(clause)) {
      for (auto *peak : peaks->setting())
        d.peaks.push_back({ident(peak->name()), quantity(peak->quantity())});
    } else if (auto *of = dynamic_cast<P::EfficiencyClauseContext *>(clause)) {
      for (auto *e : of->efficiency())
        d.efficiency.push_back(
            {ident(e->name(0)), e->name(1) ? std::optional(ident(e->name(1))) : std::nullopt, quantity(e->quantity())});
    } else if (auto *passes = dynamic_cast<P::PassesClauseContext *>(clause)) {
      append(d.passes, passes->setting());
    } else if (auto *response = dynamic_cast<P::ResponseClauseContext *>(clause)) {
      append(d.response, response->setting());
    } else if (auto *measured = dynamic_cast<P::CurveClauseContext *>(clause)) {
      d.curves.push_back(curve(measured->curve()));
    } else if (auto *when = dynamic_cast<P::MeasuredClauseContext *>(clause)) {
      if (d.measured)
        twice(clause);
      else
        d.measured = measurement(when->measurement());
    }
  }
  return d;
}

int64_t AstBuilder::whole(TerminalNode *n) {
  double value = numberValue(n->getSymbol(), n->getText()).value_or(1);
  if (value < 1 || value > 1e9 || value != std::floor(value)) {
    diagnostics.error(Code::E0404, range(n), "a whole number of at least 1 belongs here, not " + escaped(n->getText()));
    value = 1;
  }
  return int64_t(value);
}

Channel AstBuilder::channel(P::ChannelContext *c) {
  if (c->speed())
    return speed(c->speed());
  Channel out;
  out.range = range(c);
  out.named = path(c->path());
  return out;
}

Channel AstBuilder::speed(P::SpeedContext *c) {
  Channel out;
  out.range = range(c);
  if (c->NUMBER())
    out.lanes = whole(c->NUMBER());
  out.bandwidth = quantity(c->quantity(0));
  out.latency = quantity(c->quantity(1));
  return out;
}

Link AstBuilder::link(P::LinkContext *c) {
  Link out;
  out.name = ident(c->name());
  out.channel = channel(c->channel());
  out.range = range(c->start, c->name()->stop);
  auto twice = [&](ParserRuleContext *clause) {
    diagnostics.error(Code::E0402, places.of(clause->start),
                      "'" + clause->start->getText() + "' is given twice in link '" + out.name.text + "'");
  };
  for (auto *clause : c->linkPart()) {
    if (auto *at = dynamic_cast<P::SpeedClauseContext *>(clause)) {
      if (out.speed)
        twice(clause);
      else
        out.speed = speed(at->speed());
    } else if (auto *response = dynamic_cast<P::LinkResponseClauseContext *>(clause)) {
      append(out.response, response->setting());
    } else if (auto *n = dynamic_cast<P::ProtocolClauseContext *>(clause)) {
      out.protocols.push_back({ident(n->name()), {}, range(n)});
      append(out.protocols.back().settings, n->setting());
    } else if (auto *measured = dynamic_cast<P::LinkCurveClauseContext *>(clause)) {
      out.curves.push_back(curve(measured->curve()));
    } else if (auto *when = dynamic_cast<P::LinkMeasuredClauseContext *>(clause)) {
      if (out.measured)
        twice(clause);
      else
        out.measured = measurement(when->measurement());
    }
  }
  return out;
}

Cluster AstBuilder::cluster(P::ClusterContext *c) {
  Cluster out;
  out.name = ident(c->name());
  out.range = range(c->start, c->name()->stop);
  if (c->path()) {
    out.maker = path(c->path());
    out.arguments = arguments(c->arguments());
    return out;
  }
  // A clause given twice is reported, and the first one counts.
  auto once = [&](auto &slot, auto value, ParserRuleContext *clause) {
    if (slot)
      diagnostics.error(Code::E0402, places.of(clause->start),
                        "'" + clause->start->getText() + "' is given twice in cluster '" + out.name.text + "'");
    else
      slot = std::move(value);
  };
  for (auto *clause : c->clusterClause()) {
    if (auto *n = dynamic_cast<P::NodesClauseContext *>(clause))
      once(out.nodes, Cluster::Nodes{whole(n->NUMBER(0)), whole(n->NUMBER(1)), path(n->path()), range(n)}, clause);
    else if (auto *n = dynamic_cast<P::LinkClauseContext *>(clause))
      once(out.link, channel(n->channel()), clause);
    else if (auto *n = dynamic_cast<P::NetworkClauseContext *>(clause))
      once(out.network, channel(n->channel()), clause);
    else if (auto *n = dynamic_cast<P::TierClauseContext *>(clause))
      out.tiers.push_back({ident(n->name()), whole(n->NUMBER()), channel(n->channel()), range(n)});
    else if (auto *n = dynamic_cast<P::StorageClauseContext *>(clause))
      once(out.storage, quantity(n->quantity()), clause);
    else if (auto *n = dynamic_cast<P::MtbfClauseContext *>(clause))
      once(out.mtbf, quantity(n->quantity()), clause);
    else if (auto *n = dynamic_cast<P::PriceClauseContext *>(clause))
      once(out.price, quantity(n->quantity()), clause);
  }
  return out;
}

} // namespace echelon::frontend
