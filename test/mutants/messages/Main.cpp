// Breaks the programs of ranks, and expects the proof to refuse what is wrong.
//
//   message_mutants [--mutants N] [--seed N] [--orders N]
//
// Programs are those of ../programs.ech under several layouts, and pipelines. An oracle that executes them on values,
// in several random orders of events each, says which mutants are wrong: they end with other values, hang, or disagree
// over a message. Each of these is to be refused; some that it finds harmless are refused, too. What is refused of one
// rank a party is refused of all ranks, and the other way round.
#include "test/mutants/messages/Mutate.h"
#include "test/mutants/messages/Pipelines.h"

#include "mlir/Parser/Parser.h"
#include "passes/prove/Alone.h"
#include "passes/prove/Meeting.h"
#include "passes/prove/Prove.h"
#include "tools/driver/compile/Compilation.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::test;

namespace {
llvm::cl::opt<int> wanted("mutants", llvm::cl::desc("wrong ones to try"), llvm::cl::init(1000));
llvm::cl::opt<uint64_t> seed("seed", llvm::cl::desc("of the first mutant"), llvm::cl::init(1));
llvm::cl::opt<int> orders("orders", llvm::cl::desc("of events, that each is executed in"), llvm::cl::init(12));

struct Case {
  const char *train, *layout;
  int64_t microBatches;
};
constexpr Case kCases[] = {
    {"sharded", "", 0},
    {"overlap", "", 0},
    {"halves", "", 0},
    {"policy", "", 0},
    {"alone", "mesh(dp = 2) { split batch over dp }", 2},
    {"alone", "mesh(tp = 2) { split head, ff over tp; split seq over tp }", 0},
    {"alone", "mesh(dp = 4) { split batch over dp; store optimizer, gradients, params over dp }", 0},
    {"alone", "mesh(dp = 2) { split batch over dp; store optimizer, gradients, params over dp }", 2},
    {"alone", "mesh(dp = 2, tp = 2) { split batch over dp; split head, ff over tp }", 0},
    {"alone", "mesh(pp = 2) { split layer over pp with gpipe }", 2},
    {"alone", "mesh(pp = 2) { split layer over pp with 1f1b }", 4},
    {"alone", "mesh(pp = 2, dp = 2) { split layer over pp with zero_bubble; split batch over dp }", 2},
    {"alone", "mesh(pod = 2, dp = 2) { split batch over (pod, dp); store optimizer over dp }", 0},
};

prove::Verdict verdictOf(const Ranks &ranks) {
  for (const prove::Program &program : ranks.programs)
    if (prove::Verdict refused = prove::checkAlone(program))
      return refused;
  return prove::checkTogether(ranks.programs, ranks.channels);
}

/// A program, its values, and the same with one rank a party.
struct Base {
  Ranks ranks, parties;
};

class Mutants {
public:
  bool compile(const Case &one);
  bool addPipelines();
  /// Whether all that is wrong was refused.
  bool run();

private:
  bool isWrong(const Ranks &right, const Ranks &mutant) const;
  bool tryParties(const Base &base, Random &random);

  std::vector<std::unique_ptr<Compilation>> compilations;
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> standing; // operations that pipelines point to
  std::vector<Base> bases;
};

bool Mutants::compile(const Case &one) {
  CompileOptions options;
  options.spec = MUTANTS_FOLDER "/programs.ech";
  options.train = one.train;
  options.layout = one.layout;
  options.microBatches = one.microBatches;
  auto compilation = std::make_unique<Compilation>(options);
  if (!compilation->parse() || !compilation->resolve() || !compilation->elaborate() || !compilation->lower(Stage::Rt)) {
    compilation->printDiagnostics();
    return false;
  }
  ModuleOp module = *compilation->module;
  const SmallVector<int64_t> sizes = prove::meshSizes(module);
  SmallVector<int64_t> all;
  for (size_t m = 0; m < sizes.size(); ++m)
    all.push_back(static_cast<int64_t>(m));
  for (auto function : module.getOps<rt::FunctionOp>()) {
    if (function.getBody().getNumArguments())
      continue;
    Base base;
    prove::Programs ranks, parties;
    if (prove::programsOf(function, sizes, all, ranks) ||
        prove::programsOf(function, sizes, prove::axesApart(module), parties) || ranks.of.front().starts.empty())
      continue;
    const std::string name = std::string(one.train) + " " + one.layout + ": " + function.getSymName().str();
    base.ranks = {name, std::move(ranks.of), std::move(ranks.channels)};
    base.parties = {name, std::move(parties.of), std::move(parties.channels)};
    bases.push_back(std::move(base));
  }
  compilations.push_back(std::move(compilation));
  return true;
}

bool Mutants::addPipelines() {
  context = std::make_unique<MLIRContext>();
  context->loadDialect<rt::RtDialect>();
  standing = parseSourceString<ModuleOp>(R"(
    rt.function @f {
      %x = rt.alloc work : !rt.buffer<[n=1], f32>
      rt.fill %x with 0.0 : !rt.buffer<[n=1], f32>
      rt.collective "all_reduce" %x, %x count 1 "Sum" over [0] ranks 2 "pp" with "ring" why "" : !rt.buffer<[n=1], f32>, !rt.buffer<[n=1], f32>
    })",
                                         context.get());
  Operation *compute = nullptr, *message = nullptr;
  standing->walk([&](rt::FillOp op) { compute = op; });
  standing->walk([&](rt::CollectiveOp op) { message = op; });
  for (int stages : {2, 3, 4})
    for (int replicas : {1, 2})
      for (int micro : {1, 2, 5})
        for (bool inTurn : {false, true})
          bases.push_back({pipeline({stages, replicas, micro, inTurn}, compute, message), {}});
  return true;
}

/// Of a step that all ranks run to its end, and of one that they leave.
bool Mutants::isWrong(const Ranks &right, const Ranks &mutant) const {
  Pieces pieces;
  pieces.add(right.programs);
  pieces.add(mutant.programs);
  pieces.repeat(mutant.moved);
  pieces.number();
  const bool leaves = llvm::any_of(right.programs.front().instructions, [](const prove::Instruction &instruction) {
    return instruction.kind == prove::Instruction::Leave;
  });
  for (int leaveAt : {-1, 0}) {
    if (leaveAt == 0 && !leaves)
      break;
    const auto expected = execute(right, pieces, 1, leaveAt);
    for (int order = 0; order < orders; ++order)
      if (execute(mutant, pieces, static_cast<uint64_t>(order) + 2, leaveAt) != expected)
        return true;
  }
  return false;
}

/// The same change in the programs of all ranks, and in those of parties: one verdict.
bool Mutants::tryParties(const Base &base, Random &random) {
  static const char *const kAlike[] = {"drop", "double", "move", "swap", "without", "late"};
  const char *how = kAlike[random() % std::size(kAlike)];
  const uint64_t change = random();
  Ranks ranks = base.ranks, parties = base.parties;
  for (Ranks *one : {&ranks, &parties})
    for (size_t rank = 0; rank < one->programs.size(); ++rank) {
      Random same(change);
      mutate(*one, how, same, static_cast<int>(rank));
    }
  const prove::Verdict ofRanks = verdictOf(ranks), ofParties = verdictOf(parties);
  if (ofRanks.has_value() == ofParties.has_value())
    return true;
  llvm::outs() << "NOT THE SAME: " << base.ranks.name << ", " << how << ": of all ranks "
               << (ofRanks ? ofRanks->text : "proven") << "; of parties " << (ofParties ? ofParties->text : "proven")
               << "\n";
  return false;
}

bool Mutants::run() {
  bool isGood = true;
  for (const Base &base : bases) {
    const prove::Verdict refused = verdictOf(base.ranks);
    if (!refused && !isWrong(base.ranks, base.ranks))
      continue;
    llvm::outs() << "NOT PROVEN, OR NOT OF ONE RESULT: " << base.ranks.name << ": " << (refused ? refused->text : "")
                 << "\n";
    isGood = false;
  }
  struct Row {
    int refused = 0, missed = 0, harmlessRefused = 0, harmless = 0;
    std::string example;
  };
  std::map<std::string, Row> rows;
  Random random(seed);
  int wrong = 0;
  for (int tries = 0; wrong < wanted && tries < 100 * wanted; ++tries) {
    const Base &base = bases[random() % bases.size()];
    const std::string how = kMutations[static_cast<size_t>(tries) % std::size(kMutations)];
    Ranks mutant = base.ranks;
    if (!mutate(mutant, how, random))
      continue;
    const prove::Verdict refused = verdictOf(mutant);
    const bool is = isWrong(base.ranks, mutant);
    Row &row = rows[how];
    wrong += is;
    ++(is ? refused ? row.refused : row.missed : refused ? row.harmlessRefused : row.harmless);
    if (is && refused && row.example.empty())
      row.example = refused->text;
    if (is && !refused) {
      llvm::outs() << "MISSED: " << how << " in " << base.ranks.name << mutant.moved.onto << "\n";
      isGood = false;
    }
  }
  llvm::outs() << bases.size() << " programs, " << wrong << " wrong mutants\n";
  llvm::outs() << "            wrong: refused  missed   harmless: refused  passed\n";
  for (const auto &[how, row] : rows)
    llvm::outs() << llvm::format("  %-16s %10d %7d %19d %7d\n", how.c_str(), row.refused, row.missed,
                                 row.harmlessRefused, row.harmless)
                 << "    " << row.example << "\n";
  int alike = 0, same = 0;
  for (int tries = 0; tries < wanted / 2; ++tries)
    if (const Base &base = bases[random() % bases.size()]; !base.parties.programs.empty()) {
      same += tryParties(base, random);
      ++alike;
    }
  llvm::outs() << same << " of " << alike << " mutants of all ranks alike have the same verdict as one a party\n";
  return isGood && same == alike && wrong >= wanted;
}
} // namespace

int main(int argc, char **argv) {
  llvm::cl::ParseCommandLineOptions(argc, argv, "programs of ranks, broken\n");
  Mutants mutants;
  for (const Case &one : kCases)
    if (!mutants.compile(one))
      return 1;
  return mutants.addPipelines() && mutants.run() ? 0 : 1;
}
