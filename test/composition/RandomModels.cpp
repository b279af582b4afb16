// Random models under random layouts.
//
//   random_models [--models N] [--seed S] [--compiled EVERY] [--counts LEAST] [--show]
//
// Seeds S … S + N - 1. Each is run by the interpreter on one rank and, laid out, by all its ranks on numbers; every
// EVERY-th is also compiled and trained three steps, the transports in turn. A failure is shrunk and its spec printed.
// --counts: every operation and conversion must occur so often. --show: print the specs and end.
#include "test/composition/Proof.h"

#include "llvm/Support/FileSystem.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>

using namespace echelon::test;

namespace {

/// The simplest spec found that still fails.
RandomSpec shrunk(RandomSpec spec, const Proof &proof, std::string &why) {
  int tries = proof.compiled ? 30 : 300;
  for (bool smaller = true; smaller && tries > 0;) {
    smaller = false;
    for (RandomSpec &candidate : spec.simpler()) {
      Counts none;
      if (tries-- <= 0)
        break;
      Verdict verdict = proof.check(candidate, none);
      if (verdict.kind == Verdict::Different) {
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
  bool show = false;

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

/// Under the first layout that is not refused; layouts that do not divide are, and drawn again.
Verdict tryLayouts(RandomSpec &spec, const Proof &proof, Counts &counts, int &refusals) {
  Verdict verdict;
  for (int attempt = 0; attempt < 12; ++attempt) {
    if (attempt == 6)
      spec.microBatches = 1; // what needs all samples at once
    spec.drawLayout(attempt);
    verdict = proof.check(spec, counts);
    if (verdict.kind != Verdict::Refused)
      break;
    ++refusals;
  }
  return verdict;
}

/// Prints the counts; how many of what must occur are below `least`.
int tooSeldom(Counts &counts, int64_t least) {
  int few = 0;
  for (const std::string &name : expectedCounts())
    counts.try_emplace(name, 0);
  for (auto &[name, n] : counts)
    std::cout << "  " << n << " x " << name << "\n";
  for (const std::string &name : expectedCounts())
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
      std::cout << "# seed " << seed << "\n" << RandomSpec(seed).text() << "\n";
    return 0;
  }
  llvm::SmallString<64> folder;
  if (llvm::sys::fs::createUniqueDirectory("random-models", folder)) {
    std::cerr << "random_models: cannot make a temporary folder\n";
    return 1;
  }
  Counts counts;
  int equal = 0, failed = 0, refusals = 0, programs = 0, allRefused = 0;
  double worst = 0;
  for (int64_t seed = given.seed; seed < end; ++seed) {
    RandomSpec spec(seed);
    Proof proof;
    proof.folder = folder.str().str();
    proof.compiled = given.compiled && (seed - given.seed) % given.compiled == 0;
    static const char *transports[] = {"threads", "shm", "mpi"};
    if (proof.compiled)
      proof.transport = transports[programs++ % 3];
    Verdict verdict = tryLayouts(spec, proof, counts, refusals);
    if (verdict.kind == Verdict::Equal) {
      ++equal;
      worst = std::max(worst, verdict.error);
    } else if (verdict.kind == Verdict::Refused) {
      ++allRefused;
      std::cout << "seed " << seed << ": every layout drawn was refused, the last one with\n" << verdict.why << "\n";
    } else {
      ++failed;
      std::string why = verdict.why;
      RandomSpec simple = shrunk(spec, proof, why);
      std::cout << "FAILED seed " << seed << ": " << verdict.why << "\nshrunk, " << why << "\n"
                << simple.text() << "\n";
    }
    std::cout.flush();
  }
  llvm::sys::fs::remove_directories(folder);
  std::cout << "seeds " << given.seed << " to " << end - 1 << ": " << equal << " equal (worst " << worst << "), "
            << programs << " of them compiled, " << failed << " failed, " << allRefused << " without a layout; "
            << refusals << " layouts refused\n";
  if (given.least)
    failed += tooSeldom(counts, given.least);
  return failed || allRefused > given.models / 20 ? 1 : 0;
}
