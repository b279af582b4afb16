// Runs of the hand-written linear program: a folder with data, and what a run prints and logs.
#pragma once

#include "LinearProgram.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace echelon::runtime::test {

using Rows = std::vector<nlohmann::json>;

/// A folder with data of its own: 40 training and 13 held-out images of 1 x 6 pixels, and a table of 5 samples.
class LinearRun : public testing::Test {
protected:
  void SetUp() override {
    folder = (std::filesystem::temp_directory_path() / ("echelon-run-" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(folder + "/data");
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
  void TearDown() override { std::filesystem::remove_all(folder); }

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

  /// Rows of a log as text, without what differs from run to run.
  static std::string withoutTimes(Rows rows) {
    std::string text;
    for (nlohmann::json &row : rows) {
      for (const char *key : {"step_time_s", "samples_per_s", "eval_time_s"})
        row.erase(key);
      text += row.dump() + "\n";
    }
    return text;
  }

  std::string folder, out, messages;
};

} // namespace echelon::runtime::test
