#include "runtime/launch/Launch.h"
#include "runtime/collectives/Collectives.h"
#include "runtime/launch/Fail.h"

#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace echelon::runtime {
namespace {

using Clock = std::chrono::steady_clock;

struct Outcome {
  int code;
  std::string error;
  double seconds;
};

Outcome outcomeOf(const std::string &transport, int ranks, double deadline,
                  const std::function<int(Transport &)> &rankMain) {
  LaunchOptions options;
  options.transport = transport;
  options.ranks = ranks;
  options.deadlineSeconds = deadline;
  testing::internal::CaptureStderr();
  const auto begin = Clock::now();
  Outcome outcome;
  outcome.code = launch(options, rankMain);
  outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  outcome.error = testing::internal::GetCapturedStderr();
  return outcome;
}

void sleepFor(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Forty steps with an all_reduce in each, as a training loop has them.
int train(Transport &t, const std::function<void(int)> &atStep) {
  for (int step = 0; step < 40; ++step) {
    t.setStep(step);
    atStep(step);
    float value = 1;
    all_reduce(t, t.world(), &value, 1, Sum, "mlp.ech:33");
  }
  return 0;
}

TEST(Launch, ReturnsWhatTheRanksReturn) {
  for (const char *transport : {"shm", "threads"})
    for (int ranks : {1, 3}) {
      EXPECT_EQ(outcomeOf(transport, ranks, 10, [](Transport &) { return 0; }).code, 0);
      Outcome five = outcomeOf(transport, ranks, 10, [](Transport &) { return 5; });
      EXPECT_EQ(five.code, 5);
      EXPECT_EQ(five.error, "");
    }
}

TEST(Launch, CodesThatDiffer) {
  for (const char *transport : {"shm", "threads"}) {
    Outcome outcome = outcomeOf(transport, 2, 10, [](Transport &t) { return t.rank(); });
    EXPECT_EQ(outcome.code, 4);
    EXPECT_EQ(outcome.error, "echelon: ranks ended with different codes: rank 0 with 0, rank 1 with 1\n");
  }
}

// A rank that is killed is named, with its step and what the others wait in, and nothing is left behind.
TEST(Launch, KilledRankIsNamedBeforeTheDeadline) {
  Outcome outcome = outcomeOf("shm", 4, 60, [](Transport &t) {
    return train(t, [&](int step) {
      if (step == 37 && t.rank() == 2)
        raise(SIGKILL);
    });
  });
  EXPECT_EQ(outcome.code, 4);
  EXPECT_EQ(outcome.error, "echelon: rank 2 died (signal 9, Killed; perhaps out of memory) at step 37, last in "
                           "all_reduce (mlp.ech:33); the others wait in all_reduce (mlp.ech:33)\n");
  EXPECT_LT(outcome.seconds, 60);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a rank was not reaped";
}

TEST(Launch, RankWhoseFileWasCutIsNamed) {
  Outcome outcome = outcomeOf("shm", 2, 10, [](Transport &t) {
    return train(t, [&](int step) {
      if (step == 3 && t.rank() == 1) {
        std::signal(SIGBUS, SIG_DFL); // sanitizers have a handler
        raise(SIGBUS);
      }
    });
  });
  EXPECT_EQ(outcome.code, 4);
  EXPECT_EQ(outcome.error,
            "echelon: rank 1 died (signal 7, Bus error; perhaps a file was cut while it was read, or its "
            "disk failed) at step 3, last in all_reduce (mlp.ech:33); the others wait in all_reduce "
            "(mlp.ech:33)\n");
}

TEST(Launch, RankThatExitsIsNamed) {
  Outcome outcome = outcomeOf("shm", 2, 10, [](Transport &t) {
    return train(t, [&](int step) {
      if (step == 3 && t.rank() == 1)
        _exit(0);
    });
  });
  EXPECT_EQ(outcome.code, 4);
  EXPECT_EQ(outcome.error, "echelon: rank 1 ended by itself (exit code 0) at step 3, last in all_reduce (mlp.ech:33); "
                           "the others wait in all_reduce (mlp.ech:33)\n");
}

// The first message is the only one.
TEST(Launch, FailNamesTheRankOnce) {
  for (const char *transport : {"shm", "threads"}) {
    Outcome outcome = outcomeOf(transport, 4, 60, [](Transport &t) {
      return train(t, [&](int step) {
        if (step == 7 && t.rank() == 1)
          fail("the data file is short");
      });
    });
    EXPECT_EQ(outcome.code, 4);
    EXPECT_EQ(outcome.error, "echelon: rank 1: the data file is short\n");
    EXPECT_LT(outcome.seconds, 60);
  }
}

TEST(Launch, ExceptionsEndTheRank) {
  for (const char *transport : {"shm", "threads"})
    for (int ranks : {1, 2}) {
      Outcome outcome = outcomeOf(transport, ranks, 10, [](Transport &t) {
        if (t.rank() == 0)
          throw std::runtime_error("no space");
        return train(t, [](int) {});
      });
      EXPECT_EQ(outcome.code, 4);
      EXPECT_EQ(outcome.error, "echelon: rank 0: an error that nobody handles: no space\n");
    }
}

// Who does not come within the deadline is named by one of those that wait.
TEST(Launch, LateRankIsNamed) {
  for (const char *transport : {"shm", "threads"}) {
    Outcome outcome = outcomeOf(transport, 3, 0.3, [](Transport &t) {
      return train(t, [&](int step) {
        if (step == 5 && t.rank() == 2)
          sleepFor(1);
      });
    });
    EXPECT_EQ(outcome.code, 4);
    EXPECT_NE(outcome.error.find("rank 2 did not come to all_reduce (mlp.ech:33) at step 5 within 0.3 s; it is at step "
                                 "5, last in all_reduce (mlp.ech:33)\n"),
              std::string::npos)
        << outcome.error;
  }
}

// A rank that computes on and on is given up before the deadline, one that is stopped too; both are named.
TEST(Launch, EndlessAndStoppedRanksAreNamedSoon) {
  auto endless = [](Transport &t) {
    return train(t, [&](int step) {
      while (step == 5 && t.rank() == 1)
        t.stopRequested();
    });
  };
  const std::string named = "rank 1 did not come to all_reduce \\(mlp.ech:33\\) at step 5 within ([1-9]|[12][0-9])\\.";
  LaunchOptions options;
  options.ranks = 2;
  options.deadlineSeconds = 60;
  EXPECT_EXIT(std::_Exit(launch(options, endless)), testing::ExitedWithCode(4), named);
  options.transport = "threads"; // none of which can be ended alone
  EXPECT_EXIT(std::_Exit(launch(options, endless)), testing::ExitedWithCode(4), named);
  Outcome outcome = outcomeOf("shm", 2, 60, [](Transport &t) {
    return train(t, [&](int step) {
      if (step == 5 && t.rank() == 1)
        raise(SIGSTOP);
    });
  });
  EXPECT_EQ(outcome.code, 4);
  EXPECT_LT(outcome.seconds, 30);
  EXPECT_NE(outcome.error.find("rank 1 is stopped (by SIGSTOP or a debugger)"), std::string::npos) << outcome.error;
}

// Kernels of libraries use the register of the stack for something else: a rank takes signals on a stack apart, or, as
// a thread, not at all.
TEST(Launch, SignalsComeOnTheirOwnStack) {
  const auto before = std::signal(SIGINT, SIG_DFL); // a shell has programs in its background ignore it
  for (const char *transport : {"shm", "threads"})
    for (int ranks : {1, 2}) {
      LaunchOptions options;
      options.transport = transport;
      options.ranks = ranks;
      EXPECT_EQ(launch(options,
                       [&](Transport &) {
                         sigset_t blocked;
                         pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
                         for (int signal : {SIGINT, SIGTERM, SIGUSR1}) {
                           struct sigaction action;
                           stack_t stack;
                           sigaction(signal, nullptr, &action);
                           sigaltstack(nullptr, &stack);
                           const bool apart = (action.sa_flags & SA_ONSTACK) && !(stack.ss_flags & SS_DISABLE);
                           if (!apart && !sigismember(&blocked, signal))
                             return 1;
                         }
                         return 0;
                       }),
                0)
          << transport << " " << ranks;
    }
  std::signal(SIGINT, before);
}

// Who writes a file for all, or is slow because others have its core, is waited for.
TEST(Launch, OnlyRanksThatComputeAlikeAreGivenUpSoon) {
  Outcome outcome = outcomeOf("shm", 2, 60, [](Transport &t) {
    return train(t, [&](int step) {
      t.setComputes(step != 5);
      const auto begin = Clock::now();
      while (step == 5 && t.rank() == 1 && Clock::now() - begin < std::chrono::milliseconds(3500))
        ;
      if (step == 6 && t.rank() == 1)
        sleepFor(3.5);
    });
  });
  EXPECT_EQ(outcome.code, 0) << outcome.error;
}

// After a rank was lost all are started again, as often as was asked for, each time with what beforeRestart made ready.
TEST(Launch, LostRanksAreRestarted) {
  for (int ranks : {1, 3})
    for (int restarts : {0, 2, 3}) {
      if (ranks == 1 && restarts == 0) // it is this very process
        continue;
      int *starts = static_cast<int *>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
      int prepared = 0;
      LaunchOptions options;
      options.ranks = ranks;
      options.restarts = restarts;
      options.beforeRestart = [&]() -> std::string {
        ++prepared;
        return "";
      };
      testing::internal::CaptureStderr();
      const int code = launch(options, [&](Transport &t) {
        if (t.rank() == 0)
          ++*starts;
        return train(t, [&](int step) {
          if (step == 5 && t.rank() == ranks - 1 && prepared < 3)
            raise(SIGKILL);
        });
      });
      const std::string error = testing::internal::GetCapturedStderr();
      EXPECT_EQ(code, restarts == 3 ? 0 : 4) << error;
      EXPECT_EQ(prepared, restarts);
      EXPECT_EQ(*starts, restarts + 1);
      EXPECT_EQ(error.find("echelon: restart 1 of " + std::to_string(restarts)) != std::string::npos, restarts > 0);
      munmap(starts, 4096);
    }
}

// What a rank itself found wrong would be wrong again.
TEST(Launch, FailuresAreNotRestarted) {
  LaunchOptions options;
  options.ranks = 2;
  options.restarts = 3;
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch(options,
                   [](Transport &t) {
                     return train(t, [&](int step) {
                       if (step == 5 && t.rank() == 1)
                         fail("the disk is full");
                     });
                   }),
            4);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "echelon: rank 1: the disk is full\n");
}

// Of a chain of ranks that wait for each other, the one that waits for nobody is named.
TEST(Launch, LateRankIsNamedThroughAChain) {
  Outcome outcome = outcomeOf("shm", 3, 2, [](Transport &t) { // s: a busy machine starts them one by one
    char byte = 0;
    if (t.rank() == 0)
      t.receive(1, &byte, 1, 0, "chain.ech:1");
    if (t.rank() == 1) {
      t.receive(2, &byte, 1, 0, "chain.ech:2");
      t.send(0, &byte, 1, 0, "chain.ech:1");
    }
    if (t.rank() == 2)
      sleepFor(20);
    return 0;
  });
  EXPECT_EQ(outcome.code, 4);
  EXPECT_NE(outcome.error.find("rank 2 did not come to receive (chain.ech:"), std::string::npos) << outcome.error;
  EXPECT_NE(outcome.error.find("within 2 s; it is before the first step\n"), std::string::npos) << outcome.error;
}

TEST(Launch, RanksThatWaitForEachOther) {
  Outcome outcome = outcomeOf("shm", 2, 0.3, [](Transport &t) {
    char byte = 0;
    t.receive(1 - t.rank(), &byte, 1, 0, "knot.ech:1");
    return 0;
  });
  EXPECT_EQ(outcome.code, 4);
  EXPECT_NE(outcome.error.find("ranks wait for each other: this one in receive (knot.ech:1) for rank"),
            std::string::npos)
      << outcome.error;
}

// A rank that computes for longer than the deadline is not stuck if nobody waits for longer than that.
TEST(Launch, LongStepsAreNotStuck) {
  Outcome outcome = outcomeOf("shm", 3, 0.3, [](Transport &t) {
    return train(t, [&](int step) {
      if (step == 5)
        sleepFor(0.6);
    });
  });
  EXPECT_EQ(outcome.code, 0) << outcome.error;
}

// SIGTERM (and Ctrl-C) sets a flag; the ranks follow what rank 0 sees and end in order. A reminder changes nothing.
TEST(Launch, StopRequestReachesAllRanks) {
  for (const char *transport : {"shm", "threads"})
    for (int ranks : {1, 3}) {
      const pid_t launcher = getpid();
      Outcome outcome = outcomeOf(transport, ranks, 10, [&](Transport &t) {
        for (int step = 0; step < 100000; ++step) {
          if (step == 10 && t.rank() == 0) {
            kill(launcher, SIGTERM);
            sleepFor(0.1);
            kill(launcher, SIGUSR1);
          }
          uint8_t stop = t.stopRequested();
          broadcast(t, t.world(), &stop, 1, 0);
          if (stop)
            return 7;
          sleepFor(1e-3);
        }
        return 0;
      });
      EXPECT_EQ(outcome.code, 7) << outcome.error;
    }
}

// A program that inherits an ignored SIGCHLD, as from some job starters, still learns that its ranks have ended.
TEST(Launch, RanksAreWaitedForWhereChildrenAreIgnored) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  Outcome outcome = outcomeOf("shm", 2, 10, [](Transport &) { return 5; });
  EXPECT_EQ(outcome.code, 5) << outcome.error;
  EXPECT_EQ(std::signal(SIGCHLD, before), SIG_IGN);
}

// Ranks do not outlive the process that started them.
TEST(Launch, RanksDieWithTheirParent) {
  struct Pids {
    std::atomic<int> pid[2];
  };
  auto *pids = static_cast<Pids *>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t parent = fork();
  if (parent == 0) {
    LaunchOptions options;
    options.ranks = 2;
    launch(options, [&](Transport &t) {
      pids->pid[t.rank()].store(getpid());
      sleepFor(20);
      return 0;
    });
    _exit(0);
  }
  while (!pids->pid[0].load() || !pids->pid[1].load())
    sleepFor(1e-3);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  auto isAlive = [](pid_t pid) { // a zombie that nobody reaps is dead too
    char path[64], state = 'Z';
    std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (FILE *file = std::fopen(path, "r")) {
      if (std::fscanf(file, "%*d %*s %c", &state) != 1)
        state = 'Z';
      std::fclose(file);
    }
    return state != 'Z' && state != 'X';
  };
  for (int tries = 0; tries < 1000 && (isAlive(pids->pid[0]) || isAlive(pids->pid[1])); ++tries)
    sleepFor(1e-3);
  EXPECT_FALSE(isAlive(pids->pid[0]) || isAlive(pids->pid[1]));
  munmap(pids, 4096);
}

TEST(Launch, RefusesWhatIsNotThere) {
  LaunchOptions options;
  options.transport = "carrier pigeon";
  EXPECT_EXIT(launch(options, [](Transport &) { return 0; }), testing::ExitedWithCode(4),
              "there is no transport 'carrier pigeon'; there are shm, threads, mpi and tcp");
  options.transport = "shm";
  options.ranks = 0;
  EXPECT_EXIT(launch(options, [](Transport &) { return 0; }), testing::ExitedWithCode(4),
              "a run has at least one rank, not 0");
}

} // namespace
} // namespace echelon::runtime
