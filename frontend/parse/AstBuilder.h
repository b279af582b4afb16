// From ANTLR's parse tree to the syntax tree. Statements that hold an error are left out.
#pragma once
#include "EchelonParser.h"
#include "frontend/ast/Ast.h"
#include "frontend/parse/Tokens.h"

namespace echelon::frontend {

class AstBuilder {
public:
  using P = EchelonParser;
  AstBuilder(const SourceManager &sources, const Places &places, Diagnostics &diagnostics)
      : sources(sources), places(places), diagnostics(diagnostics) {}

  /// `withErrors`: the tree may hold errors, so look for them.
  std::unique_ptr<File> build(P::FileContext *tree, FileId id, bool withErrors);

private:
  class StatementVisitor; // BuildModel.cpp
  class ClauseVisitor;    // BuildTrain.cpp

  // BuildExpr.cpp
  ExprPtr expression(P::ExpressionContext *);
  ExprPtr conjunction(P::ConjunctionContext *);
  ExprPtr negation(P::NegationContext *);
  ExprPtr comparison(P::ComparisonContext *);
  ExprPtr sum(P::SumContext *);
  ExprPtr product(P::ProductContext *);
  ExprPtr unary(P::UnaryContext *);
  ExprPtr power(P::PowerContext *);
  ExprPtr term(P::TermContext *);
  ExprPtr primary(P::PrimaryContext *);
  ExprPtr number(P::QuantityContext *);
  ExprPtr call(P::PathContext *, P::ArgumentsContext *);
  Place place(P::PlaceContext *);
  std::vector<Argument> arguments(P::ArgumentsContext *);
  std::vector<Argument> arguments(const std::vector<P::ArgumentContext *> &list);
  Argument argument(P::ArgumentContext *);
  Quantity quantity(P::QuantityContext *);
  Quantity quantity(antlr4::Token *number, antlr4::Token *unit);
  std::optional<double> numberValue(antlr4::Token *token, const std::string &digits); // nothing: told
  std::string stringValue(antlr4::tree::TerminalNode *);
  Method method(P::MethodContext *);
  Ident ident(P::NameContext *);
  Ident ident(antlr4::tree::TerminalNode *);
  std::vector<Ident> idents(const std::vector<P::NameContext *> &);
  Path path(P::PathContext *);
  std::vector<Path> paths(const std::vector<P::PathContext *> &);

  // BuildModel.cpp
  Model model(P::ModelContext *);
  Block block(P::BlockContext *);
  std::vector<Formal> formals(P::FormalsContext *);
  Body body(P::BodyContext *);
  StatementPtr statement(P::StatementContext *);
  std::vector<Ident> axes(P::AxesContext *);
  Device device(P::DeviceContext *);
  Link link(P::LinkContext *);
  Channel channel(P::ChannelContext *);
  Channel speed(P::SpeedContext *);
  Setting setting(P::SettingContext *);
  Curve curve(P::CurveContext *);
  Measurement measurement(P::MeasurementContext *);
  void append(std::vector<Setting> &list, const std::vector<P::SettingContext *> &settings);
  /// A count of things: at least 1.
  int64_t whole(antlr4::tree::TerminalNode *);
  Cluster cluster(P::ClusterContext *);
  void checkPlaces(const Body &body, bool inBlock, int repeats);

  // BuildTrain.cpp, BuildLayout.cpp
  Train train(P::TrainContext *);
  Clause clause(P::ClauseContext *);
  LayoutClause layout(P::LayoutBlockContext *);
  LayoutStatement layoutStatement(P::LayoutClauseContext *);
  SplitClause split(P::SplitClauseContext *);
  PrecisionClause precision(P::PrecisionClauseContext *);
  RecomputeClause recompute(P::RecomputePolicyContext *);
  CheckpointClause checkpoint(P::CheckpointClauseContext *);
  SearchClause search(P::SearchClauseContext *);
  QuantizeClause quantize(P::QuantizeClauseContext *);
  std::vector<Mapping> mappings(P::MappingsContext *);
  std::vector<Pattern> patterns(const std::vector<P::PatternContext *> &);
  std::vector<Ident> axisNames(P::AxisNamesContext *);
  std::vector<Path> names(P::NamesContext *);
  Count count(P::CountContext *);

  SourceRange range(antlr4::ParserRuleContext *c) const { return places.of(c->start, c->stop ? c->stop : c->start); }
  SourceRange range(antlr4::Token *first, antlr4::Token *last) const { return places.of(first, last); }
  SourceRange range(antlr4::tree::TerminalNode *n) const { return places.of(n->getSymbol()); }
  /// Does the statement hold a syntax error of its own (not one of a statement inside it)?
  bool broken(antlr4::ParserRuleContext *c) const;
  /// Were tokens skipped in this very rule?
  static bool holdsErrorNode(antlr4::ParserRuleContext *c);
  static bool leftOpen(P::TrainContext &c, size_t i);
  /// False: it is none.
  bool takeBarePattern(std::vector<Clause> &before, const Clause &clause);

  const SourceManager &sources;
  const Places &places;
  Diagnostics &diagnostics;
  bool withErrors = false;
  bool lost = false;          // a statement of the declaration at hand was left out
  bool unitsAllowed = false;  // inside device, link, cluster, train
  bool rangesAllowed = false; // inside search
};

} // namespace echelon::frontend
