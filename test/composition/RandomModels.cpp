// Random models under random layouts, and with clauses of `train` by chance.
//
//   random_models [--models N] [--seed S] [--clauses] [--compiled EVERY] [--counts LEAST] [--emulated] [--show]
//                 [--keep FOLDER]
//
// Seeds S … S + N - 1. Each is run by the interpreter on one rank and, laid out, by all its ranks on numbers; every
// EVERY-th is also compiled and trained some steps, the transports in turn. A failure is shrunk and its spec printed.
// --clauses: with sync policies, packings, precisions and what else RandomClauses.cpp has; policies are compiled in any
// case, and held against the program of one rank that works for all workers. --counts: every operation and conversion
// must occur so often, with --clauses every clause, in a model that was proven equal. --emulated: programs are for
// GPUs, which the host emulates, each in another legal order of work. --show: print the specs and end.
// --keep: the folder of the last spec, its data and what its program left behind stays.
#include "test/composition/Proof.h"

#include "llvm/Support/FileSystem.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>

using namespace echelon::test;
using echelon::Machine;

namespace {

/// Of a diagnostic; empty where there is none.
std::string codeOf(const std::string &said) {
  const size_t at = said.find("error[");
  return at == std::string::npos ? "" : said.substr(at + 6, said.find(']', at) - at - 6);
}

/// The simplest spec found that still fails, and in the same way.
RandomSpec shrunk(RandomSpec spec, const Proof &proof, std::string &why) {
  int tries = proof.compiled || spec.clause("sync") ? 60 : 300;
  const std::string code = codeOf(why);
  for (bool smaller = true; smaller && tries > 0;) {
    smaller = false;
    for (RandomSpec &candidate : spec.simpler()) {
      Counts none;
      if (tries-- <= 0)
        break;
      Verdict verdict = proof.check(candidate, none);
      if (verdict.kind == Verdict::Different && codeOf(verdict.why) == code) {
        spec = candidate;
        why = verdict.why;
        smaller = true;
        break;
      }
    }
  }
  return spec;
}

struct Arguments {
  int64_t models = 30, seed = 1, compiled = 0, least = 0;
  bool show = false, clauses = false, emulated = false;
  std::string keep;

  bool read(int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
      std::string name = argv[i];
      int64_t *number = name == "--models"     ? &models
                        : name == "--seed"     ? &seed
                        : name == "--compiled" ? &compiled
                        : name == "--counts"   ? &least
                                               : nullptr;
      if (name == "--show") {
        show = true;
      } else if (name == "--clauses") {
        clauses = true;
      } else if (name == "--emulated") {
        emulated = true;
      } else if (name == "--keep" && i + 1 < argc) {
        keep = argv[++i];
      } else if (number && i + 1 < argc) {
        *number = std::atoll(argv[++i]);
      } else {
        std::cerr << "random_models: unknown argument " << name << "\n";
        return false;
      }
    }
    return true;
  }
};

/// How often layouts were refused, by the code of the diagnostic.
using Refusals = std::map<std::string, int>;

/// Under the first layout that is not refused; layouts that do not divide are, and drawn again. A model whose results
/// turn on their last digits proves nothing: its last piece is left out.
Verdict tryLayouts(RandomSpec &spec, const Proof &proof, Counts &counts, Refusals &refusals) {
  Verdict verdict;
  for (int attempt = 0; attempt < 12; ++attempt) {
    if (attempt == 6)
      spec.microBatches = 1; // what needs all samples at once
    spec.drawLayout(attempt);
    verdict = proof.check(spec, counts);
    while (verdict.kind == Verdict::Unsettled && !spec.pieces.empty()) {
      spec.pieces.pop_back();
      spec.drawLayout(attempt);
      verdict = proof.check(spec, counts);
    }
    if (verdict.kind != Verdict::Refused)
      break;
    ++refusals[codeOf(verdict.why)];
  }
  return verdict;
}

/// Prints the counts; how many of what must occur are below `least`.
int tooSeldom(Counts &counts, int64_t least, bool ofClauses) {
  std::vector<std::string> names = expectedOperations();
  if (ofClauses) {
    names.clear();
    for (const std::string &name : clauseNames())
      names.push_back("clause " + name);
  }
  int few = 0;
  for (const std::string &name : names)
    counts.try_emplace(name, 0);
  for (auto &[name, n] : counts)
    if (!ofClauses || name.rfind("clause ", 0) == 0)
      std::cout << "  " << n << " x " << name << "\n";
  for (const std::string &name : names)
    if (counts[name] < least) {
      std::cout << "too seldom: " << name << ", " << counts[name] << " times\n";
      ++few;
    }
  return few;
}

} // namespace

int main(int argc, char **argv) {
  Arguments given;
  if (!given.read(argc, argv))
    return 2;
  const int64_t end = given.seed + given.models;
  if (given.show) {
    for (int64_t seed = given.seed; seed < end; ++seed)
      std::cout << "# seed " << seed << "\n" << RandomSpec(seed, given.clauses).text() << "\n";
    return 0;
  }
  llvm::SmallString<64> folder;
  if (!given.keep.empty() ? bool(llvm::sys::fs::create_directories(folder = given.keep))
                          : bool(llvm::sys::fs::createUniqueDirectory("random-models", folder))) {
    std::cerr << "random_models: cannot make a temporary folder\n";
    return 1;
  }
  Counts counts;
  Refusals refusals;
  int equal = 0, failed = 0, programs = 0, allRefused = 0, unsettled = 0;
  double worst = 0;
  for (int64_t seed = given.seed; seed < end; ++seed) {
    RandomSpec spec(seed, given.clauses);
    Proof proof;
    proof.folder = folder.str().str();
    if (given.emulated) {
      proof.machine = Machine::CudaHost;
      spec.onGpu = true;
    }
    proof.compiled = given.compiled && (seed - given.seed) % given.compiled == 0;
    static const char *transports[] = {"threads", "shm", "mpi"};
    if (proof.compiled || spec.clause("sync"))
      proof.transport = transports[programs++ % 3];
    Verdict verdict = tryLayouts(spec, proof, counts, refusals);
    if (verdict.kind == Verdict::Equal) {
      ++equal;
      worst = std::max(worst, verdict.error);
    } else if (verdict.kind == Verdict::Refused) {
      ++allRefused;
      std::cout << "seed " << seed << ": every layout drawn was refused, the last one with\n" << verdict.why << "\n";
    } else if (verdict.kind == Verdict::Unsettled) {
      ++unsettled;
      std::cout << "seed " << seed << ": not settled, " << verdict.why << "\n";
    } else {
      ++failed;
      std::string why = verdict.why;
      RandomSpec simple = shrunk(spec, proof, why);
      std::cout << "FAILED seed " << seed << ": " << verdict.why << "\nshrunk, " << why << "\n"
                << simple.text() << "\n";
    }
    std::cout.flush();
  }
  if (given.keep.empty())
    llvm::sys::fs::remove_directories(folder);
  int refused = 0;
  for (auto &[code, times] : refusals)
    refused += times;
  std::cout << "seeds " << given.seed << " to " << end - 1 << ": " << equal << " equal (worst " << worst << "), "
            << programs << " of them compiled, " << failed << " failed, " << unsettled << " not settled, " << allRefused
            << " without a layout; " << refused << " layouts refused";
  for (auto &[code, times] : refusals)
    std::cout << ", " << times << " with " << code;
  std::cout << "\n";
  if (given.least)
    failed += tooSeldom(counts, given.least, given.clauses);
  return failed || allRefused + unsettled > given.models / 20 ? 1 : 0;
}
