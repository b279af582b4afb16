#include "frontend/parse/SyntaxErrors.h"
#include "frontend/ForeignWords.h"
#include <InputMismatchException.h>
#include <NoViableAltException.h>
#include <algorithm>
#include <atn/ATN.h>
#include <map>

using namespace antlr4;
using P = EchelonParser;

namespace echelon::frontend {

namespace {
bool isTop(size_t t) {
  return t == P::MODEL || t == P::BLOCK || t == P::DEVICE || t == P::CLUSTER || t == P::TRAIN || t == P::IMPORT ||
         t == P::LINK;
}

bool isLayoutWord(size_t t) { return t == P::SPLIT || t == P::STORE || t == P::OFFLOAD || t == P::COLLECTIVE; }

bool isClauseWord(size_t t) {
  return (t >= P::ON && t <= P::MAXIMIZE) || t == P::MODEL; // in the order of the lexer
}

// Words with which a statement of a model begins, and few values are named.
bool isStatementWord(size_t t) {
  return t == P::INPUT || t == P::LOSS || t == P::METRIC || t == P::STATE || t == P::RANDOM || isReserved(t);
}

bool isMachineRule(size_t rule) { return rule == P::RuleDevice || rule == P::RuleLink || rule == P::RuleCluster; }

bool isPlaceRule(size_t rule) { return rule == P::RulePlace || rule == P::RulePlaceNames; }

bool isComparison(size_t t) { return t == P::EQ || t == P::NE || t == P::LT || t == P::LE || t == P::GT || t == P::GE; }

bool contains(const std::vector<std::string> &list, const char *what) {
  return std::find(list.begin(), list.end(), what) != list.end();
}

std::string shown(Token *token) {
  if (token->getType() == Token::EOF)
    return "the end of the file";
  if (token->getType() == P::STRING)
    return "string " + escaped(token->getText());
  return "'" + escaped(token->getText()) + "'";
}

// The words among a set of tokens, as did-you-mean candidates.
std::vector<std::string> words(Parser *parser, const misc::IntervalSet &set) {
  std::vector<std::string> out;
  for (ssize_t token : set.toList()) {
    std::string literal = parser->getVocabulary().getLiteralName(size_t(token)); // 'axis', in quotes
    if (literal.size() > 4 && std::isalpha(static_cast<unsigned char>(literal[1])))
      out.push_back(literal.substr(1, literal.size() - 2));
  }
  return out;
}

// Behind `batch N in`: what a number there may have meant.
std::string microBatches(Token *count, Token *samples) {
  const std::string form = "; what is said is how many samples a rank takes at once, as in batch ";
  auto number = [](Token *token) {
    const std::string text = token ? token->getText() : "";
    bool digits = !text.empty() && text.size() < 10 &&
                  std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
    return digits ? std::stoll(text) : 0;
  };
  const long long parts = number(count), all = number(samples);
  if (parts < 1 || all < 1 || all % parts)
    return form + "64 in micro batches of 8";
  return form + std::to_string(all) + " in micro batches of " + std::to_string(all / parts) + ": on one rank " +
         std::to_string(parts) + " of them are a step";
}

size_t columnOf(RuleContext *context) {
  for (; context; context = static_cast<RuleContext *>(context->parent)) {
    auto *c = static_cast<ParserRuleContext *>(context);
    if (isStatementRule(c->getRuleIndex()) && c->start)
      return c->start->getCharPositionInLine();
  }
  return 0;
}
} // namespace

// Where the parser stands when it meets an error.
struct SyntaxErrors::Situation {
  Parser *parser;
  TokenStream &tokens;
  Token *at, *before;                // the offending token; the one before it, or null
  ParserRuleContext *context;        // the innermost rule
  ParserRuleContext *statement;      // the innermost statement, clause or declaration, or null
  std::vector<std::string> expected; // empty when unknown
  misc::IntervalSet set;             // the same as tokens

  bool first(Token *token) const { return startsLine(tokens, token); }
  bool atName() const { return isWord(at); }
  // Only `NAME =` was read, and no '=' follows.
  bool lacksAssign() const {
    return statement && statement->getRuleIndex() == P::RuleStatement && before == statement->start &&
           expected.size() == 1 && expected[0] == "'='";
  }
};

Diagnostic &SyntaxErrors::error(Code code, SourceRange where, std::string message) {
  return diagnostics.error(code, where, std::move(message));
}

void SyntaxErrors::reportError(Parser *parser, const RecognitionException &e) {
  if (auto *n = dynamic_cast<const NoViableAltException *>(&e))
    // What would have been fine at the offending token is known only when the decision failed at once.
    say(parser, n->getOffendingToken(), n->getOffendingToken() == n->getStartToken());
  else if (auto *m = dynamic_cast<const InputMismatchException *>(&e))
    say(parser, m->getOffendingToken(), true);
}

void SyntaxErrors::say(Parser *parser, Token *at, bool known) {
  if (inErrorRecoveryMode(parser))
    return;
  beginErrorCondition(parser);
  if (sayLexical(at))
    return;
  TokenStream &tokens = *parser->getTokenStream();
  ParserRuleContext *statement = parser->getRuleContext();
  while (statement && !isStatementRule(statement->getRuleIndex()))
    statement = static_cast<ParserRuleContext *>(statement->parent);
  Situation s{parser, tokens, at, previous(tokens, at), parser->getRuleContext(), statement, {}, {}};
  if (known) {
    s.expected = expectedThings(parser);
    s.set = parser->getExpectedTokens();
  }
  if (!sayUnclosed(s) && !sayUnfinished(s) && !sayNoStatement(s) && !sayUnit(s))
    sayUnexpected(s);
}

// What the lexer already knows to be wrong.
bool SyntaxErrors::sayLexical(Token *at) {
  SourceRange here = places.of(at);
  std::string text = "'" + escaped(at->getText()) + "'";
  switch (at->getType()) {
  case P::BAD_NUMBER:
    error(Code::E0003, here,
          "a number runs into a word: " + text + "; put a space between them, or write a known unit");
    return true;
  case P::BAD_RATE:
    error(Code::E0005, here,
          "unknown rate " + text + "; rates are KB/s … TB/s, Kb/s … Tb/s, GFLOP/s … PFLOP/s and $/h");
    return true;
  case P::BAD_ESCAPE:
    error(Code::E0004, here, "unknown escape in a string; only \\\" \\\\ \\n and \\t are");
    return true;
  case P::UNCLOSED_STRING:
    error(Code::E0004, here, "this string does not end on its line");
    return true;
  case P::BAD_CHARACTER: {
    static const std::map<std::string, std::string> instead = {
        {"@", "; products that sum are dot(a, b, over = AXES)"},
        {"?", "; a choice between values is where(CONDITION, a, b)"},
        {"&", "; truth values are joined by `and`"},
        {"|", "; truth values are joined by `or`"},
        {"!", "; a truth value is turned by `not`, and unequal is !="}};
    auto it = instead.find(at->getText());
    error(Code::E0002, here,
          "the character " + text + " has no meaning here" + (it == instead.end() ? "" : it->second));
    return true;
  }
  }
  return false;
}

// `train t {` where a statement is expected: the block above was never closed.
bool SyntaxErrors::sayUnclosed(const Situation &s) {
  if (!s.lacksAssign() || !s.first(s.before) || !isTop(s.before->getType()) || !s.atName())
    return false;
  auto *body = static_cast<ParserRuleContext *>(s.statement->parent);
  error(Code::E0013, places.of(s.before), "a '}' is missing before '" + s.before->getText() + "'")
      .note(places.of(body->start), "the block opened here is still open");
  return true;
}

// A word that begins a line was taken for a name that the line before lacks.
bool SyntaxErrors::sayUnfinished(const Situation &s) {
  auto unfinished = [&](Token *word) {
    Token *end = previous(s.tokens, word);
    if (!end || !s.first(word) || end->getType() == P::LBRACE || end->getType() == P::RBRACE)
      return false;
    error(Code::E0011, places.after(end),
          "the line is not finished: something is missing after '" + escaped(end->getText()) + "'");
    return true;
  };
  Token *before = s.before;
  if (!before)
    return false;
  if (s.lacksAssign()) {
    Token *q = previous(s.tokens, before);
    if (q && s.first(q) && isStatementWord(q->getType()) && unfinished(q))
      return true;
  }
  bool inside = s.statement && before != s.statement->start;
  bool languageWord = isWord(before) && before->getType() != P::NAME && before->getType() != P::TIMES_SIGN;
  if (inside && languageWord && s.first(before) && unfinished(before))
    return true;
  return s.at->getType() == P::ASSIGN && inside && isWord(before) && s.first(before) && unfinished(before);
}

// `axs batch`: a word where `NAME = …` was read, and no '=' after it.
bool SyntaxErrors::sayNoStatement(const Situation &s) {
  if (!s.lacksAssign())
    return false;
  std::string word = escaped(s.before->getText());
  SourceRange here = places.of(s.before);
  if (s.at->getType() == P::LPAREN || s.at->getType() == P::DOT) {
    error(Code::E0016, here,
          "the result of this call is lost; write NAME = " + word + (s.at->getType() == P::DOT ? ".…" : "(…)"));
    return true;
  }
  if (s.at->getType() == P::PLUS || s.at->getType() == P::MINUS || s.at->getType() == P::STAR ||
      s.at->getType() == P::SLASH) {
    std::string sign = s.at->getText();
    error(Code::E0012, here,
          "no statement begins with '" + word + " " + sign + "'; write " + word + " = " + word + " " + sign + " …");
    return true;
  }
  const atn::ATN &atn = s.parser->getATN();
  std::string near = nearest(word, words(s.parser, atn.nextTokens(atn.ruleToStartState[P::RuleStatement])));
  if (s.before->getType() == P::NAME || s.before->getType() == P::TIMES_SIGN || !near.empty())
    error(Code::E0012, here,
          "no statement begins with '" + word + "'; " +
              (!foreignWord(word).empty() ? foreignWord(word).substr(2)
               : near.empty()             ? "write " + word + " = …"
                                          : "did you mean '" + near + "'?"));
  else
    return false;
  return true;
}

// A word right after a number: a unit misspelt, or one where only a plain number may appear.
bool SyntaxErrors::sayUnit(const Situation &s) {
  if (s.at->getType() == P::QUANTITY && contains(s.expected, "a number")) {
    error(Code::E0403, places.of(s.at), "a plain number belongs here, without a unit as in '" + s.at->getText() + "'");
    return true;
  }
  if (!s.before || s.before->getType() != P::NUMBER || !s.atName() || s.first(s.at))
    return false;
  static const char *units[] = {"B",   "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB",
                                "TiB", "ns", "us", "ms", "s",  "min", "h",   "d"};
  static const std::map<std::string, std::string> others = {
      {"hour", "h"},         {"hours", "h"},        {"minute", "min"},     {"minutes", "min"},
      {"mins", "min"},       {"sec", "s"},          {"second", "s"},       {"seconds", "s"},
      {"day", "d"},          {"days", "d"},         {"gbps", "Gb/s"},      {"bytes", "B"},
      {"tflops", "TFLOP/s"}, {"gflops", "GFLOP/s"}, {"pflops", "PFLOP/s"}, {"percent", "%"}};
  std::string lower, best;
  for (char c : s.at->getText())
    lower += char(std::tolower(static_cast<unsigned char>(c)));
  for (const char *unit : units) {
    std::string l = unit;
    std::transform(l.begin(), l.end(), l.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    if (l == lower)
      best = unit;
  }
  if (auto it = others.find(lower); it != others.end())
    best = s.at->getText() == "GBps" ? "GB/s" : it->second;
  if (best.empty())
    return false;
  if (best == s.at->getText()) {
    error(Code::E0403, places.of(s.at), "a plain number belongs here, without the unit '" + best + "'");
    return true;
  }
  error(Code::E0005, places.of(s.at), "unknown unit '" + escaped(s.at->getText()) + "'; did you mean '" + best + "'?");
  return true;
}

/// Whether the bracket that ends with this token stands behind a call.
static bool closesCall(TokenStream &tokens, Token *end) {
  size_t open = 0;
  for (; end; end = previous(tokens, end)) {
    open += end->getType() == P::RBRACKET;
    if (end->getType() == P::LBRACKET && --open == 0)
      break;
    if (open == 0)
      return false;
  }
  Token *operand = end ? previous(tokens, end) : nullptr;
  return operand && operand->getType() == P::RPAREN;
}

namespace {
/// What hints look at: the token that is unexpected, those before it, and what might have stood there.
struct Unexpected {
  const SyntaxErrors::Situation &s;
  Token *at, *before, *beforeThat;   // before…: null at the file's begin
  std::vector<std::string> expected; // what an operator could always go on with is left out where there is more
  bool isComplete;                   // what comes before may end here
  bool isAfterOperand;

  bool is(size_t type) const { return at->getType() == type; }
  bool isAfter(size_t type) const { return before && before->getType() == type; }
  bool expects(const char *thing) const { return contains(expected, thing); }
  bool inStatement(size_t word) const { return s.statement && s.statement->start->getType() == word; }
};

/// One mistake that is known: when it is this one, and what to write instead.
struct Hint {
  bool (*when)(const Unexpected &);
  std::string (*text)(const Unexpected &);
};
using U = const Unexpected &;

/// The first that holds is given.
const Hint kHints[] = {
    {[](U u) { return u.is(P::STRING) && u.inStatement(P::DATA); },
     [](U) -> std::string {
       return "; the kind of data comes first, as in npy(\"x.npy\", \"y.npy\"), csv(\"x.csv\") or mnist(\"DIR\")";
     }},
    {[](U u) { return u.is(P::STRING) && u.expects("a pattern"); },
     [](U) -> std::string { return "; patterns are written without quotes, as in on (*.gamma)"; }},
    {[](U u) { return u.inStatement(P::BATCH) && u.expects("'micro'"); },
     [](U u) -> std::string { return microBatches(u.at, u.beforeThat); }},
    {[](U u) { return u.is(P::ASSIGN) && u.expects("'~'"); },
     [](U u) -> std::string {
       return u.inStatement(P::PARAM) ? "; start values come after '~', as in ~ zeros, ~ ones or ~ normal(0.02)"
                                      : "; a distribution comes after '~', as in ~ normal(0.02)";
     }},
    {[](U u) { return u.is(P::COLON) && u.beforeThat && u.beforeThat->getType() == P::AXIS; },
     [](U u) -> std::string { return "; a size follows '=', as in axis " + escaped(u.before->getText()) + " = 8"; }},
    {[](U u) { return u.is(P::NUMBER) && u.inStatement(P::INPUT); },
     [](U u) -> std::string {
       const bool below = u.before && u.before->getText() == "below";
       return "; an axis is given here by its name: declare axis NAME = " + u.at->getText() + ", and write " +
              (below ? "int below NAME" : "NAME");
     }},
    {[](U u) { return isPlaceRule(u.s.context->getRuleIndex()); },
     [](U) -> std::string { return "; brackets name the axis, as in x[seq = 0] or wte[vocab = tokens]"; }},
    {[](U u) { return u.is(P::DOT) && u.isAfterOperand; },
     [](U) -> std::string { return "; functions come before their values, as in relu(x)"; }},
    {[](U u) {
       const bool isWith = u.before && u.before->getText() == "with" && u.s.atName();
       return (u.is(P::AS) || isWith) && closesCall(u.s.tokens, u.is(P::AS) ? u.before : u.beforeThat);
     },
     [](U) -> std::string {
       return "; the name of a call comes right after it, as in (nn.linear(x, from, to) as up)[to -> from]";
     }},
    {[](U u) { return u.is(P::SLASH) && u.s.first(u.at); },
     [](U) -> std::string { return "; comments begin with '#'"; }},
    {[](U u) { return u.is(P::SLASH) && u.isAfter(P::SLASH); },
     [](U) -> std::string { return "; comments begin with '#', and the whole part of a quotient is floor(a / b)"; }},
    {[](U u) { return u.is(P::PERCENT); },
     [](U) -> std::string { return "; '%' follows a number and means a hundredth, and the remainder is mod(a, b)"; }},
    {[](U u) { return u.is(P::STAR) && u.isAfter(P::STAR); },
     [](U) -> std::string { return "; a power is written '^'"; }},
    {[](U u) {
       const bool inStatement = u.s.statement && u.s.statement->getRuleIndex() == P::RuleStatement;
       return u.is(P::ASSIGN) && !u.expects("'~'") && (u.isComplete || (u.isAfterOperand && inStatement));
     },
     [](U) -> std::string { return "; to compare, write '=='"; }},
};

std::string hintFor(U u) {
  for (const Hint &hint : kHints)
    if (hint.when(u))
      return hint.text(u);
  return "";
}

/// What may appear there. An operator could always go on: it is named only if nothing else may.
std::vector<std::string> worthNaming(const std::vector<std::string> &all) {
  static const char *always[] = {"an operator", "a comparison", "'['",    "'as'", "'%'",
                                 "a unit",      "'.'",          "'with'", "'('",  "'..'"};
  std::vector<std::string> expected;
  for (const std::string &thing : all)
    if (std::find(std::begin(always), std::end(always), thing) == std::end(always))
      expected.push_back(thing);
  return expected.empty() ? all : expected;
}
} // namespace

/// Tokens that are wrong whatever was expected. False: it is none.
bool SyntaxErrors::sayMisplaced(const Situation &s, Token *beforeThat) {
  Token *at = s.at;
  const size_t type = at->getType();
  const SourceRange here = places.of(at);
  const bool afterKeyword =
      s.before && s.before == (s.statement ? s.statement->start : nullptr) && s.expected.empty() && !s.first(at);
  if (isReserved(type) && (contains(s.expected, "a name") || afterKeyword))
    error(Code::E0014, here, "'" + at->getText() + "' is a reserved word and cannot be a name");
  else if (type == P::AS && beforeThat && beforeThat->getType() == P::IMPORT)
    error(Code::E0010, here,
          "unexpected 'as'; what an import brings keeps its name, as in import nn, nn.linear(x, from, to)");
  else if (s.context->getRuleIndex() == P::RuleFile && (at->getCharPositionInLine() > 0 || type == P::RBRACE))
    error(Code::E0013, here, "no block is open here; is there a '}' too many above?");
  else
    return false;
  return true;
}

/// A word where a declaration, a statement or a clause begins, and none does with this one.
void SyntaxErrors::sayNoBeginning(const Situation &s, const std::string &nearest) {
  const size_t rule = s.context->getRuleIndex();
  const char *what = rule == P::RuleFile ? "declaration" : rule == P::RuleBody ? "statement" : "clause";
  std::string instead = rule == P::RuleFile || rule == P::RuleTrain ? foreignWord(s.at->getText()) : "";
  if (instead.empty())
    instead = nearest;
  if (instead.empty() && rule == P::RuleFile)
    instead = "; declarations begin with import, model, block, train, cluster, device and link";
  if (instead.empty() && rule == P::RuleTrain)
    instead = "; the usual ones are model, on, data, batch, steps, optimize, evaluate, checkpoint, seed and layout";
  error(Code::E0012, places.of(s.at), std::string("no ") + what + " begins with " + shown(s.at) + instead);
}

void SyntaxErrors::sayUnexpected(const Situation &s) {
  Token *at = s.at, *before = s.before;
  const size_t type = at->getType();
  Unexpected u{s, at, before, before ? previous(s.tokens, before) : nullptr, worthNaming(s.expected), false, false};
  if (sayMisplaced(s, u.beforeThat))
    return;
  u.isComplete = u.expects("a clause") || u.expects("a statement") || u.expects("a layout clause") ||
                 u.expects("'import'") || (isMachineRule(s.context->getRuleIndex()) && u.expects("'}'"));
  u.isAfterOperand = u.isAfter(P::RPAREN) || u.isAfter(P::RBRACKET) || u.isAfter(P::NUMBER);
  const std::string did = s.atName() ? didYouMean(at->getText(), words(s.parser, s.set)) : "";
  if (isComparison(type) && before && u.isComplete) {
    error(Code::E0015, places.of(at), "unexpected " + shown(at) + "; comparisons do not chain, join them with 'and'");
    return;
  }
  if (u.isComplete && s.atName() && s.first(at))
    return sayNoBeginning(
        s, !did.empty() || !isMachineRule(s.context->getRuleIndex()) ? did : "; expected " + listed(u.expected, "or"));
  const std::string hint = hintFor(u);
  const std::string what = !did.empty()                                  ? did
                           : !hint.empty()                               ? hint
                           : u.expected.empty() || u.expected.size() > 8 ? ""
                                                                         : "; expected " + listed(u.expected, "or");
  const char *form = s.statement && s.statement->start != at
                         ? formOf(s.statement->start->getType(), s.statement->getRuleIndex())
                         : nullptr;
  // Something is missing at the end of a line: point there.
  const bool ends = before && !u.isComplete && (s.first(at) || type == Token::EOF);
  Diagnostic &d = ends ? error(Code::E0011, places.after(before),
                               (type == Token::EOF ? "the file ends here" : "this ends too early") + what)
                       : error(Code::E0010, places.of(at), "unexpected " + shown(at) + what);
  if (form)
    d.note(std::string("the form is: ") + form);
}

Token *SyntaxErrors::recoverInline(Parser *parser) { throw InputMismatchException(parser); }

void SyntaxErrors::recover(Parser *parser, std::exception_ptr) {
  ParserRuleContext *context = parser->getRuleContext();
  if (context->getRuleIndex() == P::RuleFile) {
    parser->consume();
    return;
  }
  skip(parser, columnOf(context),
       isStatementRule(context->getRuleIndex()) && context->start == parser->getCurrentToken());
}

void SyntaxErrors::skip(Parser *parser, size_t column, bool atLeastOne) {
  int depth = 0;
  TokenStream *in = parser->getTokenStream();
  if (atLeastOne && in->LA(1) != Token::EOF) {
    depth += in->LA(1) == P::LBRACE;
    parser->consume();
  }
  for (;; parser->consume()) {
    Token *t = in->LT(1);
    size_t type = t->getType();
    if (type == Token::EOF || (depth == 0 && (type == P::RBRACE || type == P::SEMI)))
      return;
    if (isWord(t) && startsLine(*in, t) &&
        (t->getCharPositionInLine() == 0 || (depth == 0 && t->getCharPositionInLine() <= column)))
      return;
    depth += (type == P::LBRACE) - (type == P::RBRACE);
  }
}

// `split …` in a train block: told once for all such lines, and the brace that was to close them is skipped, too.
void SyntaxErrors::strayLayout(Parser *parser) {
  Token *first = parser->getCurrentToken();
  error(Code::E0010, places.of(first),
        "'" + first->getText() + "' belongs in the braces of a layout: layout mesh(dp = 2) { … }");
  beginErrorCondition(parser);
  while (isLayoutWord(parser->getCurrentToken()->getType()))
    skip(parser, first->getCharPositionInLine(), true);
  Token *brace = parser->getCurrentToken();
  if (brace->getType() == P::RBRACE && brace->getCharPositionInLine() > 0 &&
      startsLine(*parser->getTokenStream(), brace))
    parser->consume();
  endErrorCondition(parser);
}

// Called by the generated parser before each turn of a loop.
void SyntaxErrors::sync(Parser *parser) {
  atn::ATNState *state = parser->getATN().states[parser->getState()];
  size_t type = state->getStateType(), rule = parser->getRuleContext()->getRuleIndex();
  bool list = rule == P::RuleFile || rule == P::RuleBody || rule == P::RuleTrain || rule == P::RuleDevice ||
              rule == P::RuleLink || rule == P::RuleCluster || rule == P::RuleClause || rule == P::RuleMappings;
  if (!list || (type != atn::ATNState::STAR_LOOP_ENTRY && type != atn::ATNState::STAR_LOOP_BACK))
    return;
  TokenStream &tokens = *parser->getTokenStream();
  if (rule != P::RuleFile) {
    Token *t = parser->getCurrentToken();
    if (isTop(t->getType()) && t->getCharPositionInLine() == 0 && startsLine(tokens, t) && tokens.LA(2) != P::ASSIGN &&
        tokens.LA(2) != P::LPAREN) {
      if (!inErrorRecoveryMode(parser))
        error(Code::E0013, places.of(t), "a '}' is missing before '" + t->getText() + "'")
            .note(places.of(parser->getRuleContext()->start), "the block opened here is still open");
      beginErrorCondition(parser);
      throw InputMismatchException(parser); // unwinds to the file, which goes on from here
    }
  }
  Token *here = parser->getCurrentToken();
  bool inLayout = rule == P::RuleClause && dynamic_cast<P::LayoutBlockContext *>(parser->getRuleContext());
  if (inLayout && isClauseWord(here->getType()) && startsLine(tokens, here)) {
    if (!inErrorRecoveryMode(parser))
      error(Code::E0013, places.of(here), "a '}' is missing before '" + here->getText() + "'")
          .note(places.of(parser->getRuleContext()->start), "the layout that begins here is still open");
    beginErrorCondition(parser);
    throw InputMismatchException(parser); // unwinds to the train block, which goes on from here
  }
  if (inErrorRecoveryMode(parser))
    return;
  misc::IntervalSet next = parser->getATN().nextTokens(state);
  auto fits = [&] { return next.contains(ssize_t(tokens.LA(1))) || next.contains(ssize_t(Token::EPSILON)); };
  while (!fits() && tokens.LA(1) != Token::EOF) {
    Token *t = parser->getCurrentToken();
    if (rule == P::RuleTrain && isLayoutWord(t->getType())) {
      strayLayout(parser);
      continue;
    }
    say(parser, t, true);
    if (rule == P::RuleFile) {
      do
        parser->consume();
      while (!(isTop(parser->getCurrentToken()->getType()) && startsLine(tokens, parser->getCurrentToken())) &&
             tokens.LA(1) != Token::EOF);
    } else {
      skip(parser, t->getCharPositionInLine(), true);
    }
    endErrorCondition(parser);
  }
}

} // namespace echelon::frontend
