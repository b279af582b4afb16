#include "RunFixture.h"
#include "runtime/snapshot/DirectoryClaim.h"
#include "runtime/snapshot/Snapshot.h"

using namespace echelon::runtime;
using namespace echelon::runtime::test;
namespace fs = std::filesystem;

namespace {

// The same ranks give the same bits again, and stopping, saving and resuming changes none of them.
TEST_F(LinearRun, ResumeIsBitExact) {
  const Program program = saving(linear::program(folder, 2, 2));
  const std::string whole = withoutTimes(logOf(program, {"--out", folder + "/a"}, "whole"));
  logOf(program, {"--out", folder + "/b", "--steps", "7", "--transport", "threads"}, "parts");
  EXPECT_TRUE(fs::exists(folder + "/b/ckpt/step-00000007/manifest.json"));
  const std::string parts = withoutTimes(logOf(program, {"--out", folder + "/b", "--resume"}, "parts"));
  EXPECT_NE(out.find("from snapshot DIR/b/ckpt/step-00000007, after step 7"), std::string::npos) << out;
  std::string expected; // --steps 7 also evaluates after its last step
  std::istringstream lines(parts);
  for (std::string line; std::getline(lines, line);)
    if (line.find("\"step\":7}") == std::string::npos || line.find("eval") == std::string::npos)
      expected += line + "\n";
  EXPECT_EQ(expected, whole);
  for (const char *file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(read(std::string("a/ckpt/step-00000020/") + file), read(std::string("b/ckpt/step-00000020/") + file));
}

// What a run that died had logged after its last snapshot is forgotten when it goes on.
TEST_F(LinearRun, LogGoesOnAfterTheSnapshot) {
  const Program program = saving(linear::program(folder, 1, 1));
  logOf(program, {"--steps", "10"});
  fs::remove_all(folder + "/ckpt/step-00000010");
  write("log", read("log") + "{\"step\": 1");
  const Rows log = logOf(program, {"--resume"});
  int64_t next = 1;
  for (const nlohmann::json &row : log)
    if (row.contains("loss")) {
      EXPECT_EQ(row["step"], next++);
    }
  EXPECT_EQ(next, 21);
}

// A snapshot of four ranks goes on under one rank, or two, and back.
TEST_F(LinearRun, ResumeUnderAnotherLayout) {
  const Rows one = logOf(linear::program(folder, 1, 1), {}, "one");
  logOf(saving(linear::program(folder, 2, 2)), {"--steps", "5"}, "log");
  logOf(saving(linear::program(folder, 1, 1)), {"--steps", "9", "--resume"}, "log");
  logOf(saving(linear::program(folder, 4, 1)), {"--steps", "13", "--resume"}, "log");
  Rows all = logOf(saving(linear::program(folder, 1, 2)), {"--resume"}, "log");
  auto stepsOf = [](const Rows &rows) {
    Rows steps;
    for (const nlohmann::json &row : rows)
      if (row.contains("loss") || row["step"] == 20)
        steps.push_back(row);
    return steps;
  };
  expectNear(stepsOf(one), stepsOf(all));
}

// keep N leaves the newest N; every 6 steps and after the last one.
TEST_F(LinearRun, KeepsTheNewest) {
  ASSERT_EQ(run(saving(linear::program(folder, 1, 1), 6, 2), {}), 0) << messages;
  std::vector<std::string> names, paths;
  ASSERT_EQ(listSnapshots(folder + "/ckpt", paths), "");
  for (const std::string &path : paths)
    names.push_back(path.substr(path.rfind('/') + 1));
  EXPECT_EQ(names, (std::vector<std::string>{"step-00000020", "step-00000018"}));
}

// Snapshots that were found damaged do not count among the newest N, though their steps are the highest.
TEST_F(LinearRun, KeepsTheNewestWhole) {
  ASSERT_EQ(run(saving(linear::program(folder, 1, 1), 4), {"--steps", "16"}), 0) << messages;
  for (const char *damaged : {"step-00000012", "step-00000016"})
    fs::resize_file(folder + "/ckpt/" + damaged + "/manifest.json", 100);
  ASSERT_EQ(run(saving(linear::program(folder, 1, 1), 4, 1), {"--resume", "--steps", "10"}), 0) << messages;
  Snapshot newest;
  std::vector<std::string> passedOver;
  ASSERT_EQ(findSnapshot(folder + "/ckpt", newest, passedOver), "");
  EXPECT_EQ(newest.step, 10);
  std::vector<std::string> paths;
  ASSERT_EQ(listSnapshots(folder + "/ckpt", paths), "");
  EXPECT_EQ(paths.size(), 3u); // the damaged ones stay until the run comes to their steps
}

// A second run in a directory that one is writing to is refused before it trains; what a dead one left half-written
// goes.
TEST_F(LinearRun, OneRunADirectory) {
  const Program program = saving(linear::program(folder, 2, 1));
  {
    DirectoryClaim other;
    ASSERT_EQ(other.take(folder + "/ckpt"), "");
    EXPECT_EQ(run(program, {}), 4);
    EXPECT_EQ(messages, "echelon: another run is writing its snapshots to \"DIR/ckpt\": stop it, or name another "
                        "directory (--out DIR)\n");
  }
  fs::create_directories(folder + "/ckpt/.step-00000003.writing");
  EXPECT_EQ(run(program, {"--steps", "4"}), 0) << messages;
  EXPECT_FALSE(fs::exists(folder + "/ckpt/.step-00000003.writing"));
  EXPECT_TRUE(fs::exists(folder + "/ckpt/step-00000004"));
}

// A snapshot that is there without --resume is an error that names both ways out.
TEST_F(LinearRun, SnapshotsThereWithoutResume) {
  const Program program = saving(linear::program(folder, 1, 1));
  ASSERT_EQ(run(program, {"--steps", "4"}), 0);
  EXPECT_EQ(run(program, {}), 4);
  EXPECT_EQ(messages,
            "echelon: \"DIR/ckpt\" has snapshots of an earlier run, the newest step-00000004: go on from it with "
            "--resume, or empty the directory or name another one (--out DIR)\n");
}

// Numbers of the optimizer, the seed and the data's path may be others, which is told and logged; another length needs
// no word.
TEST_F(LinearRun, ResumeTellsWhatChanged) {
  Program program = saving(linear::program(folder, 1, 1));
  ASSERT_EQ(run(program, {"--steps", "4"}), 0);
  Program changed = program;
  changed.fingerprints[1].text = "source: mnist\npath: other\n";
  changed.fingerprints[2].text = "seed: 12\n";
  changed.fingerprints[3].text = "kind: sgd\nlr peak: 0.1\nlr warmup: 3\n";
  const Rows log = logOf(changed, {"--resume", "--steps", "5"});
  EXPECT_EQ(messages, "echelon: --resume: data: path data is now other\n"
                      "echelon: --resume: seed: 11 is now 12: the order of the data and random values are others from "
                      "here on\n"
                      "echelon: --resume: optimizer: lr peak 0.05 is now 0.1\n"
                      "echelon: --resume: optimizer: lr warmup none is now 3\n");
  ASSERT_GE(log.size(), 4u);
  EXPECT_EQ(log[0].dump(), R"({"changed":"data","now":"path other","snapshot":"path data","step":4})");
  EXPECT_EQ(log[2].dump(), R"({"changed":"optimizer","now":"lr peak 0.1","snapshot":"lr peak 0.05","step":4})");
  changed.steps = 30;
  EXPECT_EQ(run(changed, {"--resume"}), 0) << messages;
  EXPECT_EQ(messages, "");
}

// Another model or optimizer is refused with the lines that differ, and taken over where that is accepted.
TEST_F(LinearRun, AnotherRunIsAccepted) {
  const Program program = saving(linear::program(folder, 1, 1));
  ASSERT_EQ(run(program, {"--steps", "4"}), 0);
  Program changed = program;
  std::string &model = changed.fingerprints[0].text;
  model.replace(model.find("%5 = mul %4 %4"), 14, "%5 = abs %4");
  model.replace(model.find("(y - label)^2"), 13, "abs(y - label)");
  changed.fingerprints[3].text = "kind: adam\n";
  EXPECT_EQ(run(changed, {"--resume"}), 4);
  const std::string modelLines = "    snapshot: linear.ech:4  loss sum((y - label)^2)\n"
                                 "    now:      linear.ech:4  loss sum(abs(y - label))\n",
                    optimizerLines = "    snapshot: kind sgd\n    now:      kind adam\n";
  EXPECT_EQ(messages, "echelon: --resume: snapshot \"DIR/ckpt/step-00000004\" is of another run\n  model differs:\n" +
                          modelLines + "  optimizer differs:\n" + optimizerLines +
                          "  --accept model,optimizer goes on all the same; --out DIR starts over in another "
                          "directory\n");
  EXPECT_EQ(run(changed, {"--resume", "--accept", "model"}), 4);
  EXPECT_EQ(messages, "echelon: --resume: snapshot \"DIR/ckpt/step-00000004\" is of another run\n"
                      "  optimizer differs:\n" +
                          optimizerLines +
                          "  --accept optimizer goes on all the same; --out DIR starts over in another directory\n");
  for (const std::string transport : {"shm", "threads"}) {
    fs::remove_all(folder + "/" + transport);
    fs::create_directories(folder + "/" + transport);
    fs::copy(folder + "/ckpt", folder + "/" + transport + "/ckpt", fs::copy_options::recursive);
    const Rows log = logOf(changed, {"--resume", "--accept", "model,optimizer", "--transport", transport, "--out",
                                     folder + "/" + transport});
    EXPECT_EQ(messages, "echelon: --resume: another model is accepted\n" + modelLines +
                            "echelon: --resume: another optimizer is accepted\n" + optimizerLines +
                            "echelon: --resume: optimizer: lr peak 0.05 is now none\n");
    ASSERT_GE(log.size(), 2u);
    EXPECT_EQ(log[0]["accepted"], true);
    EXPECT_EQ(log[0]["changed"], "model");
    EXPECT_EQ(log[0]["snapshot"], "linear.ech:4  loss sum((y - label)^2)");
  }
}

// What is not another is not accepted for long: the word is told to be without effect, and the run goes on.
TEST_F(LinearRun, NothingToAccept) {
  const Program program = saving(linear::program(folder, 1, 1));
  ASSERT_EQ(run(program, {"--steps", "4"}), 0);
  EXPECT_EQ(run(program, {"--resume", "--accept", "data"}), 0);
  EXPECT_EQ(messages, "echelon: --accept data: the snapshot's is the same, so that there is nothing to accept\n");
  EXPECT_EQ(run(program, {"--accept", "data"}), 2);
  EXPECT_NE(messages.find("--accept goes with --resume: it says what may be another than the snapshot's\n"),
            std::string::npos)
      << messages;
  for (const std::string words : {"", "layout", "model,", "model,,data", "Model"}) {
    EXPECT_EQ(run(program, {"--resume", "--accept", words}), 2);
    EXPECT_NE(messages.find("--accept takes model, data or optimizer, or several with commas, not \"" + words + "\"\n"),
              std::string::npos)
        << messages;
  }
}

// Data with another number of training samples is other data, also where the path is the same; held-out samples train
// nothing.
TEST_F(LinearRun, DataOfAnotherSize) {
  const Program program = saving(linear::program(folder, 1, 1));
  ASSERT_EQ(run(program, {"--steps", "4"}), 0);
  auto cut = [&](const std::string &name, int count) {
    const std::string images = read("data/" + name + "-images"), labels = read("data/" + name + "-labels");
    write("data/" + name + "-images",
          std::string(images).replace(7, 1, 1, char(count)).substr(0, size_t(16 + 6 * count)));
    write("data/" + name + "-labels", std::string(labels).replace(7, 1, 1, char(count)).substr(0, size_t(8 + count)));
  };
  cut("t10k", 12);
  EXPECT_EQ(run(program, {"--resume", "--steps", "5"}), 0);
  EXPECT_EQ(messages, "echelon: --resume: data: held out 13 is now 12\n");
  cut("train", 39);
  EXPECT_EQ(run(program, {"--resume"}), 4);
  EXPECT_EQ(messages, "echelon: --resume: snapshot \"DIR/ckpt/step-00000005\" is of another run\n"
                      "  data differs:\n    snapshot: samples 40\n    now:      samples 39\n"
                      "  --accept data goes on all the same; --out DIR starts over in another directory\n");
  EXPECT_EQ(run(program, {"--resume", "--accept", "data"}), 0) << messages;
}

// A snapshot from before the model was kept as text is read: its tensors say what they must.
TEST_F(LinearRun, SnapshotOfTheFirstVersion) {
  const Program program = saving(linear::program(folder, 1, 1));
  const Rows whole = logOf(program, {}, "whole");
  for (const int version : {1, 3}) {
    nlohmann::ordered_json manifest = nlohmann::ordered_json::parse(read("ckpt/step-00000016/manifest.json"));
    for (const char *name : {"samples", "moments_from", "checksum"})
      manifest.erase(name);
    manifest["version"] = version;
    manifest["fingerprints"] = {{"model", "param w [pixel=6] f64\nwhat is computed from them 169\n"}};
    char checksum[16];
    const std::string body = manifest.dump();
    std::snprintf(checksum, sizeof checksum, "%08x", crc32Of(0, body.data(), body.size()));
    manifest["checksum"] = checksum;
    fs::remove_all(folder + "/ckpt/step-00000020");
    write("ckpt/step-00000016/manifest.json", manifest.dump(1) + "\n");
    if (version == 3) {
      EXPECT_EQ(run(program, {"--evaluate-from", folder + "/ckpt/step-00000016"}), 4);
      EXPECT_EQ(messages,
                "echelon: snapshot \"DIR/ckpt/step-00000016\" is of version 3 of the format, and this program "
                "reads 1 and 2\n");
      continue;
    }
    const Rows log = logOf(program, {"--resume"});
    EXPECT_EQ(messages, "echelon: --resume: snapshot \"DIR/ckpt/step-00000016\" is of an earlier version of Echelon, "
                        "which did not keep what was computed: its tensors are those of this model, and whether the "
                        "rest is the same is not known\n");
    EXPECT_EQ(withoutTimes({log.end() - 3, log.end()}), withoutTimes({whole.end() - 3, whole.end()}));
    EXPECT_EQ(run(program, {"--evaluate-from", folder + "/ckpt/step-00000016"}), 0) << messages;
    EXPECT_EQ(messages, "");
  }
}

// A damaged snapshot is named and the one before it taken: a flipped bit in a tensor, a file cut off, a manifest cut
// off.
TEST_F(LinearRun, DamagedSnapshots) {
  const Program program = saving(linear::program(folder, 2, 1));
  const Rows whole = logOf(program, {"--out", folder + "/other"}, "whole");
  ASSERT_EQ(run(program, {"--steps", "16"}), 0);
  std::string model = read("ckpt/step-00000016/model.safetensors");
  model[model.size() - 3] ^= 16;
  write("ckpt/step-00000016/model.safetensors", model);
  fs::resize_file(folder + "/ckpt/step-00000012/optimizer.safetensors", 40);
  fs::resize_file(folder + "/ckpt/step-00000008/manifest.json", 100);
  const Rows log = logOf(program, {"--resume"});
  EXPECT_EQ(messages, "echelon: snapshot \"DIR/ckpt/step-00000016\" is damaged: model.safetensors does not match its "
                      "checksum; taking the "
                      "one before it\n"
                      "echelon: snapshot \"DIR/ckpt/step-00000012\" is damaged: "
                      "\"DIR/ckpt/step-00000012/optimizer.safetensors\" is not a "
                      "safetensors "
                      "file: its header is cut off; taking the one before it\n"
                      "echelon: snapshot \"DIR/ckpt/step-00000008\" is damaged: its manifest.json is cut off; taking "
                      "the one before it\n");
  EXPECT_NE(out.find("\nfrom snapshot DIR/ckpt/step-00000004, after step 4\n"), std::string::npos) << out;

  EXPECT_EQ(withoutTimes({log.end() - 3, log.end()}), withoutTimes({whole.end() - 3, whole.end()}));
  fs::resize_file(folder + "/other/ckpt/step-00000020/manifest.json", 0);
  std::vector<std::string> paths;
  ASSERT_EQ(listSnapshots(folder + "/other/ckpt", paths), "");
  for (const std::string &path : paths)
    fs::resize_file(path + "/manifest.json", 0);
  EXPECT_EQ(run(program, {"--resume", "--out", folder + "/other"}), 4);
  EXPECT_NE(messages.find("none of the 5 in \"DIR/other/ckpt\" is whole"), std::string::npos) << messages;
}

} // namespace
