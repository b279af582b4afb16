// Tests run in processes of their own: one that reaches all sites, then one for each mutant and test, since much of
// what names a mutant ends the process.
#include "Mutants.h"
#include "runtime/cuda/host/Cuts.h"
#include "runtime/cuda/host/Streams.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace echelon::cuda {
namespace {

constexpr const char *kKernelTests = "*Kernel*.*:*OnDevice*.*:*OfNarrow*.*:-*DeathTest*";
constexpr rlim_t kSeconds = 300; // of a processor, after which a mutant hangs: one that waits, the emulation ends

/// What a process of its own wrote, and how it ended.
struct Outcome {
  std::string text;
  int status;
};

Outcome inChild(const std::function<int()> &work) {
  int pipes[2];
  if (pipe(pipes) != 0)
    return {"no pipe", 1};
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{}, most = {kSeconds, kSeconds};
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_CPU, &most);
    dup2(pipes[1], 1);
    dup2(pipes[1], 2);
    close(pipes[0]);
    close(pipes[1]);
    const int result = work();
    std::fflush(nullptr);
    _exit(result);
  }
  close(pipes[1]);
  Outcome outcome{};
  char bytes[4096];
  for (ssize_t n; (n = read(pipes[0], bytes, sizeof bytes)) > 0;)
    outcome.text.append(bytes, static_cast<size_t>(n));
  close(pipes[0]);
  waitpid(child, &outcome.status, 0);
  return outcome;
}

int runTests(const std::string &filter) {
  GTEST_FLAG_SET(filter, filter);
  GTEST_FLAG_SET(break_on_failure, true);
  GTEST_FLAG_SET(catch_exceptions, false);
  return RUN_ALL_TESTS();
}

/// A test that reaches a site, and how long it takes.
struct Reaches {
  double seconds;
  std::string test;
  bool operator<(const Reaches &other) const { return seconds < other.seconds; }
};
struct Site {
  bool matters = false;
  std::vector<Reaches> tests;
};

/// What tests themselves launch and wait for is not.
bool isOfKernel(const std::string &site) {
  return site.find(" of device ") == std::string::npos && site.find("Test.cpp:") == std::string::npos;
}

/// Writes "@ SECONDS TEST MATTERS SITE" for each site that each test reaches.
class Listing : public ::testing::EmptyTestEventListener {
  std::chrono::steady_clock::time_point begin;
  void OnTestStart(const ::testing::TestInfo &) override {
    host::takeSites();
    begin = std::chrono::steady_clock::now();
  }
  void OnTestEnd(const ::testing::TestInfo &test) override {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (const auto &[site, matters] : host::takeSites())
      if (isOfKernel(site))
        std::printf("@ %g %s.%s %d %s\n", seconds, test.test_suite_name(), test.name(), matters, site.c_str());
  }
};

std::map<std::string, Site> reachedSites() {
  const Outcome outcome = inChild([] {
    host::listSites();
    ::testing::UnitTest::GetInstance()->listeners().Append(new Listing);
    return runTests(kKernelTests);
  });
  std::map<std::string, Site> sites;
  if (outcome.status != 0) {
    std::printf("%s\nthe tests fail as they are\n", outcome.text.c_str());
    return sites;
  }
  std::istringstream lines(outcome.text);
  for (std::string line, mark; std::getline(lines, line);) {
    std::istringstream words(line);
    Reaches reaches;
    bool matters = false;
    if (!(words >> mark >> reaches.seconds >> reaches.test >> matters) || mark != "@")
      continue;
    std::string site;
    std::getline(words >> std::ws, site);
    sites[site].matters = sites[site].matters || matters;
    sites[site].tests.push_back(std::move(reaches));
  }
  for (auto &[name, site] : sites)
    std::sort(site.tests.begin(), site.tests.end());
  return sites;
}

/// By what a failed test named a mutant; one that hangs, or ends in another way, is not named.
struct Name {
  std::string text;
  bool names = true;
};

Name nameOf(const Outcome &outcome) {
  const std::pair<const char *, const char *> signs[] = {
      {"race: ", "a race"},
      {"writes where it does not declare", "a write that is not declared"},
      {"that are not announced", "a product that touches other than it says"},
      {"a barrier that others do not reach", "a barrier that some do not reach"},
      {"others do not reach", "a shuffle that some do not reach"},
      {"Failure", "a wrong result"},
  };
  for (const auto &[sign, name] : signs)
    if (outcome.text.find(sign) != std::string::npos)
      return {name};
  const bool hangs = WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGKILL;
  return {hangs ? "a hang" : "an end that names nothing: " + outcome.text, false};
}

/// By what the mutant is named; no text where all tests pass.
Name namedBy(const std::string &name, const Site &site) {
  for (const Reaches &reaches : site.tests) {
    const Outcome outcome = inChild([&] {
      host::setPatience(5);
      host::cutOut(name);
      return runTests(reaches.test);
    });
    if (outcome.status != 0)
      return nameOf(outcome);
  }
  return {"", false};
}

} // namespace

int runMutants(int every, const std::string &part) {
  const std::map<std::string, Site> sites = reachedSites();
  std::map<std::string, int> named;
  int at = 0, all = 0, implied = 0, missed = 0;
  for (const auto &[name, site] : sites) {
    if (name.find(part) == std::string::npos || at++ % every != 0)
      continue;
    ++all;
    const Name by = namedBy(name, site);
    const bool isImplied = by.text.empty() && !site.matters;
    if (by.names)
      ++named[by.text];
    else
      ++(isImplied ? implied : missed);
    std::printf("%-50s %s%s\n", name.c_str(), by.names || isImplied ? "" : "NOT NAMED ",
                isImplied ? "implied by others" : by.text.c_str());
    std::fflush(stdout);
  }
  std::printf("%d mutants of %zu\n", all, sites.size());
  for (const auto &[by, count] : named)
    std::printf("%5d named by %s\n", count, by.c_str());
  std::printf("%5d implied by others\n%5d not named\n", implied, missed);
  return all == 0 || missed > 0;
}

} // namespace echelon::cuda
