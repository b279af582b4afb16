#include "LinearProgram.h"
#include "runtime/launch/Fail.h"
#include "runtime/snapshot/DirectoryClaim.h"
#include "runtime/snapshot/Snapshot.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace echelon::runtime;
namespace fs = std::filesystem;

namespace {

using Rows = std::vector<nlohmann::json>;

/// A folder with data of its own: 40 training and 13 held-out images of 1 x 6 pixels, and a table of 5 samples.
class Run : public testing::Test {
protected:
  void SetUp() override {
    folder = (fs::temp_directory_path() / ("echelon-run-" + std::to_string(getpid()))).string();
    fs::create_directories(folder + "/data");
    for (const auto &[name, count] : {std::pair{"train", 40}, {"t10k", 13}}) {
      std::string images = {0, 0, 8, 3, 0, 0, 0, char(count), 0, 0, 0, 1, 0, 0, 0, 6},
                  labels = {0, 0, 8, 1, 0, 0, 0, char(count)};
      for (int i = 0; i < 6 * count; ++i)
        images += char(mix64(uint64_t(i + count)));
      for (int i = 0; i < count; ++i)
        labels += char(mix64(uint64_t(i)) % 10);
      write(std::string("data/") + name + "-images", images);
      write(std::string("data/") + name + "-labels", labels);
    }
    auto npy = [](const std::string &type, const std::string &shape, const std::string &values) {
      std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
      header.resize(117, ' ');
      return "\x93NUMPY" + std::string("\x01\x00\x76\x00", 4) + header + "\n" + values;
    };
    std::string x, y;
    for (int i = 0; i < 30; ++i) {
      const double value = i / 30.0;
      x.append(reinterpret_cast<const char *>(&value), 8);
    }
    for (int32_t i = 0; i < 5; ++i)
      y.append(reinterpret_cast<const char *>(&i), 4);
    write("data/x.npy", npy("<f8", "(5, 1, 6)", x));
    write("data/y.npy", npy("<i4", "(5,)", y));
  }
  void TearDown() override { fs::remove_all(folder); }

  void write(const std::string &name, const std::string &bytes) {
    std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
  }
  std::string read(const std::string &name) {
    std::ifstream file(folder + "/" + name, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  /// Runs a program as its main function would, and keeps what it printed.
  int run(const Program &program, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "linear");
    std::vector<char *> argv;
    for (std::string &argument : arguments)
      argv.push_back(argument.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run_program(program, int(argv.size()), argv.data());
    out = testing::internal::GetCapturedStdout();
    messages = testing::internal::GetCapturedStderr();
    for (std::string *text : {&out, &messages})
      for (size_t at; (at = text->find(folder)) != std::string::npos;)
        text->replace(at, folder.size(), "DIR");
    return code;
  }
  Rows rows(const std::string &name) {
    Rows all;
    std::istringstream lines(read(name));
    for (std::string line; std::getline(lines, line);)
      all.push_back(nlohmann::json::parse(line));
    return all;
  }
  Rows logOf(const Program &program, std::vector<std::string> arguments, const std::string &name = "log") {
    arguments.insert(arguments.end(), {"--log", folder + "/" + name});
    EXPECT_EQ(run(program, arguments), 0) << messages;
    return rows(name);
  }
  static Program saving(Program program, int64_t every = 4, int64_t keep = 0) {
    program.checkpoint.everySteps = every;
    program.checkpoint.directory = "ckpt";
    program.checkpoint.keep = keep;
    return program;
  }
  static void expectNear(const Rows &a, const Rows &b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      for (const char *key : {"step", "loss", "lr", "grad_norm", "eval_loss", "near"}) {
        ASSERT_EQ(a[i].contains(key), b[i].contains(key)) << a[i] << b[i];
        if (a[i].contains(key)) {
          EXPECT_NEAR(a[i][key].get<double>(), b[i][key].get<double>(), 1e-11) << key << " of " << a[i];
        }
      }
  }

  std::string folder, out, messages;
};

// Rows: a step each, evaluations after steps 8, 16 and the last, the named one after the last alone.
TEST_F(Run, LogRows) {
  const Rows log = logOf(linear::program(folder, 1, 1), {"--transport", "threads"});
  ASSERT_EQ(log.size(), 24u);
  EXPECT_EQ(log[0]["step"], 1);
  for (const char *key : {"loss", "lr", "grad_norm", "step_time_s", "samples_per_s"})
    EXPECT_TRUE(log[0][key].is_number()) << key;
  EXPECT_EQ(log[0]["lr"], 0.05);
  EXPECT_FALSE(log[0].contains("near"));
  EXPECT_EQ(log[8]["step"], 8);
  EXPECT_TRUE(log[8]["eval_loss"].is_number());
  EXPECT_EQ(log[17]["step"], 16);
  EXPECT_EQ(log[22]["step"], 20);
  EXPECT_FALSE(log[22].contains("eval"));
  EXPECT_EQ(log[23]["eval"], "table");
  EXPECT_LT(log[21]["loss"], log[0]["loss"]);
  EXPECT_NE(out.find("step 20/20  loss "), std::string::npos);
  EXPECT_NE(out.find("evaluation table after step 20:  eval_loss "), std::string::npos);
  EXPECT_NE(out.find("memory a rank: arenas "), std::string::npos);
}

/// The hand-written program with one probe: all of its step is one operation.
void steppedWithLap(Rank &r, double lr) {
  linear::step(r, lr);
  r.lap(0);
}

// A program that carries probes ends with a table, which rank 0 prints once under each transport.
TEST_F(Run, Profile) {
  for (const auto &[dp, transport] : {std::pair{1, "threads"}, {2, "threads"}, {2, "shm"}}) {
    Program program = linear::program(folder, dp, 1, 2);
    program.step = steppedWithLap;
    program.profiled = {{"whole step", "linear.ech:\x1b[2J7", "loops", 1000, 4000}};
    ASSERT_EQ(run(program, {"--transport", transport, "--steps", "12"}), 0) << messages;
    const size_t begin = out.find("profile of 11 steps, the first 1 left out");
    ASSERT_NE(begin, std::string::npos) << out;
    EXPECT_EQ(out.find("profile of", begin + 1), std::string::npos);
    EXPECT_NE(out.find("  linear.ech:\\x1b[2J7  whole step\n"), std::string::npos) << out;
    EXPECT_EQ(out.find("over ranks") != std::string::npos, dp == 2);
    const size_t accounted = out.find("accounted for: ");
    ASSERT_NE(accounted, std::string::npos);
    EXPECT_GT(std::stod(out.substr(accounted + 15)), 50);
    EXPECT_LT(std::stod(out.substr(accounted + 15)), 110);
  }
}

// A run that ends before a step was measured says so: after its first evaluation, at step 8.
TEST_F(Run, ProfileOfAShortRun) {
  Program program = linear::program(folder, 2, 1);
  program.step = steppedWithLap;
  program.steps = 1000;
  program.profiled = {{"whole step", "linear.ech:7", "loops", 0, 0}};
  program.until = {"eval_loss", Until::Below, 1e9, "", 0};
  ASSERT_EQ(run(program, {"--transport", "threads"}), 0) << messages;
  EXPECT_NE(out.find("no profile: the run ended within the first 10 steps, which are left out\n"), std::string::npos)
      << out;
}

TEST_F(Run, ProfileOfNoTraining) {
  Program program = saving(linear::program(folder, 1, 1));
  program.profiled = {{"whole step", "linear.ech:7", "loops", 0, 0}};
  EXPECT_EQ(run(program, {"--dump", folder + "/dump"}), 2);
  EXPECT_NE(messages.find("--dump does not go with a program built with --profile"), std::string::npos) << messages;
  EXPECT_EQ(run(program, {"--evaluate-from", "ckpt"}), 2);
  EXPECT_NE(messages.find("--evaluate-from does not go with"), std::string::npos) << messages;
  EXPECT_EQ(run(program, {"--help"}), 0);
  EXPECT_NE(out.find("built with --profile"), std::string::npos);
}

TEST_F(Run, TraceNeedsProbes) {
  Program program = linear::program(folder, 1, 1);
  EXPECT_EQ(run(program, {"--trace", folder + "/trace.json"}), 2);
  EXPECT_NE(messages.find("--trace is of a program built with --profile"), std::string::npos) << messages;
}

// 13 held-out samples and 5 of the table are not a multiple of the batch; under every layout and with micro batches the
// same numbers come out, over threads and processes.
TEST_F(Run, LayoutsAgree) {
  const Rows one = logOf(linear::program(folder, 1, 1), {});
  expectNear(one, logOf(linear::program(folder, 2, 1), {"--transport", "shm"}));
  expectNear(one, logOf(linear::program(folder, 1, 2), {"--transport", "threads"}));
  expectNear(one, logOf(linear::program(folder, 2, 2), {"--transport", "shm"}));
  expectNear(one, logOf(linear::program(folder, 4, 1, 2), {"--transport", "threads"}));
  expectNear(one, logOf(linear::program(folder, 2, 2, 4), {"--transport", "threads"}));
}

std::string withoutTimes(Rows rows) {
  std::string text;
  for (nlohmann::json &row : rows) {
    for (const char *key : {"step_time_s", "samples_per_s", "eval_time_s"})
      row.erase(key);
    text += row.dump() + "\n";
  }
  return text;
}

// The same ranks give the same bits again, and stopping, saving and resuming changes none of them.
TEST_F(Run, ResumeIsBitExact) {
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
TEST_F(Run, LogGoesOnAfterTheSnapshot) {
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
TEST_F(Run, ResumeUnderAnotherLayout) {
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
TEST_F(Run, KeepsTheNewest) {
  ASSERT_EQ(run(saving(linear::program(folder, 1, 1), 6, 2), {}), 0) << messages;
  std::vector<std::string> names, paths;
  ASSERT_EQ(listSnapshots(folder + "/ckpt", paths), "");
  for (const std::string &path : paths)
    names.push_back(path.substr(path.rfind('/') + 1));
  EXPECT_EQ(names, (std::vector<std::string>{"step-00000020", "step-00000018"}));
}

// Snapshots that were found damaged do not count among the newest N, though their steps are the highest.
TEST_F(Run, KeepsTheNewestWhole) {
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
TEST_F(Run, OneRunADirectory) {
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
TEST_F(Run, SnapshotsThereWithoutResume) {
  const Program program = saving(linear::program(folder, 1, 1));
  ASSERT_EQ(run(program, {"--steps", "4"}), 0);
  EXPECT_EQ(run(program, {}), 4);
  EXPECT_EQ(messages,
            "echelon: \"DIR/ckpt\" has snapshots of an earlier run, the newest step-00000004: go on from it with "
            "--resume, or empty the directory or name another one (--out DIR)\n");
}

// Numbers of the optimizer, the seed and the data's path may be others, which is told and logged; another length needs
// no word.
TEST_F(Run, ResumeTellsWhatChanged) {
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
TEST_F(Run, AnotherRunIsAccepted) {
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
TEST_F(Run, NothingToAccept) {
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
TEST_F(Run, DataOfAnotherSize) {
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
TEST_F(Run, SnapshotOfTheFirstVersion) {
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
TEST_F(Run, DamagedSnapshots) {
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

// --evaluate-from gives the numbers that training gave, under another layout too, and asks only for the model.
TEST_F(Run, EvaluateFrom) {
  const Rows trained = logOf(saving(linear::program(folder, 2, 2)), {}, "trained");
  Program other = linear::program(folder, 1, 2);
  other.fingerprints[0].text = "mathematics 1\n";
  other.fingerprints[3].text = "kind: adam\n";
  const Rows log = logOf(other, {"--evaluate-from", folder + "/ckpt"}, "evaluated");
  expectNear({trained.end() - 2, trained.end()}, log);
  const Rows eight = logOf(other, {"--evaluate-from", folder + "/ckpt/step-00000008"}, "evaluated");
  EXPECT_EQ(eight[0]["step"], 8);
  EXPECT_NEAR(eight[0]["eval_loss"].get<double>(), trained[8]["eval_loss"].get<double>(), 1e-11);
  other.stored[0].path = "weight";
  EXPECT_EQ(run(other, {"--evaluate-from", folder + "/ckpt"}), 4);
  EXPECT_EQ(messages, "echelon: snapshot \"DIR/ckpt/step-00000020\" does not have the tensors of this model\n"
                      "  weight is not in the snapshot; it has w, which is not there now\n"
                      "  evaluate it with the model that it is of\n");
  EXPECT_EQ(run(other, {"--evaluate-from", folder + "/nowhere"}), 4);
  EXPECT_EQ(messages, "echelon: there is no snapshot in \"DIR/nowhere\"\n");
}

// A loss that is not finite ends the run with step, rank and tensor.
TEST_F(Run, LossNotFinite) {
  Program program = linear::program(folder, 2, 1);
  program.learningRate = linear::explodingRate;
  EXPECT_EQ(run(program, {}), 4);
  const std::string expected =
      "echelon: rank 0: loss is nan at step 5; the first tensor that is not finite is w (element 0 of "
      "this rank's); parameters and optimizer are as they were before this step; a learning rate smaller than this "
      "step's";
  EXPECT_EQ(messages.substr(0, expected.size()), expected);
  EXPECT_EQ(run(program, {"--transport", "threads"}), 4);
  EXPECT_EQ(messages.substr(0, expected.size()), expected);
}

// A last step that spoils the parameters is no step to keep, or to end with.
TEST_F(Run, SnapshotNotFinite) {
  for (const char *transport : {"shm", "threads"})
    for (const char *steps : {"4", "6"}) {
      Program program = saving(linear::program(folder, 2, 1), 2, 1);
      program.evaluations.clear();
      program.learningRate = linear::explodingRate;
      EXPECT_EQ(run(program, {"--steps", steps, "--transport", transport}), 4);
      EXPECT_EQ(messages, "echelon: rank 0: snapshot of step 4: w has become inf or nan, so it is not kept, and those "
                          "before it stay; a lower learning rate, a longer warmup, `clip`, or a larger `epsilon` may "
                          "help\n");
      EXPECT_TRUE(fs::exists(folder + "/ckpt/step-00000002/manifest.json"));
      EXPECT_FALSE(fs::exists(folder + "/ckpt/step-00000004"));
      fs::remove_all(folder + "/ckpt");
    }
}

// A gradient that overflows is named, though the parameters are finite, and nothing is updated with it.
TEST_F(Run, GradientNotFinite) {
  Program program = saving(linear::program(folder, 2, 1), 4);
  program.learningRate = linear::hugeRate;
  EXPECT_EQ(run(program, {}), 4);
  const std::string expected = "echelon: rank 0: loss is inf at step 5; the first tensor that is not finite is the "
                               "gradient of w; parameters and "
                               "optimizer are as they were before this step; the newest snapshot is that of step 4; "
                               "a learning rate smaller than this step's";
  EXPECT_EQ(messages.substr(0, expected.size()), expected);
}

// Micro batches lie side by side in one input: what is after it is no part of it.
TEST_F(Run, GradientNotFiniteOfMicroBatches) {
  Program program = linear::program(folder, 1, 1, 2);
  program.learningRate = linear::hugeRate;
  EXPECT_EQ(run(program, {}), 4);
  EXPECT_NE(messages.find("the first tensor that is not finite is the gradient of w; "), std::string::npos) << messages;
}

// A run that is told to stop finishes its step, saves, and goes on later without a trace.
TEST_F(Run, StopSavesAndResumes) {
  const std::string whole = withoutTimes(logOf(linear::program(folder, 2, 1), {}, "whole"));
  Program program = saving(linear::program(folder, 2, 1), 100);
  program.learningRate = linear::interruptedRate;
  linear::asked = 0;
  Rows log = logOf(program, {"--transport", "threads"});
  EXPECT_NE(out.find("go on with --resume"), std::string::npos) << out;
  const int64_t stoppedAt = log.back()["step"].get<int64_t>();
  EXPECT_GE(stoppedAt, 6);
  EXPECT_LT(stoppedAt, 20);
  program.learningRate = linear::constantRate;
  EXPECT_EQ(withoutTimes(logOf(program, {"--resume"})), whole);
}

// One that saves nothing says what that means.
TEST_F(Run, StopWithoutSnapshotsSaysWhatIsLost) {
  Program program = linear::program(folder, 2, 1);
  program.learningRate = linear::interruptedRate;
  linear::asked = 0;
  EXPECT_EQ(run(program, {"--transport", "threads"}), 0);
  EXPECT_NE(out.find("; nothing is saved: the spec has no clause checkpoint\n"), std::string::npos) << out;
  EXPECT_NE(
      out.find(": what it has learned is lost, since the spec has no clause checkpoint; add one, as in checkpoint "
               "every 100 steps\n"),
      std::string::npos)
      << out;
}

// `until near > 0.2` ends the run at the first evaluation where it holds.
/// A step of which one rank fails, just when a snapshot has been begun.
void stepThatFails(Rank &r, double lr) {
  if (r.step() == 8 && r.rank() == r.size() - 1)
    fail("it fails");
  linear::step(r, lr);
}

// What a rank finds wrong is no reason to lose the snapshot that is being written.
TEST_F(Run, FailureBehindASnapshot) {
  for (const auto &[dp, transport] : {std::pair{2, "shm"}, {2, "threads"}, {1, "shm"}}) {
    Program program = saving(linear::program(folder, dp, 1));
    program.step = stepThatFails;
    EXPECT_EQ(run(program, {"--transport", transport}), 4);
    EXPECT_EQ(messages, "echelon: rank " + std::to_string(dp - 1) + ": it fails\n");
    Snapshot snapshot;
    std::vector<std::string> warnings;
    EXPECT_EQ(findSnapshot(folder + "/ckpt", snapshot, warnings), "") << transport;
    EXPECT_EQ(snapshot.step, 8) << transport << dp;
    EXPECT_TRUE(warnings.empty());
    fs::remove_all(folder + "/ckpt");
  }
}

/// Takes the directory of the snapshots away, so that the next cannot be written.
std::string takenAway;
void stepWithoutDirectory(Rank &r, double lr) {
  if (r.step() == 1 && r.rank() == 0) {
    fs::remove_all(takenAway);
    std::ofstream(takenAway) << "a file";
  }
  linear::step(r, lr);
}

// A snapshot that cannot be written ends the run, with the snapshot's step.
TEST_F(Run, SnapshotThatCannotBeWritten) {
  takenAway = folder + "/ckpt";
  for (const auto &[dp, transport] : {std::pair{2, "shm"}, {2, "threads"}, {1, "shm"}}) {
    Program program = saving(linear::program(folder, dp, 1));
    program.step = stepWithoutDirectory;
    EXPECT_EQ(run(program, {"--transport", transport}), 4);
    EXPECT_EQ(messages, "echelon: rank 0: snapshot of step 4: cannot write \"DIR/ckpt/.step-00000004.writing\": Not a "
                        "directory\n");
    fs::remove_all(takenAway);
  }
}

TEST_F(Run, Until) {
  Program program = linear::program(folder, 2, 1);
  program.steps = 0;
  program.evaluations[0].everySteps = 2;
  program.until = {"eval_loss", Until::Below, 1e6, "", 3600};
  EXPECT_EQ(logOf(program, {}).back()["step"], 2);
  // A run that has come to its end makes that evaluation again, once, and no step.
  const Rows log = logOf(saving(program), {}, "saved");
  EXPECT_EQ(logOf(saving(program), {"--resume"}, "saved").size(), log.size());
  EXPECT_EQ(out.find("nothing to do"), std::string::npos) << out;
}

/// The doubles of an npy file that the program wrote.
std::vector<double> doublesOf(const std::string &npy) {
  std::vector<double> values((npy.size() - 128) / 8);
  std::memcpy(values.data(), npy.data() + npy.size() - values.size() * 8, values.size() * 8);
  return values;
}

// From the dumped start values, batches and random values the losses can be computed elsewhere; the same files come
// from any layout.
TEST_F(Run, Dump) {
  const Rows log = logOf(linear::program(folder, 2, 2), {"--steps", "2", "--dump", folder + "/four", "--dump-state"});
  ASSERT_EQ(run(linear::program(folder, 1, 1), {"--steps", "2", "--dump", folder + "/one"}), 0);
  for (const char *file :
       {"start/w.npy", "step-000001/batch/image.npy", "step-000002/batch/label.npy", "step-000002/random/noise.npy"}) {
    EXPECT_EQ(read(std::string("four/") + file), read(std::string("one/") + file)) << file;
    EXPECT_EQ(read(std::string("one/") + file).substr(0, 6), "\x93NUMPY");
  }
  const std::vector<double> w = doublesOf(read("one/start/w.npy")),
                            image = doublesOf(read("one/step-000001/batch/image.npy")),
                            noise = doublesOf(read("one/step-000001/random/noise.npy"));
  const std::string labels = read("one/step-000001/batch/label.npy");
  ASSERT_EQ(w.size(), 6u);
  ASSERT_EQ(image.size(), 48u);
  double loss = 0;
  for (int i = 0; i < 8; ++i) {
    int32_t label;
    std::memcpy(&label, labels.data() + labels.size() - 32 + 4 * i, 4);
    double y = noise[size_t(i)];
    for (int k = 0; k < 6; ++k)
      y += image[size_t(6 * i + k)] * w[size_t(k)];
    loss += (y - label) * (y - label) / 8;
  }
  EXPECT_NEAR(log[0]["loss"].get<double>(), loss, 1e-12);
  EXPECT_TRUE(fs::exists(folder + "/four/step-000002/after/w.npy"));
}

// What ranks note before there is a log is said in it, of rank 0 alone.
TEST_F(Run, NotesOfRankZeroAreSaidOnce) {
  Program program = linear::program(folder, 2, 1);
  program.start = [](Rank &rank) { rank.note("a note of rank " + std::to_string(rank.rank())); };
  ASSERT_EQ(run(program, {"--steps", "1", "--transport", "threads"}), 0) << messages;
  EXPECT_NE(out.find("a note of rank 0\n"), std::string::npos) << out;
  EXPECT_EQ(out.find("a note of rank 1"), std::string::npos) << out;
}

/// A step to which rank 0 comes two seconds and a half later than the other one, having computed all the time.
template <int late> void lateStep(Rank &rank, double lr) {
  static int step = 0;
  if (++step == late && rank.rank() == 0)
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
         std::chrono::steady_clock::now() < end;) {
    }
  linear::step(rank, lr);
}

// Ranks that compute alike may differ in the first step, stages of a pipeline in each.
TEST_F(Run, RanksThatComputeLongAreWaitedFor) {
  Program program = linear::program(folder, 2, 1);
  program.step = lateStep<1>;
  EXPECT_EQ(run(program, {"--steps", "4"}), 0) << messages;
  program.rows = {0};
  program.step = lateStep<3>;
  EXPECT_EQ(run(program, {"--steps", "4"}), 0) << messages;
}

// Usage errors end with 2 and say what would be right; data errors with 4, before any rank starts.
TEST_F(Run, UsageAndDataErrors) {
  const Program program = linear::program(folder, 2, 1);
  for (const auto &[arguments, expected] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--stps", "3"}, "linear: unknown option --stps; --help lists them\n"},
           {{"--steps"}, "linear: --steps needs a value\n"},
           {{"--steps=many"}, "linear: --steps takes a number of steps from 1, not \"many\"\n"},
           {{"--steps", "21"}, "linear: --steps 21 is beyond the run's 20 steps\n"},
           {{"--transport", "udp"}, "linear: --transport takes shm, threads, mpi or tcp, not \"udp\"\n"},
           {{"--store", "here:1"}, "linear: --store goes with --transport tcp: it is where its ranks meet\n"},
           {{"--store", "here"}, "linear: --store takes HOST:PORT, as in node1:29500, not \"here\"\n"},
           {{"--deadline", "0"}, "linear: --deadline takes seconds above 0, not \"0\"\n"},
           {{"--resume"}, "linear: --resume needs snapshots, and the spec has no checkpoint clause\n"},
           {{"--dump-state"}, "linear: --dump-state goes with --dump DIR\n"}}) {
    EXPECT_EQ(run(program, arguments), 2);
    EXPECT_EQ(messages, expected);
  }
  EXPECT_EQ(run(program, {"--folder", "/nowhere"}), 4);
  EXPECT_EQ(messages, "echelon: cannot read folder \"/nowhere/data\": No such file or directory\n");
  EXPECT_EQ(run(program, {"--help"}), 0);
  EXPECT_NE(out.find("trains digits of linear.ech on 2 ranks (dp = 2, tp = 1)"), std::string::npos);
  EXPECT_EQ(run(program, {"--log", "/nowhere/log"}), 4);
  EXPECT_EQ(messages, "echelon: rank 0: cannot write \"/nowhere/log\": No such file or directory\n");
}

} // namespace
