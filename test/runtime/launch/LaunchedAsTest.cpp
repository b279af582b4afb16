// Who a process is, from environments that look like those of mpirun, srun and torchrun.
#include "runtime/launch/LaunchedAs.h"

#include <gtest/gtest.h>
#include <map>

namespace echelon::runtime {
namespace {

using Table = std::map<std::string, std::string>;

Table with(Table table, const Table &more) {
  for (const auto &[name, value] : more)
    table[name] = value;
  return table;
}

struct Read {
  LaunchedAs launched;
  std::string wrong;
};

Read read(const Table &table, int ranks, const std::string &store = "") {
  Read result;
  result.wrong = readLaunchedAs(
      [&](const char *name) -> const char * {
        const auto found = table.find(name);
        return found == table.end() ? nullptr : found->second.c_str();
      },
      store, ranks, result.launched);
  return result;
}

const Table kMpirun = {
    {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
const Table kSrun = {{"SLURM_PROCID", "2"},  {"SLURM_NTASKS", "4"},  {"SLURM_LOCALID", "0"},
                     {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "gpu[007-009]"}};
const Table kTorchrun = {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"TORCHELASTIC_RUN_ID", "none"}};
const Table kMeet = {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};

void expectMember(const Read &read, const std::string &launcher, int rank, int localRank, const std::string &host,
                  int port) {
  EXPECT_EQ(read.wrong, "");
  EXPECT_EQ(read.launched.launcher, launcher);
  EXPECT_EQ(read.launched.member.rank, rank);
  EXPECT_EQ(read.launched.member.size, 4);
  EXPECT_EQ(read.launched.member.localRank, localRank);
  EXPECT_EQ(read.launched.member.host, host);
  EXPECT_EQ(read.launched.member.port, port);
}

TEST(LaunchedAs, EachLauncher) {
  expectMember(read(with(kMpirun, kMeet), 4), "mpirun", 3, 1, "node1", 29500);
  expectMember(read(with(kSrun, kMeet), 4), "srun", 2, 0, "node1", 29500);
  expectMember(read(with(kTorchrun, kMeet), 4), "torchrun", 1, 1, "node1", 29500);
  expectMember(read(kTorchrun, 4, "[::1]:8000"), "torchrun", 1, 1, "::1", 8000);
  EXPECT_EQ(read({}, 4).launched.launcher, "");
  EXPECT_EQ(read({}, 4).wrong, "");
}

// torchrun's agent holds MASTER_PORT where it says so.
TEST(LaunchedAs, PortBesideTheAgents) {
  const Table agent = with(with(kTorchrun, kMeet), {{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  expectMember(read(agent, 4), "torchrun", 1, 1, "node1", 29501);
  expectMember(read(with(agent, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}), 4), "torchrun", 1, 1, "node1", 29500);
  expectMember(read(with(agent, {{"MASTER_PORT", "65535"}}), 4), "torchrun", 1, 1, "node1", 65534);
}

// srun starts a torchrun on each machine: the ranks are torchrun's.
TEST(LaunchedAs, TheInnermostLauncher) {
  expectMember(read(with(with(kSrun, {{"SLURM_NTASKS", "2"}}), with(kTorchrun, kMeet)), 4), "torchrun", 1, 1, "node1",
               29500);
  expectMember(read(with(with(kSrun, kMpirun), kMeet), 4), "mpirun", 3, 1, "node1", 29500); // mpirun in an allocation
}

// Jobs of Slurm meet at the first machine of the step, at a port of their own.
TEST(LaunchedAs, SlurmWithoutAPlace) {
  const Read first = read(kSrun, 4), next = read(with(kSrun, {{"SLURM_STEP_ID", "1"}}), 4);
  expectMember(first, "srun", 2, 0, "gpu007", first.launched.member.port);
  EXPECT_GE(first.launched.member.port, 20000);
  EXPECT_LT(first.launched.member.port, 30000);
  EXPECT_NE(first.launched.member.port, next.launched.member.port);
  EXPECT_NE(first.launched.member.job, next.launched.member.job);
  EXPECT_EQ(read(with(kSrun, {{"SLURM_STEP_NODELIST", ""}}), 4).wrong,
            "SLURM_JOB_NODELIST is not set, and neither is MASTER_ADDR: the ranks do not know where to meet; give "
            "--store HOST:PORT");
}

TEST(LaunchedAs, WhatIsWrongIsNamed) {
  EXPECT_EQ(read(with(kSrun, kMeet), 3).wrong,
            "this program has 3 ranks, but srun started 4 (SLURM_NTASKS=4); start it with srun -n 3");
  EXPECT_EQ(read({{"RANK", "1"}, {"LOCAL_RANK", "1"}}, 4).wrong,
            "RANK=1 is set, and WORLD_SIZE is not; torchrun sets RANK, WORLD_SIZE and LOCAL_RANK for each rank");
  EXPECT_EQ(read(with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "4"}}), 4).wrong,
            "OMPI_COMM_WORLD_RANK=4 is not below OMPI_COMM_WORLD_SIZE=4; ranks are counted from 0");
  EXPECT_EQ(read(with(kTorchrun, {{"LOCAL_RANK", "one"}}), 4).wrong,
            "LOCAL_RANK=one is no whole number from 0; torchrun sets it");
  EXPECT_EQ(read(kMpirun, 4).wrong, "MASTER_ADDR is not set: the ranks do not know where to meet; set it to the "
                                    "machine of rank 0 and MASTER_PORT to a free port of it, or give --store "
                                    "HOST:PORT");
  EXPECT_EQ(read(with(kMpirun, {{"MASTER_ADDR", "node1"}}), 4).wrong,
            "MASTER_ADDR=node1 is set, and MASTER_PORT is not; set it to a free port of that machine, or give --store "
            "HOST:PORT");
  EXPECT_EQ(read(with(with(kMpirun, kMeet), {{"MASTER_PORT", "0"}}), 4).wrong,
            "MASTER_PORT=0 is no port; ports are numbers from 1 to 65535");
  EXPECT_EQ(read(with(with(kSrun, kMeet), {{"RANK", "1"}, {"WORLD_SIZE", "4"}}), 4).wrong,
            "SLURM_PROCID=2 and SLURM_NTASKS=4 say another rank than RANK=1 and WORLD_SIZE=4; unset those of the "
            "launcher that has not started this rank");
  // Allocations of Slurm set it, for programs that are no tasks, too.
  EXPECT_EQ(read({{"SLURM_NTASKS", "4"}}, 4).wrong, "");
}

TEST(LaunchedAs, HostsOfSlurm) {
  EXPECT_EQ(firstHost("node1"), "node1");
  EXPECT_EQ(firstHost("login,node1"), "login");
  EXPECT_EQ(firstHost("node[007-012,15],login"), "node007");
  EXPECT_EQ(firstHost("rack[2,4]-n[10-12].cluster"), "rack2-n10.cluster");
  EXPECT_EQ(firstHost("node[1-"), "");
  EXPECT_EQ(firstHost("node[]"), "");
  EXPECT_EQ(firstHost(""), "");
}

TEST(LaunchedAs, HostAndPort) {
  std::string host;
  int port = 0;
  EXPECT_TRUE(readHostAndPort("node-1.cluster:29500", host, port));
  EXPECT_EQ(host, "node-1.cluster");
  EXPECT_EQ(port, 29500);
  EXPECT_TRUE(readHostAndPort("[fd00::2]:1", host, port));
  EXPECT_EQ(host, "fd00::2");
  for (const char *wrong : {"", "node", "node:", ":1", "node:0", "node:65536", "node:1x", "fd00::2:1", "[]:1"})
    EXPECT_FALSE(readHostAndPort(wrong, host, port)) << wrong;
}

} // namespace
} // namespace echelon::runtime
