#include "runtime/profile/Trace.h"

#include "runtime/launch/Printable.h"
#include "runtime/program/Log.h"
#include "runtime/program/Rank.h"
#include "runtime/program/WriterTurns.h"

#include <cmath>
#include <cstdio>

namespace echelon::runtime {

namespace {

constexpr size_t kPart = size_t(1) << 20; // bytes of text that a rank sends at a time
constexpr int kTag = (1 << 19) + 3;       // apart from those of groups, assemble, WriterTurns and SnapshotTransfer

/// A JSON string of whatever bytes a spec's name may have.
std::string jsonString(const std::string &text) { return quoted(printable(text)); }

/// Names a row, or the rank itself, and says where it is shown.
std::string nameText(const char *what, int rank, int row, const std::string &name) {
  const std::string of = "\"ph\": \"M\", \"pid\": " + std::to_string(rank) + ", \"tid\": " + std::to_string(row);
  return ",\n{\"name\": \"" + std::string(what) + "_name\", " + of + ", \"args\": {\"name\": " + jsonString(name) +
         "}},\n{\"name\": \"" + what + "_sort_index\", " + of +
         ", \"args\": {\"sort_index\": " + std::to_string(what == std::string("thread") ? row : rank) + "}}";
}

} // namespace

void Trace::add(size_t entry, uint64_t begin, uint64_t end) {
  if (!isFull())
    spans.push_back({begin, end, uint32_t(entry), step});
}

void Trace::addCollective(int group, const char *name, const char *line, uint64_t begin, uint64_t end) {
  const auto [found, isNew] = collectives.try_emplace({group, name, line}, all.size());
  if (isNew)
    all.push_back({name, line, "messages", Traced::Groups + group});
  add(found->second, begin, end);
}

std::string Trace::rowsText(const Rank &rank) const {
  const Program &program = rank.program();
  std::string text = nameText("process", rank.rank(), 0, "rank " + std::to_string(rank.rank()));
  text += nameText("thread", rank.rank(), Traced::Steps, "steps");
  text += nameText("thread", rank.rank(), Traced::Host, "host");
  text += nameText("thread", rank.rank(), Traced::Operations, program.device ? "device" : "operations");
  for (size_t g = 0; g < program.groups.size(); ++g) {
    std::string axes;
    for (const int axis : program.groups[g])
      axes += (axes.empty() ? "" : ", ") + program.mesh[size_t(axis)].name;
    text += nameText("thread", rank.rank(), Traced::Groups + int(g), "collectives over " + axes);
  }
  return text;
}

/// Whole nanoseconds, so that the end of a span is the begin of the next one where its ticks are.
std::string Trace::spanText(int rank, const Span &span, const Time &time) const {
  auto nanoseconds = [&](uint64_t ticks) {
    return std::llround(1e9 * (time.seconds + double(int64_t(ticks - time.ticks)) * time.perTick));
  };
  const long long begin = nanoseconds(span.begin), length = std::max(nanoseconds(span.end) - begin, 0LL);
  const Traced &of = all[span.entry];
  char times[160];
  std::snprintf(times, sizeof times, "\"ts\": %.3f, \"dur\": %.3f, \"pid\": %d, \"tid\": %d", 1e-3 * double(begin),
                1e-3 * double(length), rank, of.row);
  std::string arguments = "\"step\": " + std::to_string(span.step);
  if (!of.line.empty())
    arguments += ", \"line\": " + jsonString(of.line);
  const std::string name = of.row == Traced::Steps ? of.name + " " + std::to_string(span.step) : of.name;
  return ",\n{\"name\": " + jsonString(name) + ", \"cat\": " + jsonString(of.kind) + ", \"ph\": \"X\", " + times +
         ", \"args\": {" + arguments + "}}";
}

/// Every rank spells its own events; those of others come to rank 0 part by part, so that it holds one part of them.
bool Trace::write(Rank &rank, FILE *file, const Time &time) const {
  Transport &transport = rank.transport();
  WriterTurns turns(rank, "trace");
  bool isGood = true;
  auto put = [&](const std::string &text) {
    isGood = isGood && (!file || std::fwrite(text.data(), 1, text.size(), file) == text.size());
    turns.stillWriting();
  };
  auto send = [&](const std::string &text) {
    turns.await();
    const uint64_t bytes = text.size();
    transport.send(0, &bytes, sizeof bytes, kTag, "trace");
    if (bytes > 0)
      transport.send(0, text.data(), text.size(), kTag, "trace");
  };
  const bool isFirst = rank.rank() == 0;
  std::string text = rowsText(rank);
  if (isFirst)
    text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [" + text.substr(1); // without its comma
  for (const Span &span : spans) {
    text += spanText(rank.rank(), span, time);
    if (text.size() < kPart)
      continue;
    isFirst ? put(text) : send(text);
    text.clear();
  }
  if (!text.empty())
    isFirst ? put(text) : send(text);
  if (!isFirst)
    send(""); // its last
  for (int from = 1; isFirst && from < rank.size(); ++from)
    for (uint64_t bytes = 1; bytes > 0;) {
      turns.give(from);
      transport.receive(from, &bytes, sizeof bytes, kTag, "trace");
      std::string part(bytes, '\0');
      if (bytes > 0)
        transport.receive(from, part.data(), part.size(), kTag, "trace");
      put(part);
    }
  if (isFirst)
    put("\n]}\n");
  turns.end();
  return isGood;
}

} // namespace echelon::runtime
