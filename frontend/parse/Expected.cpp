// What the parser would take next, told in the user's words; and the form of each statement and clause.
#include "frontend/parse/SyntaxErrors.h"
#include <algorithm>
#include <atn/ATN.h>
#include <atn/ATNState.h>
#include <atn/RuleTransition.h>
#include <misc/IntervalSet.h>

using namespace antlr4;
using P = EchelonParser;

namespace echelon::frontend {

namespace {
// Rules whose insides are told as one thing.
const char *asOneThing(size_t rule) {
  switch (rule) {
  case P::RuleName:
  case P::RulePath:
  case P::RuleNames:
  case P::RuleAxisNames:
  case P::RuleMeshNames:
  case P::RuleSplitAxes:
  case P::RuleMethod:
    return "a name";
  case P::RuleExpression:
  case P::RuleConjunction:
  case P::RuleNegation:
  case P::RuleComparison:
  case P::RuleSum:
  case P::RuleProduct:
  case P::RuleUnary:
  case P::RulePower:
  case P::RuleTerm:
  case P::RulePrimary:
  case P::RuleValue:
  case P::RuleArgument:
    return "an expression";
  case P::RuleCount:
  case P::RuleQuantity:
    return "a number";
  case P::RulePattern:
  case P::RulePatterns:
    return "a pattern";
  case P::RuleStatement:
    return "a statement";
  case P::RuleClause:
    return "a clause";
  case P::RuleLayoutClause:
    return "a layout clause";
  case P::RuleElementType:
    return "'float', 'bool' or 'int below AXIS'";
  }
  return nullptr;
}

std::string spellToken(size_t token, const dfa::Vocabulary &vocabulary) {
  switch (token) {
  case P::NAME:
    return "a name";
  case P::NUMBER:
  case P::QUANTITY:
    return "a number";
  case P::STRING:
    return "a string";
  case P::UNIT:
  case P::RATE:
    return "a unit";
  case Token::EOF:
    return "the end of the file";
  case P::SEMI:
    return "";
  case P::PLUS:
  case P::MINUS:
  case P::STAR:
  case P::SLASH:
  case P::CARET:
  case P::AND:
  case P::OR:
    return "an operator";
  case P::EQ:
  case P::NE:
  case P::LT:
  case P::LE:
  case P::GT:
  case P::GE:
    return "a comparison";
  }
  return vocabulary.getDisplayName(token);
}

class Walk {
public:
  explicit Walk(Parser *parser) : parser(parser) {}
  std::vector<std::string> things;

  void from(atn::ATNState *state, RuleContext *context, int inner) {
    if (!seen.insert({state, context}).second)
      return;
    if (state->getStateType() == atn::ATNState::RULE_STOP) {
      if (inner || !context || context->invokingState == size_t(-1))
        return;
      auto *call = static_cast<atn::RuleTransition *>(parser->getATN().states[context->invokingState]->transitions[0]);
      return from(call->followState, static_cast<RuleContext *>(context->parent), 0);
    }
    for (auto *transition : state->transitions) {
      if (transition->getSerializationType() == atn::Transition::RULE) {
        auto *call = static_cast<atn::RuleTransition *>(transition);
        if (const char *thing = asOneThing(call->target->ruleIndex))
          add(thing);
        else
          from(call->target, context, inner + 1);
        if (parser->getATN().nextTokens(call->target).contains(ssize_t(Token::EPSILON))) // the rule may be empty
          from(call->followState, context, inner);
      } else if (transition->isEpsilon()) {
        from(transition->target, context, inner);
      } else {
        for (ssize_t token : transition->label().toList())
          add(spellToken(size_t(token), parser->getVocabulary()));
      }
    }
  }

private:
  void add(const std::string &thing) {
    if (!thing.empty() && std::find(things.begin(), things.end(), thing) == things.end())
      things.push_back(thing);
  }
  Parser *parser;
  std::set<std::pair<atn::ATNState *, RuleContext *>> seen;
};
} // namespace

std::vector<std::string> expectedThings(Parser *parser) {
  // Nothing read yet of an expression, a name, …: tell it whole.
  for (auto *c = parser->getRuleContext(); c; c = static_cast<ParserRuleContext *>(c->parent)) {
    const char *thing = asOneThing(c->getRuleIndex());
    if (c->start != parser->getCurrentToken() || !thing)
      break;
    auto *up = static_cast<ParserRuleContext *>(c->parent);
    if (!up || up->start != c->start || !asOneThing(up->getRuleIndex()))
      return {thing};
  }
  Walk walk(parser);
  walk.from(parser->getATN().states[parser->getState()], parser->getRuleContext(), 0);
  return walk.things;
}

bool isStatementRule(size_t rule) {
  switch (rule) {
  case P::RuleStatement:
  case P::RuleClause:
  case P::RuleLayoutClause:
  case P::RuleDeviceClause:
  case P::RuleLinkPart:
  case P::RuleClusterClause:
  case P::RuleMapping:
  case P::RuleModel:
  case P::RuleBlock:
  case P::RuleDevice:
  case P::RuleCluster:
  case P::RuleTrain:
  case P::RuleImportDecl:
  case P::RuleLink:
    return true;
  }
  return false;
}

namespace {
const char *formOfStatement(size_t token) {
  switch (token) {
  case P::AXIS:
    return "axis NAME = SIZE, axis NAME like OTHER, or axis NAME";
  case P::INPUT:
    return "input NAME[AXES] : float, : bool, or : int below AXIS";
  case P::PARAM:
    return "param NAME[AXES] ~ START, as ~ zeros, ~ ones, ~ normal(STD) or ~ kaiming(over = AXES)";
  case P::STATE:
    return "state NAME[AXES] = START";
  case P::NEXT:
    return "next NAME = VALUE";
  case P::RANDOM:
    return "random NAME[AXES] ~ normal(STD)";
  case P::REPEAT:
    return "repeat NAME = COUNT { … }, or repeat along AXIS { … }";
  case P::IF:
    return "if CONDITION { … } else { … }";
  case P::METRIC:
    return "metric NAME = VALUE";
  }
  return nullptr;
}

const char *formOfClause(size_t token) {
  switch (token) {
  case P::MODEL:
    return "model NAME(ARGUMENTS)";
  case P::STEPS:
    return "steps 1000";
  case P::EPOCHS:
    return "epochs 10";
  case P::ON:
    return "on CLUSTER, or on nan skip up to 10, on nan roll back, on nan stop";
  case P::DATA:
    return "data SOURCE(…) -> INPUTS with TRANSFORMS";
  case P::BATCH:
    return "batch 64, or batch 64 in micro batches of 8";
  case P::OPTIMIZE:
    return "optimize METHOD(…), or optimize METHOD(…) on (PATTERNS)";
  case P::AVERAGE:
    return "average ema(0.999)";
  case P::EVALUATE:
    return "evaluate every 100 steps on 20 batches, or evaluate NAME on SOURCE every 100 steps";
  case P::LAYOUT:
    return "layout auto, or layout mesh(dp = 2, tp = 2) { … }";
  case P::SYNC:
    return "sync every step, or sync METHOD over MESH_AXES";
  case P::PRECISION:
    return "precision bf16, or precision compute bf16, params fp32, reduce fp32, keep (NAMES) fp32, scale dynamic";
  case P::COMPRESS:
    return "compress gradients over dp with topk(1%) feedback";
  case P::RECOMPUTE:
    return "recompute none, full, every 2 layer, keep (NAMES), auto, or auto within 70 GB";
  case P::CHECKPOINT:
    return "checkpoint every 200 steps to \"DIR\" keep 3, checkpoint every 10 min …, or checkpoint auto …";
  case P::EXPORT:
    return "export \"FILE.safetensors\" map { \"NAME\" -> PATH }";
  case P::RESTART:
    return "restart up to 3 times";
  case P::ELASTIC:
    return "elastic dp from 2 to 8";
  case P::ADAPT:
    return "adapt lora(rank = 8, alpha = 16) on (PATTERNS)";
  case P::FREEZE:
    return "freeze (PATTERNS)";
  case P::QUANTIZE:
    return "quantize weights int8 per channel symmetric, activations int8 per tensor asymmetric from step 1000";
  case P::PRUNE:
    return "prune magnitude(sparsity = 90%, rounds = 10, retrain = 100)";
  case P::START:
    return "start from \"FILE\" map { \"NAME\"[AXES] -> PATH } new (PATTERNS) skip (PATTERNS)";
  case P::SEARCH:
    return "search optimize.lr in log(1e-4 .. 1e-2), model.width in (128, 256) with asha(trials = 16)";
  case P::SPLIT:
    return "split AXES over MESH_AXES, with SCHEDULE or with padding, as balanced or as (7, 8, 8, 7)";
  case P::STORE:
    return "store optimizer, gradients, params over MESH_AXES";
  case P::OFFLOAD:
    return "offload optimizer to host, or to \"DIR\"";
  case P::COLLECTIVE:
    return "collective all_reduce over MESH_AXES with ring";
  }
  return nullptr;
}

const char *formOfMachine(size_t token, bool ofLink) {
  switch (token) {
  case P::MEMORY:
    return "memory 80 GB at 2039 GB/s";
  case P::PEAK:
    return "peak fp32 19.5 TFLOP/s, bf16 312 TFLOP/s";
  case P::EFFICIENCY:
    return "efficiency product 0.83, product fp32 0.7, memory 0.72";
  case P::PASSES:
    return "passes softmax 3, cross_entropy 2";
  case P::RESPONSE:
    return ofLink ? "response floor 20 us, rate 0.8" : "response host 70 us, k_half 350";
  case P::PROTOCOL:
    return "protocol NAME start 37.9 us, rate 0.83";
  case P::CURVE:
    return "curve memory = 32 KiB at 60 GB/s, 256 MiB at 12 GB/s, or of a link, curve all_reduce over 4 = 1 MiB at 40 "
           "us";
  case P::MEASURED:
    return "measured \"2026-11-29\" on \"NAME\", load 0.4, spread 3%";
  case P::DEVICE:
    return "device NAME { memory … }, or device NAME = OTHER { what is not as there }";
  case P::AT:
    return "at 4 x 100 Gb/s, 5 us";
  case P::NODES:
    return "nodes 128 of 8 x DEVICE";
  case P::LINK:
    return "link 300 GB/s, 3 us, or the name of a link";
  case P::NETWORK:
    return "network 8 x 200 Gb/s, 5 us";
  case P::TIER:
    return "tier NAME = 4 over 100 Gb/s, 50 us";
  case P::STORAGE:
    return "storage 100 GB/s";
  case P::MTBF:
    return "mtbf 100_000 h per node";
  case P::PRICE:
    return "price 32 $/h per node";
  case P::CLUSTER:
    return "cluster NAME = local(ranks = 4), or cluster NAME { nodes … }";
  }
  return nullptr;
}
} // namespace

const char *formOf(size_t token, size_t rule) {
  switch (rule) {
  case P::RuleStatement:
    return formOfStatement(token);
  case P::RuleClause:
  case P::RuleLayoutClause:
    return formOfClause(token);
  case P::RuleDeviceClause:
  case P::RuleLinkPart:
  case P::RuleClusterClause:
  case P::RuleDevice:
  case P::RuleCluster:
  case P::RuleLink:
    return formOfMachine(token, rule == P::RuleLinkPart);
  }
  return nullptr;
}

} // namespace echelon::frontend
