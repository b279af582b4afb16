// Ranks over TCP: those that the program starts itself, those that a launcher has started, and what goes wrong.
#include "runtime/collectives/Collectives.h"
#include "runtime/launch/Fail.h"
#include "runtime/launch/Launch.h"
#include "runtime/transport/tcp/Socket.h"

#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace echelon::runtime {
namespace {

using Body = std::function<int(Transport &)>;

void sleepFor(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

int train(Transport &t, const std::function<void(int)> &atStep) {
  for (int step = 0; step < 40; ++step) {
    t.setStep(step);
    atStep(step);
    float value = 1;
    all_reduce(t, t.world(), &value, 1, Sum, "mlp.ech:33");
    if (value != float(t.size()))
      return 9;
  }
  return 0;
}

struct Outcome {
  std::vector<int> codes;
  std::string error;
};

/// All ranks, started by the program.
Outcome startedHere(int ranks, double deadline, const Body &body) {
  LaunchOptions options;
  options.transport = "tcp";
  options.ranks = ranks;
  options.deadlineSeconds = deadline;
  testing::internal::CaptureStderr();
  const int code = launch(options, body);
  return {{code}, testing::internal::GetCapturedStderr()};
}

int freePort() {
  std::string error;
  bool isTaken = false;
  return tcp::listenFor("127.0.0.1", 0, error, isTaken).own().port;
}

/// Ranks as a launcher starts them: a process each, with an environment.
class Launched {
public:
  explicit Launched(double deadline, int ranks) : deadline(deadline), ranks(ranks) {
    testing::internal::CaptureStderr();
  }
  void start(const std::map<std::string, std::string> &environment, const Body &body,
             const std::string &identity = "") {
    const pid_t child = fork();
    if (child == 0) {
      for (const auto &[name, value] : environment)
        setenv(name.c_str(), value.c_str(), 1);
      LaunchOptions options;
      options.transport = "tcp";
      options.ranks = ranks;
      options.deadlineSeconds = deadline;
      options.identity = identity;
      _exit(launch(options, body));
    }
    children.push_back(child);
  }
  /// As torchrun starts them without an agent, ranks [first, end).
  void startAll(int first, int end, const Body &body) {
    for (int rank = first; rank < end; ++rank)
      start(environmentOf(rank), body);
  }
  std::map<std::string, std::string> environmentOf(int rank) const {
    return {{"RANK", std::to_string(rank)},
            {"WORLD_SIZE", std::to_string(ranks)},
            {"LOCAL_RANK", std::to_string(rank)},
            {"MASTER_ADDR", "localhost"},
            {"MASTER_PORT", std::to_string(port)}};
  }
  Outcome end() {
    Outcome outcome;
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      outcome.codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    }
    outcome.error = testing::internal::GetCapturedStderr();
    return outcome;
  }

  const int port = freePort();
  double deadline;
  int ranks;
  std::vector<pid_t> children;
};

using Codes = std::vector<int>;

int timesIn(const std::string &text, const std::string &part) {
  int times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++times;
  return times;
}
void expectOnce(const Outcome &outcome, const std::string &part) {
  EXPECT_EQ(timesIn(outcome.error, part), 1) << part << "\nis once in\n" << outcome.error;
}

TEST(LaunchTcp, RanksStartedHere) {
  for (int ranks : {1, 3}) {
    const Outcome outcome = startedHere(ranks, 30, [&](Transport &t) {
      EXPECT_STREQ(t.name(), "tcp");
      return t.ranksHere() == ranks && t.localRank() == t.rank() && t.networkInterface().empty() ? train(t, [](int) {})
                                                                                                 : 8;
    });
    EXPECT_EQ(outcome.codes, Codes{0});
    EXPECT_EQ(outcome.error, "");
  }
  EXPECT_EQ(startedHere(3, 30, [](Transport &) { return 5; }).codes, Codes{5});
  const Outcome differ = startedHere(2, 30, [](Transport &t) { return t.rank(); });
  EXPECT_EQ(differ.codes, Codes{4});
  EXPECT_EQ(differ.error, "echelon: ranks ended with different codes: rank 0 with 0, rank 1 with 1\n");
}

TEST(LaunchTcp, RanksOfEachLauncher) {
  const std::vector<std::array<const char *, 3>> launchers = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
      {"RANK", "WORLD_SIZE", "LOCAL_RANK"}};
  for (const auto &names : launchers) {
    Launched run(30, 4);
    for (int rank = 3; rank >= 0; --rank) // rank 0 is the last to come
      run.start({{names[0], std::to_string(rank)},
                 {names[1], "4"},
                 {names[2], std::to_string(rank % 2)},
                 {"MASTER_ADDR", "localhost"},
                 {"MASTER_PORT", std::to_string(run.port)}},
                [&](Transport &t) { return t.localRank() == t.rank() % 2 ? train(t, [](int) {}) : 8; });
    const Outcome outcome = run.end();
    EXPECT_EQ(outcome.codes, (Codes{0, 0, 0, 0})) << names[0];
    EXPECT_EQ(outcome.error, "");
  }
}

TEST(LaunchTcp, LateRankIsNamed) {
  const Outcome outcome = startedHere(3, 0.5, [](Transport &t) {
    return train(t, [&](int step) {
      if (step == 5 && t.rank() == 2)
        sleepFor(20);
    });
  });
  EXPECT_EQ(outcome.codes, Codes{4});
  expectOnce(outcome, "rank 2 did not come to all_reduce (mlp.ech:33) at step 5 within 0.5 s; it is at step 5, last in "
                      "all_reduce (mlp.ech:33)\n");
}

// Rank 0 is watched as the others are: its thread answers while it computes.
TEST(LaunchTcp, LateRankZeroIsNamed) {
  const Outcome outcome = startedHere(2, 0.5, [](Transport &t) {
    return train(t, [&](int step) {
      if (step == 5 && t.rank() == 0)
        sleepFor(20);
    });
  });
  EXPECT_EQ(outcome.codes, Codes{4});
  EXPECT_EQ(outcome.error, "echelon: rank 1: rank 0 did not come to all_reduce (mlp.ech:33) at step 5 within 0.5 s; it "
                           "is at step 5, last in all_reduce (mlp.ech:33)\n");
}

TEST(LaunchTcp, StoppedRankIsNamed) {
  Launched run(1, 3);
  run.startAll(0, 3, [](Transport &t) {
    return train(t, [&](int step) {
      if (step == 5 && t.rank() == 1) {
        sleepFor(0.5); // it has said where it is
        raise(SIGSTOP);
      }
    });
  });
  int status = 0;
  for (const int rank : {0, 2}) {
    waitpid(run.children[size_t(rank)], &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 4);
  }
  kill(run.children[1], SIGKILL);
  run.children = {run.children[1]};
  const Outcome outcome = run.end();
  expectOnce(outcome, "rank 1 did not come to all_reduce (mlp.ech:33) at step 5 within 1 s; it has said nothing for ");
  expectOnce(outcome,
             ": it is stopped, or its machine is out of reach; it was at step 5, last in all_reduce (mlp.ech:33)\n");
}

// A rank that is killed is named before the deadline, though the others compute, and all end.
TEST(LaunchTcp, KilledRankIsNamed) {
  for (const int victim : {0, 2}) {
    Launched run(600, 3);
    run.startAll(0, 3, [&](Transport &t) {
      return train(t, [&](int step) {
        if (step == 7 && t.rank() == victim) {
          sleepFor(0.5); // it has said where it is
          raise(SIGKILL);
        }
        if (step == 7 && t.rank() == 1)
          sleepFor(600);
      });
    });
    const Outcome outcome = run.end();
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(outcome.codes[size_t(rank)], rank == victim ? -SIGKILL : 4);
    if (victim == 2)
      EXPECT_EQ(outcome.error, "echelon: rank 2 is gone: its connection closed; it was at step 7, last in all_reduce "
                               "(mlp.ech:33); rank 0 waits in all_reduce (mlp.ech:33) at step 7\n");
    else
      EXPECT_EQ(outcome.error,
                "echelon: rank 1: rank 0 is gone: its connection closed; this rank is at step 7, last in "
                "all_reduce (mlp.ech:33)\n");
  }
}

TEST(LaunchTcp, FailNamesTheRankOnce) {
  for (const int failing : {0, 2}) {
    const Outcome outcome = startedHere(3, 60, [&](Transport &t) {
      return train(t, [&](int step) {
        if (step == 7 && t.rank() == failing)
          fail("the data file is short");
      });
    });
    EXPECT_EQ(outcome.codes, Codes{4});
    EXPECT_EQ(outcome.error, "echelon: rank " + std::to_string(failing) + ": the data file is short\n");
  }
}

TEST(LaunchTcp, RanksThatWaitForEachOther) {
  const Outcome outcome = startedHere(2, 0.6, [](Transport &t) {
    char byte = 0;
    t.receive(1 - t.rank(), &byte, 1, 0, "knot.ech:1");
    return 0;
  });
  EXPECT_EQ(outcome.codes, Codes{4});
  expectOnce(outcome, ": ranks wait for each other: this one in receive (knot.ech:1); rank ");
}

// A long step of all is no late rank.
TEST(LaunchTcp, LongStepsAreNotStuck) {
  const Outcome outcome = startedHere(3, 2, [](Transport &t) {
    return train(t, [&](int step) {
      if (step == 5)
        sleepFor(3);
    });
  });
  EXPECT_EQ(outcome.codes, Codes{0}) << outcome.error;
}

TEST(LaunchTcp, MessagesOfOtherLengthsAreRefused) {
  const Outcome outcome = startedHere(2, 60, [](Transport &t) {
    char bytes[16] = {};
    if (t.rank() == 0)
      t.send(1, bytes, 8);
    else
      t.receive(0, bytes, 16);
    float value = 0;
    all_reduce(t, t.world(), &value, 1, Sum);
    return 0;
  });
  EXPECT_EQ(outcome.codes, Codes{4});
  EXPECT_EQ(outcome.error, "echelon: rank 1: ranks disagree: rank 0 sends 8 bytes, and this one awaits 16\n");
}

TEST(LaunchTcp, StopRequestReachesAllRanks) {
  const pid_t launcher = getpid();
  const Outcome outcome = startedHere(3, 10, [&](Transport &t) {
    for (int step = 0; step < 100000; ++step) {
      if (step == 10 && t.rank() == 0)
        kill(launcher, SIGTERM);
      uint8_t stop = t.stopRequested();
      broadcast(t, t.world(), &stop, 1, 0);
      if (stop)
        return 7;
      sleepFor(1e-3);
    }
    return 0;
  });
  EXPECT_EQ(outcome.codes, Codes{7}) << outcome.error;
}

// ---- bring-up ----

int nothing(Transport &) { return 0; }

TEST(LaunchTcp, RankThatNeverComesIsNamed) {
  Launched run(0.2, 4);
  run.startAll(0, 2, nothing);
  const Outcome outcome = run.end();
  EXPECT_EQ(outcome.codes, (Codes{4, 4}));
  EXPECT_EQ(outcome.error, "echelon: rank 0: rank 2 and rank 3 did not come to localhost:" + std::to_string(run.port) +
                               " within 1.2 s (six deadlines)\n");
}

TEST(LaunchTcp, RankZeroThatNeverComesIsNamed) {
  Launched run(0.2, 2);
  run.startAll(1, 2, nothing);
  const Outcome outcome = run.end();
  EXPECT_EQ(outcome.codes, Codes{4});
  EXPECT_EQ(outcome.error, "echelon: rank 1: rank 0 does not listen at localhost:" + std::to_string(run.port) +
                               " within 1.2 s (six deadlines): Connection refused; where it does is said by "
                               "MASTER_ADDR and MASTER_PORT, or --store HOST:PORT\n");
}

TEST(LaunchTcp, WrongWorldSize) {
  Launched run(5, 3);
  auto environment = run.environmentOf(0);
  environment["WORLD_SIZE"] = "2";
  run.start(environment, nothing);
  const Outcome outcome = run.end();
  EXPECT_EQ(outcome.codes, Codes{4});
  EXPECT_EQ(outcome.error, "echelon: --transport tcp: this program has 3 ranks, but torchrun started 2 (WORLD_SIZE=2); "
                           "start it with torchrun --no-python --nproc-per-node=3\n");
}

TEST(LaunchTcp, TakenPortIsNamed) {
  std::string error;
  bool isTaken = false;
  Launched run(5, 2);
  const tcp::Socket other = tcp::listenFor("127.0.0.1", run.port, error, isTaken);
  ASSERT_TRUE(other.isOpen()) << error;
  run.startAll(0, 1, nothing);
  const Outcome outcome = run.end();
  EXPECT_EQ(outcome.codes, Codes{4});
  EXPECT_EQ(outcome.error, "echelon: rank 0: cannot listen at localhost:" + std::to_string(run.port) +
                               ": the port is taken on this machine; choose another by MASTER_ADDR and MASTER_PORT, or "
                               "--store HOST:PORT\n");
}

tcp::Socket connected(int port) {
  std::string error;
  for (;;) {
    tcp::Socket socket = tcp::connectTo(tcp::resolve("127.0.0.1", port, error).at(0),
                                        tcp::Clock::now() + std::chrono::seconds(5), error);
    if (socket.isOpen())
      return socket;
    sleepFor(0.01);
  }
}

// Who talks nonsense, or nothing, at the meeting point is sent away, and the run goes on.
TEST(LaunchTcp, StrangersAreSentAway) {
  Launched run(30, 2);
  run.startAll(0, 1, [](Transport &t) { return train(t, [](int) {}); });
  const tcp::Socket silent = connected(run.port), loud = connected(run.port);
  const std::string nonsense(4096, 'x');
  tcp::sendAll(loud, nonsense.data(), nonsense.size(), tcp::Clock::now() + std::chrono::seconds(5));
  EXPECT_TRUE(loud.awaitBytes(tcp::Clock::now() + std::chrono::seconds(20))); // it is told, or cut off
  run.startAll(1, 2, [](Transport &t) { return train(t, [](int) {}); });
  const Outcome outcome = run.end();
  EXPECT_EQ(outcome.codes, (Codes{0, 0}));
  EXPECT_EQ(outcome.error, "");
}

// Ranks of another job, of another program, and a second of the same number are told so; the run goes on without them.
TEST(LaunchTcp, RanksOfOthersAreSentAway) {
  Launched run(30, 3);
  const Body body = [](Transport &t) { return train(t, [](int) {}); };
  auto other = run.environmentOf(1);
  other["TORCHELASTIC_RUN_ID"] = "other";
  run.start(run.environmentOf(0), body);
  run.start(other, body);
  run.start(run.environmentOf(1), body, "another program");
  for (const size_t sentAway : {1, 2}) {
    int status = 0;
    waitpid(run.children[sentAway], &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 4);
  }
  run.children.resize(1);
  run.start(run.environmentOf(1), body);
  sleepFor(0.5); // it has come
  run.start(run.environmentOf(1), body);
  int status = 0;
  waitpid(run.children[2], &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 4);
  run.children.resize(2);
  run.start(run.environmentOf(2), body);
  const Outcome outcome = run.end();
  EXPECT_EQ(outcome.codes, (Codes{0, 0, 0}));
  expectOnce(outcome,
             "echelon: rank 1: rank 0 sent it away: it is of another job than the run that meets at localhost:");
  expectOnce(outcome, "echelon: rank 1: rank 0 sent it away: its program is another than that of rank 0\n");
  expectOnce(outcome,
             "echelon: rank 1: rank 0 sent it away: rank 1 has come already, from 127.0.0.1; two processes say "
             "that they are it\n");
}

TEST(LaunchTcp, WhoListensIsNotRankZero) {
  std::string error;
  bool isTaken = false;
  Launched run(0.2, 2);
  const tcp::Socket store = tcp::listenFor("127.0.0.1", run.port, error, isTaken);
  run.startAll(1, 2, nothing);
  tcp::Reception reception(store, 1);
  while (reception.next(tcp::Clock::now() + std::chrono::seconds(2))) // takes it, and closes
    ;
  const Outcome outcome = run.end();
  EXPECT_EQ(outcome.codes, Codes{4});
  EXPECT_EQ(outcome.error, "echelon: rank 1: what listened at localhost:" + std::to_string(run.port) +
                               " cut the connection off: it is not rank 0 of this run, or rank 0 is gone\n");
}

TEST(LaunchTcp, StoreWithoutALauncher) {
  LaunchOptions options;
  options.transport = "tcp";
  options.store = "localhost:1";
  EXPECT_EXIT(launch(options, nothing), testing::ExitedWithCode(4),
              "--store is where the ranks meet that torchrun, srun or mpirun starts");
}

} // namespace
} // namespace echelon::runtime
