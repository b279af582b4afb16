#include "frontend/fmt/TokenRoles.h"

using namespace antlr4;
using P = EchelonParser;

namespace echelon::frontend {

namespace {
// Words up to this length share a column.
constexpr size_t widestAligned = 9;

class Marker {
public:
  explicit Marker(CommonTokenStream &tokens) : tokens(tokens) {}
  TokenRoles marks;

  // Depth is that of the parse tree, which the nesting limit bounds.
  void visit(tree::ParseTree *node, bool inlined) {
    auto *rule = dynamic_cast<ParserRuleContext *>(node);
    if (!rule)
      return;
    single(rule);
    bool block = isBlock(rule);
    if (block)
      inlined = markBlock(rule, inlined);
    for (tree::ParseTree *child : rule->children) {
      auto *c = dynamic_cast<ParserRuleContext *>(child);
      if (c && (block || rule->getRuleIndex() == P::RuleFile)) {
        size_t start = c->start->getTokenIndex();
        if (isItem(c))
          (inlined ? marks.inlineStarts : marks.starts).insert(start);
      }
      visit(child, inlined);
    }
  }

private:
  static bool isItem(ParserRuleContext *c) {
    switch (c->getRuleIndex()) {
    case P::RuleStatement:
    case P::RuleClause:
    case P::RuleLayoutClause:
    case P::RuleDeviceClause:
    case P::RuleLinkPart:
    case P::RuleClusterClause:
    case P::RuleMapping:
    case P::RuleImportDecl:
    case P::RuleModel:
    case P::RuleBlock:
    case P::RuleDevice:
    case P::RuleLink:
    case P::RuleCluster:
    case P::RuleTrain:
      return true;
    }
    return false;
  }

  static Token *terminal(ParserRuleContext *c, size_t type) {
    for (tree::ParseTree *child : c->children)
      if (auto *t = dynamic_cast<tree::TerminalNode *>(child); t && t->getSymbol()->getType() == type)
        return t->getSymbol();
    return nullptr;
  }

  static bool isBlock(ParserRuleContext *c) {
    size_t rule = c->getRuleIndex();
    return (rule == P::RuleBody || rule == P::RuleTrain || rule == P::RuleDevice || rule == P::RuleLink ||
            rule == P::RuleCluster || rule == P::RuleClause || rule == P::RuleMappings) &&
           terminal(c, P::LBRACE);
  }

  bool holdsComment(Token *first, Token *last) {
    for (size_t i = first->getTokenIndex(); i < last->getTokenIndex(); ++i)
      if (tokens.get(i)->getChannel() != 0)
        return true;
    return false;
  }

  // A block on one line stays there; one inside such a block does so, too.
  bool markBlock(ParserRuleContext *c, bool inlined) {
    Token *open = terminal(c, P::LBRACE), *close = terminal(c, P::RBRACE);
    if (inlined || (open->getLine() == close->getLine() && !holdsComment(open, close)))
      return true;
    marks.openers.insert(open->getTokenIndex());
    marks.closers.insert(close->getTokenIndex());
    align(c);
    return false;
  }

  // The first words of clauses, in one column.
  void align(ParserRuleContext *block) {
    size_t widest = 0;
    std::vector<Token *> words;
    for (tree::ParseTree *child : block->children) {
      auto *c = dynamic_cast<ParserRuleContext *>(child);
      if (!c || (c->getRuleIndex() != P::RuleClause && c->getRuleIndex() != P::RuleDeviceClause &&
                 c->getRuleIndex() != P::RuleLinkPart && c->getRuleIndex() != P::RuleClusterClause))
        continue;
      if (auto *layout = dynamic_cast<P::LayoutBlockContext *>(c); layout && layout->MESH())
        continue;
      if (dynamic_cast<P::OnNanClauseContext *>(c) ||
          dynamic_cast<P::StartClauseContext *>(c)) // their first words are two
        continue;
      size_t length = c->start->getText().size();
      if (length > widestAligned)
        continue;
      words.push_back(c->start);
      widest = std::max(widest, length);
    }
    for (Token *word : words)
      marks.columns[word->getTokenIndex()] = widest;
  }

  // Roles that concern one token.
  void single(ParserRuleContext *c) {
    auto mark = [&](std::set<size_t> &set, size_t type) {
      if (Token *t = terminal(c, type))
        set.insert(t->getTokenIndex());
    };
    switch (c->getRuleIndex()) {
    case P::RuleArguments:
    case P::RuleFormals:
    case P::RuleMeshAxes:
      mark(marks.tightParens, P::LPAREN);
      break;
    case P::RuleFormal:
      mark(marks.tightColons, P::COLON);
      break;
    case P::RuleUnary:
      mark(marks.prefixes, P::MINUS);
      break;
    case P::RuleValue: {
      Token *range = terminal(c, P::RANGE);
      auto ends = static_cast<P::ValueContext *>(c)->expression();
      auto whole = [](ParserRuleContext *e) {
        return e->start == e->stop && e->getText().find_first_not_of("0123456789_") == std::string::npos;
      };
      if (range && whole(ends[0]) && whole(ends[1]))
        marks.tightRanges.insert(range->getTokenIndex());
      break;
    }
    }
  }

  CommonTokenStream &tokens;
};
} // namespace

TokenRoles rolesOfTokens(tree::ParseTree *root, CommonTokenStream &tokens) {
  Marker marker(tokens);
  marker.visit(root, false);
  return std::move(marker.marks);
}

} // namespace echelon::frontend
