#include "runtime/program/Log.h"
#include "runtime/launch/Fail.h"
#include "runtime/launch/Terminal.h"
#include "runtime/program/Clock.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace echelon::runtime {

std::string shortest(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, end.ptr);
}

std::string quoted(const std::string &text) {
  std::string result = "\"";
  for (const char c : text) {
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned char>(c));
    if (c == '"' || c == '\\')
      (result += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      result += escape;
    else
      result += c;
  }
  return result + "\"";
}

namespace {

std::string number(double value, const char *format = "%.5g") {
  char text[40];
  std::snprintf(text, sizeof(text), format, std::isnan(value) ? std::fabs(value) : value); // nan has no sign
  return text;
}

std::string duration(double seconds) {
  const long long s = std::llround(seconds);
  char text[40];
  if (s >= 3600)
    std::snprintf(text, sizeof(text), "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  else
    std::snprintf(text, sizeof(text), "%lld:%02lld", s / 60, s % 60);
  return text;
}

/// One member of a JSON row. JSON has no infinities: what is not finite becomes null.
std::string member(const std::string &name, double value) {
  return ", " + quoted(name) + ": " + (std::isfinite(value) ? shortest(value) : "null");
}

/// Cuts off what an interrupted run wrote after the snapshot that the run goes on from: rows of later steps, half a
/// row, that of the run's end; and of the step's evaluations, where they are made once more.
void forgetRowsAfter(int64_t step, bool evaluatesFirst, const std::string &path) {
  FILE *file = std::fopen(path.c_str(), "r");
  if (!file)
    fail("cannot read \"" + path + "\", which goes on: " + std::strerror(errno));
  char *line = nullptr;
  size_t capacity = 0;
  off_t keep = 0;
  for (ssize_t length; (length = getline(&line, &capacity, file)) > 0 && line[length - 1] == '\n'; keep += length) {
    long long rowStep = 0;
    const bool isRow = std::sscanf(line, "{\"step\": %lld", &rowStep) == 1;
    const bool isAgain = (evaluatesFirst && std::strstr(line, "\"eval_time_s\"")) || std::strstr(line, "\"until\": \"");
    if (isRow && (rowStep > step || (rowStep == step && isAgain)))
      break;
  }
  const int reason = std::ferror(file) ? errno : 0;
  std::free(line);
  std::fclose(file);
  if (reason)
    fail("cannot read \"" + path + "\", which goes on: " + std::strerror(reason));
  if (truncate(path.c_str(), keep) != 0)
    fail("cannot write \"" + path + "\": " + std::strerror(errno));
}

constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

/// Columns of a line that is read elsewhere.
constexpr size_t kWhole = std::numeric_limits<size_t>::max();

/// What a line of progress keeps on a narrow terminal: the first of these first.
enum Importance { kStep, kLoss, kLeft, kSpeed, kLearningRate, kNorm, kFurther };

} // namespace

RunLog::RunLog(const std::string &file, bool append, int64_t firstStep, int64_t lastStep, int64_t batchSize,
               bool evaluatesFirst, bool repaints)
    : path(file), terminal(repaints && isatty(STDOUT_FILENO)), first(firstStep), last(lastStep), batch(batchSize),
      printEvery(lastStep == kEndless ? 100 : std::max<int64_t>(1, (lastStep - firstStep) / 20)), began(secondsNow()) {
  if (path.empty())
    return;
  // A pipe without a reader would wait for one.
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  struct stat info = {};
  if (descriptor < 0 || fstat(descriptor, &info) != 0)
    fail("cannot write \"" + path +
         "\": " + (errno == ENXIO ? "it is a pipe that nobody reads" : std::strerror(errno)));
  fcntl(descriptor, F_SETFL, O_APPEND);
  if (S_ISREG(info.st_mode)) {
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      fail("another run is writing its log to \"" + path + "\": stop it, or name another file");
    if (append)
      forgetRowsAfter(firstStep, evaluatesFirst, path);
    else if (ftruncate(descriptor, 0) != 0)
      fail("cannot write \"" + path + "\": " + std::strerror(errno));
  }
  if (!(json = fdopen(descriptor, "a")))
    fail("cannot write \"" + path + "\": " + std::strerror(errno));
}

RunLog::~RunLog() {
  if (lineOpen)
    std::fputs("\n", stdout);
  std::fflush(stdout);
  if (json)
    std::fclose(json);
}

void RunLog::write(const std::string &row) {
  if (json && (std::fprintf(json, "%s\n", row.c_str()) < 0 || std::fflush(json) != 0))
    fail("cannot write \"" + path + "\": " + std::strerror(errno));
}

void RunLog::step(int64_t step, const NamedValues &values, double seconds, bool isSkipped, const std::string &more) {
  if (json) {
    std::string row = "{\"step\": " + std::to_string(step);
    for (const auto &[name, value] : values)
      row += member(name, value);
    write(row + more + (isSkipped ? ", \"skipped\": true" : "") + member("step_time_s", seconds) +
          member("samples_per_s", double(batch) / seconds) + "}");
  }
  progress(step, values);
}

void RunLog::progress(int64_t step, const NamedValues &values) {
  const double now = secondsNow();
  // A terminal is repainted a few times a second; elsewhere lines come by step, or by the minute where steps are long.
  const bool due =
      terminal ? now - lastShown >= 0.1 : step % printEvery == 0 || step == first + 1 || now - lastShown >= 60;
  if (!due && step != last)
    return;
  lastShown = now;
  const double elapsed = now - began, done = double(step - first);
  std::vector<LinePart> parts = {
      {"step " + std::to_string(step) + (last == kEndless ? "" : "/" + std::to_string(last)), kStep}};
  int further = kFurther;
  for (const auto &[name, value] : values) {
    const int rank = name == "loss" ? kLoss : name == "lr" ? kLearningRate : name == "grad_norm" ? kNorm : further++;
    parts.push_back({"  " + name + " " + number(value), rank});
  }
  parts.push_back({"  " + number(done * double(batch) / elapsed, "%.4g") + " samples/s", kSpeed});
  if (last != kEndless)
    parts.push_back({"  " + duration(elapsed / done * double(last - step)) + " left", kLeft});
  // In the last column a terminal would go on to the next line.
  const size_t columns = terminal ? terminalColumns(STDOUT_FILENO) - 1 : kWhole;
  std::printf(terminal ? "\r%s\033[K" : "%s\n", fitInto(columns, parts).c_str());
  flush();
  lineOpen = terminal;
}

void RunLog::evaluation(int64_t step, const std::string &name, const NamedValues &values, double seconds) {
  std::string row = "{\"step\": " + std::to_string(step), line = "evaluation";
  if (!name.empty()) {
    row += ", \"eval\": " + quoted(name);
    line += " " + name;
  }
  line += " after step " + std::to_string(step) + ":";
  for (const auto &[key, value] : values) {
    row += member(key, value);
    line += "  " + key + " " + number(value);
  }
  write(row + member("eval_time_s", seconds) + "}");
  say(line);
}

void RunLog::rollBack(int64_t from, int64_t to, int64_t samples) {
  struct stat info = {};
  if (json && fstat(fileno(json), &info) == 0 && S_ISREG(info.st_mode))
    forgetRowsAfter(to, false, path);
  write("{\"step\": " + std::to_string(to) + ", \"rolled_back_from\": " + std::to_string(from) +
        ", \"samples\": " + std::to_string(samples) + "}");
  say("step " + std::to_string(from) + " has a loss or gradients that are not finite: back to the snapshot of step " +
      std::to_string(to) + ", and on with the data after it");
}

void RunLog::end(int64_t step, const std::string &until, bool reached, int64_t from, double seconds,
                 double secondsWithoutEvaluations, double cost) {
  write("{\"step\": " + std::to_string(step) + ", \"until\": " + quoted(until) + ", \"reached\": " +
        (reached ? "true" : "false") + (from ? ", \"from\": " + std::to_string(from) : "") + member("time_s", seconds) +
        member("time_without_evaluations_s", secondsWithoutEvaluations) + (cost > 0 ? member("cost", cost) : "") + "}");
  say(until + (reached ? " reached" : " not reached") + " after step " + std::to_string(step) + ": " + number(seconds) +
      " s" + (from ? " from step " + std::to_string(from) + " on" : "") + ", " + number(secondsWithoutEvaluations) +
      " s without evaluations" + (cost > 0 ? ", " + number(cost, "%.3g") + " $" : ""));
}

void RunLog::begin(const std::vector<std::vector<std::string>> &lines) {
  const size_t columns = terminal ? terminalColumns(STDOUT_FILENO) : kWhole;
  for (std::vector<std::string> parts : lines) {
    for (std::string &part : parts)
      part = printable(part);
    show(wrapTo(columns, parts));
  }
}

void RunLog::change(int64_t step, const Change &change) {
  auto text = [](const std::vector<std::string> &lines) {
    std::string all;
    for (const std::string &line : lines)
      all += (all.empty() ? "" : "\n") + line;
    return quoted(all);
  };
  write("{\"step\": " + std::to_string(step) + ", \"changed\": " + quoted(change.category) + ", \"snapshot\": " +
        text(change.then) + ", \"now\": " + text(change.now) + (change.isAnother ? ", \"accepted\": true}" : "}"));
}

void RunLog::say(const std::string &line) { show(printable(line)); }

void RunLog::show(const std::string &text) {
  std::printf(lineOpen ? "\n%s\n" : "%s\n", printable(text, Lines::Kept).c_str());
  flush();
  lineOpen = false;
}

/// Told once: lines for a reader are not worth a training run.
void RunLog::flush() {
  const int reason = std::fflush(stdout) == 0 ? 0 : errno; // of what a line before could not write nobody knows it
  if ((reason == 0 && !std::ferror(stdout)) || lost)
    return;
  lost = true;
  complain("cannot write the standard output" + (reason ? std::string(": ") + std::strerror(reason) : ""));
}

void RunLog::warn(const std::string &line) {
  if (lineOpen)
    std::fputs("\n", stdout);
  lineOpen = false;
  complain(line);
}

} // namespace echelon::runtime
