#include "runtime/program/Assemble.h"
#include "runtime/launch/Launch.h"
#include "runtime/program/StartValues.h"
#include "runtime/snapshot/Snapshot.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>

using namespace echelon::runtime;

namespace {

constexpr int64_t kA = 5, kB = 6, kC = 3;

/// One tensor x[a, b, c] of random values.
Program programOf(const Layout &layout, const std::vector<MeshAxis> &mesh) {
  Program program;
  program.name = "one tensor";
  program.seed = 3;
  program.mesh = mesh;
  program.stored = {{Stored::Param, "x", {"a", "b", "c"}, layout, ElementType::Float32, {Init::Normal, 1, 0}, 0}};
  program.stateBytes = 4 * localCount(layout, mesh);
  return program;
}

void onRanks(const Program &program, const std::function<void(Rank &)> &body, double deadline = 10) {
  LaunchOptions options;
  options.deadlineSeconds = deadline;
  options.transport = "threads";
  options.ranks = meshSize(program.mesh);
  EXPECT_EQ(launch(options,
                   [&](Transport &transport) {
                     Rank rank(program, transport);
                     body(rank);
                     return 0;
                   }),
            0);
}

const std::vector<MeshAxis> kMesh = {{"p", 2}, {"q", 3}};

/// Splits, storage in another order, padding, flat cuts, and both.
const std::vector<Layout> kLayouts = {
    {{{"a", kA, {}}, {"b", kB, {0, 1}}, {"c", kC, {}}}, {}},
    {{{"c", kC, {1}}, {"b", kB, {0}}, {"a", kA, {}}}, {}},
    {{{"a", kA, {0}, 6}, {"c", kC, {}}, {"b", kB, {1}}}, {}},
    {{{"a", kA, {}}, {"b", kB, {}}, {"c", kC, {}}}, {0, 1}},
    {{{"b", kB, {0}}, {"a", kA, {}}, {"c", kC, {}}}, {1}},
    {{{"a", kA, {}}, {"b", kB, {}}, {"c", kC, {}}}, {0, 1}, 1},
    {{{"c", kC, {1}}, {"a", kA, {}}, {"b", kB, {}}}, {0}, 2},
    {{{"a", kA, {}}, {"b", kB, {}}, {"c", kC, {}}}, {}},
};

// Start values do not depend on the layout, and rank 0 gets the whole tensor in pieces of any size.
TEST(Assemble, EveryLayoutGivesTheSameTensor) {
  std::vector<float> reference(kA * kB * kC);
  fill_random(reference.data(), {3, path_hash("x"), 0}, Distribution::Normal, 0, 1, {{kA * kB * kC, 0, 1}});
  for (const Layout &layout : kLayouts)
    for (size_t chunk : {size_t(12), size_t(100), size_t(1) << 20}) {
      std::vector<float> whole;
      onRanks(programOf(layout, kMesh), [&](Rank &rank) {
        fillStartValues(rank);
        WriterTurns turns(rank, "test");
        assemble(
            rank, turns, storedTensors(rank)[0],
            [&](const std::byte *data, size_t bytes) {
              EXPECT_LE(bytes, chunk);
              whole.resize(whole.size() + bytes / 4);
              std::memcpy(whole.data() + whole.size() - bytes / 4, data, bytes);
            },
            chunk);
        turns.end();
      });
      EXPECT_EQ(whole, reference);
    }
}

// A disk that takes longer than the deadline holds nobody up: neither ranks whose turn comes late nor those without
// one.
TEST(Assemble, SlowDisk) {
  for (const Layout &layout : {kLayouts[0], kLayouts.back()})
    onRanks(
        programOf(layout, kMesh),
        [&](Rank &rank) {
          WriterTurns turns(rank, "test");
          assemble(
              rank, turns, storedTensors(rank)[0],
              [&](const std::byte *, size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }, 100);
          turns.end();
        },
        1.0);
}

// A snapshot that one layout wrote gives every other layout the pieces that start values would have given it.
TEST(Snapshot, EveryLayoutLoadsEverySnapshot) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("echelon-snapshot-" + std::to_string(getpid()))).string();
  for (const Layout &from : kLayouts) {
    onRanks(programOf(from, kMesh), [&](Rank &rank) {
      fillStartValues(rank);
      saveSnapshot(rank, folder, 1, 1);
    });
    Snapshot snapshot;
    ASSERT_EQ(openSnapshot(folder + "/step-00000001", snapshot), "");
    for (const Layout &to : kLayouts)
      onRanks(programOf(to, kMesh), [&](Rank &rank) {
        fillStartValues(rank);
        const size_t bytes = size_t(rank.program().stateBytes);
        std::vector<std::byte> expected(rank.state<std::byte>(0), rank.state<std::byte>(0) + bytes);
        std::memset(rank.state<std::byte>(0), 255, bytes);
        loadSnapshot(rank, snapshot, true);
        EXPECT_EQ(std::memcmp(rank.state<std::byte>(0), expected.data(), bytes), 0);
      });
  }
  std::filesystem::remove_all(folder);
}

// A manifest that matches its checksum and says something else than a snapshot's is refused, not believed.
TEST(Snapshot, ManifestOfAnotherKind) {
  namespace fs = std::filesystem;
  const std::string folder = (fs::temp_directory_path() / ("echelon-manifest-" + std::to_string(getpid()))).string();
  fs::create_directories(folder);
  for (const char *rest : {R"("step":"1","files":[])", R"("step":1)", R"("step":1,"files":[7])",
                           R"("step":1,"files":[{"name":"x"}])", R"("step":1,"files":[],"fingerprints":{"model":1})"}) {
    const std::string body = std::string(R"({"format":"echelon-snapshot","version":1,)") + rest + "}";
    char checksum[16];
    std::snprintf(checksum, sizeof checksum, "%08x", crc32Of(0, body.data(), body.size()));
    nlohmann::ordered_json manifest = nlohmann::ordered_json::parse(body);
    manifest["checksum"] = checksum;
    std::ofstream(folder + "/manifest.json") << manifest.dump(1) << "\n";
    Snapshot snapshot;
    EXPECT_EQ(openSnapshot(folder, snapshot),
              "snapshot \"" + folder + "\" is damaged: its manifest.json is not one of a snapshot")
        << rest;
  }
  fs::remove_all(folder);
}

// Nothing outside of a snapshot is read: its manifest names no other file, and what is a symbolic link is refused.
TEST(Snapshot, StaysInItsFolder) {
  namespace fs = std::filesystem;
  const std::string base = (fs::temp_directory_path() / ("echelon-inside-" + std::to_string(getpid()))).string(),
                    folder = base + "/step-00000001";
  onRanks(programOf(kLayouts[0], kMesh), [&](Rank &rank) {
    fillStartValues(rank);
    saveSnapshot(rank, base, 1, 1);
  });
  Snapshot snapshot;
  std::vector<std::string> warnings;
  fs::rename(folder + "/model.safetensors", base + "/elsewhere");
  fs::create_symlink(base + "/elsewhere", folder + "/model.safetensors");
  EXPECT_EQ(openSnapshot(folder, snapshot),
            "snapshot \"" + folder + "\" is damaged: model.safetensors is a symbolic link");
  fs::remove(folder + "/model.safetensors");
  fs::rename(base + "/elsewhere", folder + "/model.safetensors");
  ASSERT_EQ(openSnapshot(folder, snapshot), "");

  fs::rename(folder + "/manifest.json", base + "/elsewhere");
  fs::create_symlink(base + "/elsewhere", folder + "/manifest.json");
  EXPECT_EQ(openSnapshot(folder, snapshot), "snapshot \"" + folder + "\" is damaged: manifest.json is a symbolic link");
  fs::remove(folder + "/manifest.json");
  fs::rename(base + "/elsewhere", folder + "/manifest.json");

  fs::rename(folder, base + "/elsewhere");
  fs::create_directory_symlink(base + "/elsewhere", folder);
  EXPECT_EQ(findSnapshot(base, snapshot, warnings),
            "snapshot \"" + folder + "\" is a symbolic link: it is not read from there");

  const std::string body =
      R"({"format":"echelon-snapshot","version":1,"step":1,"files":[{"name":"../x\n","bytes":1,"crc32":"0"}]})";
  char checksum[16];
  std::snprintf(checksum, sizeof checksum, "%08x", crc32Of(0, body.data(), body.size()));
  nlohmann::ordered_json manifest = nlohmann::ordered_json::parse(body);
  manifest["checksum"] = checksum;
  std::ofstream(base + "/elsewhere/manifest.json") << manifest.dump(1) << "\n";
  EXPECT_EQ(openSnapshot(base + "/elsewhere", snapshot),
            "snapshot \"" + base +
                "/elsewhere\" is damaged: its manifest.json names \"../x\\n\", which is no file of a "
                "snapshot");
  fs::remove_all(base);
}

// What is beside snapshots is none: other names, half-written ones, files.
TEST(Snapshot, List) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("echelon-list-" + std::to_string(getpid()));
  for (const char *name :
       {"step-00000003", "step-00000020", "step-100000000", "step-x", ".step-00000030.writing", "other"})
    fs::create_directories(folder / name);
  std::vector<std::string> names, paths;
  EXPECT_EQ(listSnapshots(folder.string(), paths), "");
  for (const std::string &path : paths)
    names.push_back(fs::path(path).filename().string());
  EXPECT_EQ(names, (std::vector<std::string>{"step-100000000", "step-00000020", "step-00000003"}));
  EXPECT_EQ(listSnapshots("/nowhere", paths), "");
  EXPECT_TRUE(paths.empty());
  // What cannot be read is not taken for a directory without snapshots.
  EXPECT_EQ(listSnapshots("/dev/null", paths), "cannot read folder \"/dev/null\": Not a directory");
  fs::remove_all(folder);
}

} // namespace
