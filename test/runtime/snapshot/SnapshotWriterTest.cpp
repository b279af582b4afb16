// Snapshots that are written while the state goes on changing are those of their step, whoever holds what.
#include "runtime/snapshot/SnapshotWriter.h"
#include "runtime/collectives/Collectives.h"
#include "runtime/launch/Launch.h"
#include "runtime/program/StartValues.h"
#include "runtime/snapshot/Snapshot.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <unistd.h>

using namespace echelon::runtime;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kA = 300, kB = 200;

/// A parameter that `layout` spreads and a momentum that is cut over the first mesh axis.
Program twoTensors(const Layout &layout) {
  Program program;
  program.name = "two tensors";
  program.seed = 3;
  program.mesh = {{"p", 2}, {"q", 2}};
  Layout cut = layout;
  cut.flatCuts = {0};
  const int64_t bytes = (4 * localCount(layout, program.mesh) + 63) / 64 * 64;
  program.stored = {
      {Stored::Param, "x", {"a", "b"}, layout, ElementType::Float32, {Init::Normal, 1, 0}, 0},
      {Stored::Optimizer, "x.momentum", {"a", "b"}, cut, ElementType::Float32, {Init::Normal, 1, 0}, bytes}};
  program.stateBytes = bytes + 4 * localCount(cut, program.mesh);
  program.checkpoint.directory = "ckpt";
  return program;
}

/// Held by all, and split.
const std::vector<Layout> kLayouts = {{{{"a", kA, {}}, {"b", kB, {}}}, {}}, {{{"b", kB, {1}}, {"a", kA, {}}}, {}}};

class Writer : public testing::Test {
protected:
  void TearDown() override { fs::remove_all(folder); }

  /// `reaches`: rank 0 reads the others' copies.
  int onRanks(const Program &program, const std::string &transport, const std::function<void(Rank &)> &body,
              bool reaches = true) {
    LaunchOptions options;
    options.transport = transport;
    options.ranks = meshSize(program.mesh);
    options.sharedBytesPerRank = arenaBytes(program) + (reaches ? copyBytes(program) : 0);
    return launch(options, [&](Transport &transport) {
      Rank rank(program, transport);
      fillStartValues(rank);
      body(rank);
      return 0;
    });
  }
  /// The state of a step: no element is what it was.
  static void change(Rank &rank, int64_t step) {
    std::memset(rank.state<std::byte>(0), int(step + 1), size_t(rank.program().stateBytes));
  }
  std::string read(const std::string &name) {
    std::ifstream file(folder + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string folder = (fs::temp_directory_path() / ("echelon-writer-" + std::to_string(getpid()))).string();
};

// The files are those that saveSnapshot writes, to the byte, though the state changes as soon as begin() returns, and
// the next snapshot is begun at once.
TEST_F(Writer, WhatItWritesIsTheStateOfTheStep) {
  for (const char *transport : {"threads", "shm"})
    for (const Layout &layout : kLayouts)
      for (const bool hasRoom : {true, false}) {
        EXPECT_EQ(onRanks(twoTensors(layout), transport,
                          [&](Rank &rank) {
                            SnapshotWriter writer(rank, folder + "/beside", 0, hasRoom);
                            for (int64_t step = 1; step <= 8; ++step) {
                              writer.begin(step);
                              writer.check();
                              change(rank, step);
                            }
                            writer.finish();
                          }),
                  0);
        EXPECT_EQ(onRanks(twoTensors(layout), transport,
                          [&](Rank &rank) {
                            for (int64_t step = 1; step <= 8; ++step) {
                              saveSnapshot(rank, folder + "/within", step, 0);
                              change(rank, step);
                            }
                          }),
                  0);
        for (int64_t step = 1; step <= 8; ++step)
          for (const char *file : {"model.safetensors", "optimizer.safetensors", "manifest.json"}) {
            const std::string name = "/step-0000000" + std::to_string(step) + "/" + file;
            EXPECT_EQ(read("beside" + name), read("within" + name)) << name << " " << transport << hasRoom;
            EXPECT_FALSE(read("beside" + name).empty());
          }
        fs::remove_all(folder);
      }
}

// Parameters and optimizer state that are not finite are not kept; a state of the model's own is what it likes.
TEST_F(Writer, WhatIsNotFinite) {
  for (const Stored::Kind kind : {Stored::Param, Stored::Optimizer, Stored::State})
    for (const ElementType type : {ElementType::Float32, ElementType::Float64}) {
      Program program = twoTensors({{{"a", kA, {}}, {"b", kB, {}}}, {}});
      program.mesh = {{"p", 1}};
      const int64_t bytes = kA * kB * (type == ElementType::Float64 ? 8 : 4);
      program.stored = {{kind, "x", {"a", "b"}, program.stored[0].layout, type, {Init::Normal, 1, 0}, 0}};
      program.stateBytes = bytes;
      for (const double last : {1.0, -std::numeric_limits<double>::infinity()}) {
        const int ended = onRanks(program, "threads", [&](Rank &rank) {
          if (type == ElementType::Float64)
            rank.state<double>(0)[kA * kB - 1] = last;
          else
            rank.state<float>(0)[kA * kB - 1] = float(last);
          saveSnapshot(rank, folder, 1, 0);
        });
        EXPECT_EQ(ended == 0, kind == Stored::State || last == 1) << int(kind) << " " << int(type) << " " << last;
        EXPECT_EQ(fs::exists(folder + "/step-00000001"), ended == 0);
        fs::remove_all(folder);
      }
    }
}

// The same where the copies come to rank 0 as messages: of a tensor in several chunks, whose last is not full, and of
// one that rank 0 has whole.
TEST_F(Writer, WhatComesAsMessagesIsTheStateOfTheStep) {
  Program program = twoTensors(kLayouts[1]);
  const Layout large = {{{"c", 1009, {}}, {"d", 3001, {0, 1}, 3004}}, {}}, whole = {{{"e", 7, {}}}, {}};
  for (const Layout &layout : {large, whole}) {
    program.stateBytes = (program.stateBytes + 63) / 64 * 64;
    std::vector<std::string> axes;
    for (const auto &axis : layout.axes)
      axes.push_back(axis.name);
    program.stored.push_back(
        {Stored::Param, axes.front(), axes, layout, ElementType::Float32, {Init::Normal, 1, 0}, program.stateBytes});
    program.stateBytes += 4 * localCount(layout, program.mesh);
  }
  const auto save = [&](const std::string &to) {
    return [to, this](Rank &rank) {
      std::optional<SnapshotWriter> writer;
      if (to == "beside")
        writer.emplace(rank, folder + "/beside", 0, true);
      for (int64_t step = 1; step <= 3; ++step) {
        if (writer)
          writer->begin(step);
        else
          saveSnapshot(rank, folder + "/within", step, 0);
        change(rank, step);
        barrier(rank.transport(), rank.transport().world());
      }
      if (writer)
        writer->finish();
    };
  };
  EXPECT_EQ(onRanks(program, "shm", save("beside"), false), 0);
  EXPECT_EQ(onRanks(program, "shm", save("within")), 0);
  for (int64_t step = 1; step <= 3; ++step)
    for (const char *file : {"model.safetensors", "optimizer.safetensors", "manifest.json"}) {
      const std::string name = "/step-0000000" + std::to_string(step) + "/" + file;
      EXPECT_EQ(read("beside" + name), read("within" + name)) << name;
      EXPECT_FALSE(read("beside" + name).empty());
    }
}

// A rank's copy takes what the plan says, and is memory of the process while the writer lives. Without room there is
// none.
TEST_F(Writer, ItsMemoryIsPlanned) {
  Program program = twoTensors(kLayouts[0]);
  EXPECT_EQ(copyBytes(program), size_t((program.stateBytes + 63) / 64 * 64));
  EXPECT_EQ(onRanks(program, "threads",
                    [&](Rank &rank) {
                      SnapshotWriter writer(rank, folder, 0, true), without(rank, folder, 0, false);
                      EXPECT_EQ(writer.bytes(), copyBytes(program));
                      EXPECT_EQ(without.bytes(), 0u);
                    }),
            0);
  EXPECT_EQ(copiedBytes(), 0u);
  program.checkpoint.directory.clear();
  EXPECT_EQ(copyBytes(program), 0u);
}

// A run that ends while it writes leaves a whole snapshot.
TEST_F(Writer, ComesToItsEnd) {
  EXPECT_EQ(onRanks(twoTensors(kLayouts[1]), "threads",
                    [&](Rank &rank) {
                      SnapshotWriter writer(rank, folder, 0, true);
                      writer.begin(1);
                      barrier(rank.transport(), rank.transport().world());
                    }),
            0);
  Snapshot snapshot;
  EXPECT_EQ(openSnapshot(folder + "/step-00000001", snapshot), "");
}

} // namespace
