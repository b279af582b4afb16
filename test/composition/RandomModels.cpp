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
#include <cstring>
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

} // namespace

int main(int argc, char **argv) {
  int64_t models = 30, seed = 1, compiled = 0, least = 0;
  bool show = false;
  for (int i = 1; i < argc; ++i) {
    int64_t *number = !std::strcmp(argv[i], "--models")     ? &models
                      : !std::strcmp(argv[i], "--seed")     ? &seed
                      : !std::strcmp(argv[i], "--compiled") ? &compiled
                      : !std::strcmp(argv[i], "--counts")   ? &least
                                                            : nullptr;
    if (!std::strcmp(argv[i], "--show")) {
      show = true;
    } else if (number && i + 1 < argc) {
      *number = std::atoll(argv[++i]);
    } else {
      std::cerr << "random_models: unknown argument " << argv[i] << "\n";
      return 2;
    }
  }
  llvm::SmallString<64> folder;
  if (llvm::sys::fs::createUniqueDirectory("random-models", folder)) {
    std::cerr << "random_models: cannot make a temporary folder\n";
    return 1;
  }
  Counts counts;
  int equal = 0, failed = 0, refusals = 0, programs = 0, given = 0;
  double worst = 0;
  for (int64_t s = seed; s < seed + models; ++s) {
    RandomSpec spec(s);
    if (show) {
      std::cout << "# seed " << s << "\n" << spec.text() << "\n";
      continue;
    }
    Proof proof;
    proof.folder = folder.str().str();
    proof.compiled = compiled && (s - seed) % compiled == 0;
    static const char *transports[] = {"threads", "shm", "mpi"};
    if (proof.compiled)
      proof.transport = transports[programs++ % 3];
    Verdict verdict;
    for (int attempt = 0; attempt < 12; ++attempt) { // layouts that do not divide are refused, and drawn anew
      if (attempt == 6)
        spec.microBatches = 1; // what needs all samples at once
      spec.drawLayout(attempt);
      verdict = proof.check(spec, counts);
      if (verdict.kind != Verdict::Refused)
        break;
      ++refusals;
    }
    if (verdict.kind == Verdict::Equal) {
      ++equal;
      worst = std::max(worst, verdict.error);
    } else if (verdict.kind == Verdict::Refused) {
      ++given;
      std::cout << "seed " << s << ": every layout drawn was refused, the last one with\n" << verdict.why << "\n";
    } else {
      ++failed;
      std::string why = verdict.why;
      RandomSpec simple = shrunk(spec, proof, why);
      std::cout << "FAILED seed " << s << ": " << verdict.why << "\nshrunk, " << why << "\n" << simple.text() << "\n";
    }
    std::cout.flush();
  }
  llvm::sys::fs::remove_directories(folder);
  if (show)
    return 0;
  std::cout << "seeds " << seed << " to " << seed + models - 1 << ": " << equal << " equal (worst " << worst << "), "
            << programs << " of them compiled, " << failed << " failed, " << given << " without a layout; " << refusals
            << " layouts refused\n";
  if (least) {
    for (const std::string &name : expectedCounts())
      counts.try_emplace(name, 0);
    for (auto &[name, n] : counts)
      std::cout << "  " << n << " x " << name << "\n";
    for (const std::string &name : expectedCounts())
      if (counts[name] < least) {
        std::cout << "too seldom: " << name << ", " << counts[name] << " times\n";
        ++failed;
      }
  }
  return failed || given > models / 20 ? 1 : 0;
}
