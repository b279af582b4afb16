// Generated programs: the same text each time, no warnings, and the numbers that plain loops give.
#include "codegen/Emit.h"
#include "ir/dist/Dist.h"
#include "ir/rt/Rt.h"
#include "ir/run/Run.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Identifier.h"
#include "passes/Passes.h"
#include "passes/cost/ProgramCost.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <sstream>
#include <unistd.h>

using namespace echelon;

namespace {
std::string readFile(const std::string &path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
std::string testFile(const std::string &name) {
  return readFile(std::string(ECHELON_SOURCE_FOLDER) + "/test/codegen/" + name);
}

struct Printed {
  std::string text;
  ProgramCost plan, saving; // saving: of the same with snapshots
};

/// The program of a module in the state that dist-fuse takes.
Printed print(const std::string &ir, bool profile = false) {
  mlir::MLIRContext context;
  context.loadDialect<ech::EchDialect, dist::DistDialect, run::RunDialect, rt::RtDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(ir, mlir::ParserConfig(&context));
  EXPECT_TRUE(module);
  mlir::PassManager manager(&context);
  manager.addPass(createFuse());
  manager.addPass(createLowerToRt());
  manager.addPass(createSelectKernels());
  manager.addPass(createPlanArenas());
  shapeProgram(manager);
  EXPECT_TRUE(mlir::succeeded(manager.run(*module)));
  frontend::SourceManager sources;
  Printed printed;
  llvm::raw_string_ostream os(printed.text);
  EXPECT_TRUE(mlir::succeeded(emitProgram(*module, Target::Cpu, sources, os, profile)));
  printed.plan = programCost(*module);
  printed.saving = programCost(*module, true);
  return printed;
}

template <typename T>
void writeNpy(const std::string &path, const char *type, const std::string &shape, const std::vector<T> &data) {
  std::string header = std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  out << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(header.size() % 256)
      << static_cast<char>(header.size() / 256) << header;
  out.write(reinterpret_cast<const char *>(data.data()), static_cast<std::streamsize>(data.size() * sizeof(T)));
}
} // namespace

// A user's name that means something else to a C++ compiler, or to the program, is not used as it stands.
TEST(Program, NamesOfCpp) {
  for (const char *name : {"thread_local", "static_cast", "errno", "NULL", "M_PI", "step", "Algorithm"})
    EXPECT_EQ(identifier(name), std::string(name) + "_");
  for (const char *name : {"wq", "thread", "steps", "err"})
    EXPECT_EQ(identifier(name), name);
}

TEST(Program, SameTextEachTime) {
  std::string ir = testFile("mlp.mlir");
  EXPECT_EQ(print(ir).text, print(ir).text);
}

TEST(Program, DepthChangesNothingButNumerals) {
  auto text = [](const char *layers) {
    std::string text = print(std::regex_replace(testFile("Inputs/stack.mlir"), std::regex("LAYERS"), layers)).text;
    text = std::regex_replace(text, std::regex(" +//"), " //"); // comments stand below each other
    return std::regex_replace(text, std::regex("[0-9]+"), "#");
  };
  EXPECT_EQ(text("4"), text("96"));
}

// A loop of several phases is a loop in `step` around calls, and runs in its own direction.
TEST(Program, LoopsOfSeveralPhasesRunInTheirDirection) {
  std::string ir = std::regex_replace(testFile("Inputs/stack.mlir"), std::regex("LAYERS"), "4");
  std::string head = "%s = ech.reduce sum %d over [\"batch\"] {ech.phase = \"backward\"";
  size_t at = ir.find(head);
  ASSERT_NE(at, std::string::npos);
  ir.replace(at, head.size(), "%s = ech.reduce sum %d over [\"batch\"] {ech.phase = \"update\"");
  std::string text = print(ir).text;
  size_t step = text.find("void step(");
  EXPECT_NE(text.find("= layer - 1; l >= 0", step), std::string::npos) << text.substr(step, 400);
}

// A program to be profiled is the plain one, with a table before its functions and a line after each operation.
TEST(Program, ProbesAreAllThatProfilingAdds) {
  std::string ir = std::regex_replace(testFile("Inputs/stack.mlir"), std::regex("LAYERS"), "4");
  std::string plain = print(ir).text, probed = print(ir, true).text;
  EXPECT_EQ(plain.find("lap("), std::string::npos);
  size_t begin = probed.find("/// The operations of a step"), end = probed.find("};\n// clang-format on\n\n", begin);
  ASSERT_NE(end, std::string::npos);
  std::string table = probed.substr(begin, end - begin);
  probed.erase(begin, end - begin + std::string("};\n// clang-format on\n\n").size());
  std::regex lap("\n *r\\.lap\\(([0-9]+)\\);");
  int laps = 0;
  for (std::sregex_iterator at(probed.begin(), probed.end(), lap), none; at != none; ++at)
    EXPECT_EQ(std::stoi((*at)[1]), laps++); // each has a number of its own, in order
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), laps + 3);
  EXPECT_GT(laps, 3);
  probed = std::regex_replace(std::regex_replace(probed, lap, ""), std::regex("  p\\.profiled = profiled;\n"), "");
  EXPECT_EQ(probed, plain);
}

TEST(Program, MemoryAddsUp) {
  ProgramCost plan = print(testFile("mlp.mlir")).plan;
  EXPECT_EQ(plan.memory.params, (30 + 5 + 15 + 3) * 4);
  EXPECT_EQ(plan.memory.total, plan.stateBytes + plan.inputBytes + plan.workBytes);
  EXPECT_EQ(plan.memory.total, plan.memory.params + plan.memory.gradients + plan.memory.optimizer +
                                   plan.memory.activations + plan.memory.buffers);
  EXPECT_TRUE(plan.messages.empty());
}

// What writes snapshots holds its state twice.
TEST(Program, TheCopyForSnapshotsIsPlanned) {
  Printed printed = print(testFile("mlp.mlir"));
  EXPECT_EQ(printed.saving.copyBytes, printed.plan.stateBytes);
  EXPECT_EQ(printed.saving.memory.total, printed.plan.memory.total + printed.plan.stateBytes);
  EXPECT_EQ(printed.saving.memory.buffers, printed.plan.memory.buffers + printed.plan.stateBytes);
}

// Compiled without a warning, the program trains as plain loops in double do. All samples are in one batch, so that
// their order does not matter.
TEST(Program, TrainsAsPlainLoopsDo) {
  std::string folder = ::testing::TempDir() + "/echelon_codegen_" + std::to_string(getpid());
  ASSERT_EQ(std::system(("mkdir -p " + folder).c_str()), 0);
  std::ofstream(folder + "/mlp.cpp") << print(testFile("mlp.mlir")).text;
  std::string root = ECHELON_SOURCE_FOLDER, library = ECHELON_RUNTIME_LIBRARY;
  ASSERT_EQ(std::system(("g++ -std=c++17 -O1 -Wall -Wextra -Werror -I" + root + " " + folder + "/mlp.cpp " + library +
                         " -o " + folder + "/mlp -ldnnl -lopenblas -lz -ldeflate -lgomp -lpthread -ldl -lrt")
                            .c_str()),
            0);
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 6; ++j)
      x.push_back(static_cast<float>(std::sin(i * 6 + j)));
    y.push_back(i % 3);
  }
  writeNpy(folder + "/x.npy", "<f4", "(8, 6)", x);
  writeNpy(folder + "/y.npy", "<i4", "(8,)", y);
  ASSERT_EQ(
      std::system(("cd " + folder + " && ./mlp --transport threads --folder . --log log.jsonl > out.txt").c_str()), 0)
      << readFile(folder + "/out.txt");

  std::array<double, 30> w1;
  std::array<double, 15> w2;
  std::array<double, 5> b1{};
  std::array<double, 3> b2{};
  w1.fill(0.25);
  w2.fill(0.125);
  std::istringstream log(readFile(folder + "/log.jsonl"));
  for (int step = 0; step < 3; ++step) {
    std::array<double, 30> dw1{};
    std::array<double, 15> dw2{};
    std::array<double, 5> db1{};
    std::array<double, 3> db2{};
    double loss = 0;
    for (int i = 0; i < 8; ++i) {
      double s[5], h[5], z[3], sum = 0;
      for (int k = 0; k < 5; ++k) {
        s[k] = b1[k];
        for (int j = 0; j < 6; ++j)
          s[k] += x[i * 6 + j] * w1[j * 5 + k];
        h[k] = std::max(s[k], 0.0);
      }
      for (int c = 0; c < 3; ++c) {
        z[c] = b2[c];
        for (int k = 0; k < 5; ++k)
          z[c] += h[k] * w2[k * 3 + c];
        sum += std::exp(z[c]);
      }
      loss += (std::log(sum) - z[y[i]]) / 8;
      double dh[5]{};
      for (int c = 0; c < 3; ++c) {
        double d = (std::exp(z[c]) / sum - (c == y[i])) / 8;
        db2[c] += d;
        for (int k = 0; k < 5; ++k) {
          dw2[k * 3 + c] += h[k] * d;
          dh[k] += w2[k * 3 + c] * d;
        }
      }
      for (int k = 0; k < 5; ++k) {
        double d = s[k] > 0 ? dh[k] : 0;
        db1[k] += d;
        for (int j = 0; j < 6; ++j)
          dw1[j * 5 + k] += x[i * 6 + j] * d;
      }
    }
    std::string line;
    ASSERT_TRUE(std::getline(log, line));
    std::smatch found;
    ASSERT_TRUE(std::regex_search(line, found, std::regex("\"loss\": ?([-+0-9.e]+)"))) << line;
    EXPECT_NEAR(std::stod(found[1]), loss, 2e-6) << "step " << step;
    for (size_t i = 0; i < 30; ++i)
      w1[i] -= 0.1 * dw1[i];
    for (size_t i = 0; i < 15; ++i)
      w2[i] -= 0.1 * dw2[i];
    for (size_t i = 0; i < 5; ++i)
      b1[i] -= 0.1 * db1[i];
    for (size_t i = 0; i < 3; ++i)
      b2[i] -= 0.1 * db2[i];
  }
  std::system(("rm -r " + folder).c_str());
}
