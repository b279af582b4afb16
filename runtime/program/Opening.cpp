#include "runtime/program/Opening.h"

#include <cstdio>
#include <filesystem>
#include <iterator>
#include <limits>

namespace echelon::runtime {

namespace {

std::string counted(int64_t n, const std::string &what) { return grouped(n) + " " + what + (n == 1 ? "" : "s"); }

std::string sizeText(double bytes) {
  static const char *const kUnits[] = {"bytes", "KB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < std::size(kUnits); ++unit)
    bytes /= 1000;
  char text[40];
  std::snprintf(text, sizeof(text), "%.3g %s", bytes, kUnits[unit]);
  return text;
}

std::string parametersText(const Program &program) {
  int64_t count = 0;
  double bytes = 0;
  const char *word = "fp32";
  for (const Stored &stored : program.stored)
    if (stored.kind == Stored::Param) {
      count += logicalCount(stored.layout);
      bytes += double(logicalCount(stored.layout)) * double(bytesOf(stored.type));
      if (stored.type != ElementType::Float32)
        word = stored.type == ElementType::Float64 ? "fp64" : namesOf(stored.type).language;
    }
  return counted(count, "parameter") + " (" + sizeText(bytes) + " " + word + ")";
}

std::string meshText(const Program &program) {
  std::string text;
  for (const MeshAxis &axis : program.mesh)
    text += (text.empty() ? "layout mesh(" : ", ") + axis.name + " = " + std::to_string(axis.size);
  return text + ")";
}

std::string stepsText(const Program &program, int64_t first, int64_t last) {
  if (last == std::numeric_limits<int64_t>::max())
    return first ? "from step " + grouped(first + 1) : "without end";
  std::string text = first >= last ? "step " + grouped(last) + " is done" : counted(last - first, "step");
  if (first > 0 && first < last)
    text = "steps " + grouped(first + 1) + " to " + grouped(last);
  return text + (program.steps > last ? " of " + grouped(program.steps) : "");
}

std::string sourceText(const DataSpec &spec) {
  if (!spec.children.empty())
    return spec.kind + "(" + sourceText(spec.children.front()) + ")";
  return spec.name.empty() ? spec.kind : spec.kind + "(" + spec.name + ")";
}

std::string dataText(const Program &program, const DataStream &data) {
  if (data.trainSize() == kUnlimited)
    return "data " + sourceText(program.data) + " without end";
  return "data " + sourceText(program.data) + ": " + counted(data.trainSize(), "sample") +
         (data.heldOutSize() > 0 ? ", " + grouped(data.heldOutSize()) + " held out" : "");
}

/// As seen from where the command runs, if it lies below.
std::string nearPath(const std::string &path) {
  std::error_code none;
  const std::filesystem::path here = std::filesystem::current_path(none),
                              near = std::filesystem::path(path).lexically_relative(here);
  return none || near.empty() || *near.begin() == ".." ? path : near.string();
}

std::string snapshotsText(const Checkpoint &checkpoint, const std::string &directory) {
  if (directory.empty())
    return "nothing is saved: the spec has no clause checkpoint";
  char seconds[40];
  std::snprintf(seconds, sizeof(seconds), "%g s", checkpoint.everySeconds);
  const std::string every = checkpoint.everySteps ? counted(checkpoint.everySteps, "step") : seconds;
  return "snapshots every " + every + " in \"" + nearPath(directory) + "\"" +
         (checkpoint.keep ? ", the newest " + grouped(checkpoint.keep) + " kept" : "");
}

} // namespace

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t end = text.size(); end > 3 + size_t(number < 0); end -= 3)
    text.insert(end - 3, ",");
  return text;
}

std::vector<std::vector<std::string>> openingLines(const Program &program, const Prepared &prepared, int64_t first,
                                                   int64_t last, const std::string &transport) {
  const int ranks = meshSize(program.mesh);
  std::vector<std::string> what = {"training " + program.name + ": ", parametersText(program) + ", ",
                                   counted(ranks, "rank") + (ranks > 1 ? " over " + transport : "") + ", "};
  if (!program.model.empty())
    what.insert(what.begin() + 1, program.model + ", ");
  if (ranks > 1)
    what.push_back(meshText(program) + ", ");
  what.push_back("batch " + grouped(program.batch) + ", ");
  what.push_back(stepsText(program, first, last));
  return {what,
          {dataText(program, *prepared.data) + "; ", snapshotsText(program.checkpoint, prepared.checkpointDirectory)}};
}

std::string whatIsLost(const Program &program) {
  return program.checkpoint.directory.empty()
             ? "what it has learned is lost, since the spec has no clause checkpoint; add one, as in checkpoint every "
               "100 steps"
             : "what it has learned since the newest snapshot is lost; go on from that with --resume";
}

} // namespace echelon::runtime
