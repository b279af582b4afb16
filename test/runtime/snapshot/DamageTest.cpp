// A snapshot of which any bit has changed, or any part is cut off, is refused by name, and the one before it is taken.
#include "runtime/launch/Launch.h"
#include "runtime/program/StartValues.h"
#include "runtime/snapshot/Snapshot.h"
#include "runtime/snapshot/SnapshotFiles.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <unistd.h>

using namespace echelon::runtime;
namespace fs = std::filesystem;

namespace {

Program twoTensors() {
  Program program;
  program.name = "damage";
  program.seed = 3;
  const Layout layout = {{{"a", 5, {}}, {"b", 7, {}}}, {}};
  program.stored = {
      {Stored::Param, "x", {"a", "b"}, layout, ElementType::Float32, {Init::Normal, 1, 0}, 0},
      {Stored::Optimizer, "x.momentum", {"a", "b"}, layout, ElementType::Float32, {Init::Normal, 1, 0}, 192}};
  program.stateBytes = 384;
  program.fingerprints = {{"model", "x[a = 5, b = 7]\n"}, {"optimizer", "sgd\n"}};
  return program;
}

std::string read(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const fs::path &path, const std::string &text) {
  fs::remove(path); // ext4 waits for the disk where a file is cut and written again
  std::ofstream(path, std::ios::binary) << text;
}

class Damage : public testing::Test {
protected:
  void SetUp() override {
    const Program program = twoTensors();
    LaunchOptions options;
    options.transport = "threads";
    ASSERT_EQ(launch(options,
                     [&](Transport &transport) {
                       Rank rank(program, transport);
                       fillStartValues(rank);
                       saveSnapshot(rank, folder, 1, 0);
                       saveSnapshot(rank, folder, 2, 0);
                       return 0;
                     }),
              0);
    Snapshot snapshot;
    ASSERT_EQ(openSnapshot(newest, snapshot), "");
  }
  void TearDown() override { fs::remove_all(folder); }

  /// How the newest snapshot is refused, with one of its files replaced; after that it is whole again.
  void refuses(const std::string &file, const std::string &damaged, const std::string &how) {
    const fs::path path = fs::path(newest) / file;
    const std::string whole = read(path);
    ASSERT_NE(damaged, whole);
    write(path, damaged);
    Snapshot snapshot;
    std::vector<std::string> warnings;
    EXPECT_EQ(findSnapshot(folder, snapshot, warnings), "") << how;
    EXPECT_EQ(snapshot.step, 1) << how;
    ASSERT_EQ(warnings.size(), 1u) << how;
    EXPECT_EQ(warnings[0].rfind("snapshot \"" + newest + "\" is damaged: ", 0), 0u) << warnings[0];
    write(path, whole);
  }

  const std::string folder = (fs::temp_directory_path() / ("echelon-damage-" + std::to_string(getpid()))).string();
  const std::string newest = folder + "/step-00000002";
};

// What is called as another step's is not that step's.
TEST_F(Damage, NamedAsAnotherStep) {
  const std::string copy = folder + "/step-00000009";
  fs::copy(newest, copy);
  Snapshot snapshot;
  std::vector<std::string> warnings;
  EXPECT_EQ(findSnapshot(folder, snapshot, warnings), "");
  EXPECT_EQ(snapshot.step, 2);
  EXPECT_EQ(warnings,
            (std::vector<std::string>{"snapshot \"" + copy +
                                      "\" is damaged: its manifest.json is of step 2; taking the one before it"}));
  EXPECT_EQ(openSnapshot(copy + "/", snapshot),
            "snapshot \"" + copy + "/\" is damaged: its manifest.json is of step 2");
}

TEST_F(Damage, FlipsAndCuts) {
  constexpr int kTrials = 10000;
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  const char *files[] = {"manifest.json", "model.safetensors", "optimizer.safetensors"};
  for (int trial = 0; trial < kTrials && !HasFailure(); ++trial) {
    const std::string file = files[below(3)], whole = read(fs::path(newest) / file);
    std::string damaged = whole;
    if (trial % 2) {
      const size_t bit = below(8 * whole.size());
      damaged[bit / 8] ^= char(1 << bit % 8);
      refuses(file, damaged, "bit " + std::to_string(bit) + " of " + file);
    } else {
      damaged.resize(below(whole.size()));
      refuses(file, damaged, file + " cut to " + std::to_string(damaged.size()) + " bytes");
    }
  }
}

// Every bit, one after the other, and every length.
TEST_F(Damage, EveryBitOfTheManifest) {
  const std::string whole = read(newest + "/manifest.json");
  for (size_t at = 0; at < whole.size() && !HasFailure(); ++at) {
    refuses("manifest.json", whole.substr(0, at), "cut to " + std::to_string(at));
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] ^= char(1 << bit);
      refuses("manifest.json", damaged, "bit " + std::to_string(bit) + " of byte " + std::to_string(at));
    }
  }
}

// A step that no run can have, its checksum right.
TEST_F(Damage, StepBeyondCounting) {
  write(fs::path(newest) / "manifest.json",
        newManifest(twoTensors(), {}, (int64_t(1) << 53) + 1, {{"model.safetensors", 0, 0}}));
  Snapshot snapshot;
  EXPECT_EQ(openSnapshot(newest, snapshot),
            "snapshot \"" + newest + "\" is damaged: its manifest.json is not one of a snapshot");
}

TEST_F(Damage, FilesThatAreMissingOrLonger) {
  for (const char *file : {"manifest.json", "model.safetensors", "optimizer.safetensors"}) {
    refuses(file, read(fs::path(newest) / file) + "\n", std::string(file) + " and a line");
    fs::rename(fs::path(newest) / file, folder + "/elsewhere");
    Snapshot snapshot;
    std::vector<std::string> warnings;
    EXPECT_EQ(findSnapshot(folder, snapshot, warnings), "");
    EXPECT_EQ(snapshot.step, 1);
    EXPECT_EQ(warnings.size(), 1u);
    fs::rename(folder + "/elsewhere", fs::path(newest) / file);
  }
}

} // namespace
