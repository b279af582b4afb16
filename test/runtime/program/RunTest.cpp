#include "RunFixture.h"
#include "runtime/launch/Fail.h"
#include "runtime/snapshot/Snapshot.h"

#include <chrono>

using namespace echelon::runtime;
using namespace echelon::runtime::test;
namespace fs = std::filesystem;

namespace {

// Rows: a step each, evaluations after steps 8, 16 and the last, the named one after the last alone.
TEST_F(LinearRun, LogRows) {
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
TEST_F(LinearRun, Profile) {
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
    EXPECT_NE(out.find("nothing was predicted beside it: nobody has measured this machine; echelon calibrate does\n"),
              std::string::npos)
        << out;
  }
}

// Where the program says what it was predicted to take, that stands beside what was measured: of the operation and of
// reading the data; the rest is what nobody predicted.
TEST_F(LinearRun, ProfileBesidePrediction) {
  Program program = linear::program(folder, 1, 1, 2);
  program.step = steppedWithLap;
  program.profiled = {{"whole step", "linear.ech:7", "loops", 1000, 4000, -1, 1000}};
  program.prediction = {"a snail", 3000, 2000};
  ASSERT_EQ(run(program, {"--transport", "threads", "--steps", "12"}), 0) << messages;
  EXPECT_NE(out.find("predicted: 3000000.0000 ms a step; measured: "), std::string::npos) << out;
  EXPECT_NE(out.find(" times that; by a snail\n"), std::string::npos) << out;
  for (const char *part : {" 1000000.0000 ", " 2000000.0000 ", " 3000000.0000 "}) // the step, the data, both
    EXPECT_NE(out.find(part), std::string::npos) << part << out;
  EXPECT_NE(out.find("\nnot predicted: "), std::string::npos) << out;
}

// A run that ends before a step was measured says so: after its first evaluation, at step 8.
TEST_F(LinearRun, ProfileOfAShortRun) {
  Program program = linear::program(folder, 2, 1);
  program.step = steppedWithLap;
  program.steps = 1000;
  program.profiled = {{"whole step", "linear.ech:7", "loops", 0, 0}};
  program.until = {"eval_loss", Until::Below, 1e9, "", 0};
  ASSERT_EQ(run(program, {"--transport", "threads"}), 0) << messages;
  EXPECT_NE(out.find("no profile: the run ended within the first 10 steps, which are left out\n"), std::string::npos)
      << out;
}

TEST_F(LinearRun, ProfileOfNoTraining) {
  Program program = saving(linear::program(folder, 1, 1));
  program.profiled = {{"whole step", "linear.ech:7", "loops", 0, 0}};
  EXPECT_EQ(run(program, {"--dump", folder + "/dump"}), 2);
  EXPECT_NE(messages.find("--dump does not go with a program built with --profile"), std::string::npos) << messages;
  EXPECT_EQ(run(program, {"--evaluate-from", "ckpt"}), 2);
  EXPECT_NE(messages.find("--evaluate-from does not go with"), std::string::npos) << messages;
  EXPECT_EQ(run(program, {"--help"}), 0);
  EXPECT_NE(out.find("built with --profile"), std::string::npos);
}

TEST_F(LinearRun, TraceNeedsProbes) {
  Program program = linear::program(folder, 1, 1);
  EXPECT_EQ(run(program, {"--trace", folder + "/trace.json"}), 2);
  EXPECT_NE(messages.find("--trace is of a program built with --profile"), std::string::npos) << messages;
}

// 13 held-out samples and 5 of the table are not a multiple of the batch; under every layout and with micro batches the
// same numbers come out, over threads and processes.
TEST_F(LinearRun, LayoutsAgree) {
  const Rows one = logOf(linear::program(folder, 1, 1), {});
  expectNear(one, logOf(linear::program(folder, 2, 1), {"--transport", "shm"}));
  expectNear(one, logOf(linear::program(folder, 1, 2), {"--transport", "threads"}));
  expectNear(one, logOf(linear::program(folder, 2, 2), {"--transport", "shm"}));
  expectNear(one, logOf(linear::program(folder, 4, 1, 2), {"--transport", "threads"}));
  expectNear(one, logOf(linear::program(folder, 2, 2, 4), {"--transport", "threads"}));
}

// --evaluate-from gives the numbers that training gave, under another layout too, and asks only for the model.
TEST_F(LinearRun, EvaluateFrom) {
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
TEST_F(LinearRun, LossNotFinite) {
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
TEST_F(LinearRun, SnapshotNotFinite) {
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
TEST_F(LinearRun, GradientNotFinite) {
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
TEST_F(LinearRun, GradientNotFiniteOfMicroBatches) {
  Program program = linear::program(folder, 1, 1, 2);
  program.learningRate = linear::hugeRate;
  EXPECT_EQ(run(program, {}), 4);
  EXPECT_NE(messages.find("the first tensor that is not finite is the gradient of w; "), std::string::npos) << messages;
}

// A run that is told to stop finishes its step, saves, and goes on later without a trace.
TEST_F(LinearRun, StopSavesAndResumes) {
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
TEST_F(LinearRun, StopWithoutSnapshotsSaysWhatIsLost) {
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
TEST_F(LinearRun, FailureBehindASnapshot) {
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
TEST_F(LinearRun, SnapshotThatCannotBeWritten) {
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

TEST_F(LinearRun, Until) {
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
TEST_F(LinearRun, Dump) {
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
TEST_F(LinearRun, NotesOfRankZeroAreSaidOnce) {
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
TEST_F(LinearRun, RanksThatComputeLongAreWaitedFor) {
  Program program = linear::program(folder, 2, 1);
  program.step = lateStep<1>;
  EXPECT_EQ(run(program, {"--steps", "4"}), 0) << messages;
  program.rows = {0};
  program.step = lateStep<3>;
  EXPECT_EQ(run(program, {"--steps", "4"}), 0) << messages;
}

// Usage errors end with 2 and say what would be right; data errors with 4, before any rank starts.
TEST_F(LinearRun, UsageAndDataErrors) {
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
