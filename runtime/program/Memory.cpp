#include "runtime/program/Memory.h"

#include "runtime/collectives/Collectives.h"
#include "runtime/data/File.h"
#include "runtime/launch/MachineMemory.h"
#include "runtime/snapshot/SnapshotWriter.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace echelon::runtime {

namespace {

/// A line of /proc/self/status, in bytes; 0 where it is missing, -1 without /proc.
int64_t statusBytes(const char *name) {
  FILE *file = std::fopen("/proc/self/status", "r");
  if (!file)
    return -1;
  char line[256];
  long long kib = 0;
  while (std::fgets(line, sizeof(line), file))
    if (std::strncmp(line, name, std::strlen(name)) == 0 && line[std::strlen(name)] == ':')
      std::sscanf(line + std::strlen(name) + 1, "%lld", &kib);
  std::fclose(file);
  return int64_t(kib) * 1024;
}

} // namespace

std::string refuseBeyondMachine(const Program &program, int ranksHere) {
  const double has = double(machineBytes()), each = double(residentBytes(program)), needed = each * ranksHere;
  if (has == 0 || needed <= has)
    return "";
  auto gigabytes = [](double bytes) {
    char text[40];
    std::snprintf(text, sizeof(text), "%.2f GB", bytes * 1e-9);
    return std::string(text);
  };
  double parameters = 0, largest = 0;
  std::string name;
  for (const Stored &stored : program.stored) {
    if (stored.kind != Stored::Param)
      continue;
    const double bytes = double(localCount(stored.layout, program.mesh)) * double(bytesOf(stored.type));
    parameters += bytes;
    if (bytes > largest) {
      largest = bytes;
      name = stored.path;
    }
  }
  const double state = double(residentStateBytes(program)), work = double(program.workBytes);
  const bool ofModel = state + parameters > work; // gradients, in the work arena, are as large as parameters
  return "the plan takes " + gigabytes(each) + " a rank, " + gigabytes(needed) + " for the " +
         std::to_string(ranksHere) + " of this machine, which has " + gigabytes(has) + ": parameters " +
         gigabytes(parameters) + ", the largest " + name + " with " + gigabytes(largest) + ", the optimizer's state " +
         gigabytes(state - parameters) + ", gradients and activations " + gigabytes(work) + ", inputs " +
         gigabytes(double(program.inputBytes)) + "; take " +
         (ofModel
              ? std::string("a smaller model, ") + (state > parameters ? "`store optimizer over` a mesh axis, " : "") +
                    (state > parameters && !program.offload.isInFile() ? "`offload optimizer to` a directory, " : "") +
                    "or more machines"
              : "a smaller batch, micro batches, a smaller model, or more machines");
}

bool hasRoomForCopies(const Program &program, int ranksHere) {
  const double has = double(machineBytes());
  return has == 0 || double(residentBytes(program) + copyBytes(program)) * ranksHere <= has;
}

int64_t residentBytesBeyond(const Rank &rank) {
  const int64_t arenas = int64_t(residentBytes(rank.program())), most = statusBytes("VmHWM");
  if (most < 0)
    return -1;
  const Offload &offload = rank.program().offload;
  const int64_t ofFile = offload.isInFile() ? offload.resident : 0;
  const char *transport = const_cast<Rank &>(rank).transport().name();
  if (std::strcmp(transport, "shm") == 0 && rank.size() > 1) // arenas, copies and unpacked data lie in shared memory
    return std::max<int64_t>(0, statusBytes("RssAnon") + statusBytes("RssFile") - ofFile);
  const int64_t ranksOfProcess = std::strcmp(transport, "threads") == 0 ? rank.size() : 1;
  return std::max<int64_t>(0, most - ranksOfProcess * arenas - int64_t(unpackedBytes() + copiedBytes())) /
         ranksOfProcess;
}

std::string memoryLine(Rank &rank, size_t copy) {
  const Program &program = rank.program();
  const Offload &offload = program.offload;
  const auto state = program.device ? double(program.stateBytes - offload.bytes + 2 * offload.piece)
                                    : double(residentStateBytes(program));
  const double arenas = state + double(program.inputBytes + program.workBytes) + double(copy);
  const double mine = double(residentBytesBeyond(rank));
  std::vector<double> all(size_t(rank.size()));
  all_gather(rank.transport(), rank.transport().world(), all.data(), &mine, 1, "memory");
  const double beyond = *std::max_element(all.begin(), all.end());
  char line[280], copied[40] = "", beyondText[40] = "unknown", offloaded[60] = "";
  if (offload)
    std::snprintf(offloaded, sizeof(offloaded), "; offloaded %.1f MB", double(offload.bytes) * 1e-6);
  if (copy)
    std::snprintf(copied, sizeof(copied), ", snapshot %.1f", double(copy) * 1e-6);
  if (beyond >= 0)
    std::snprintf(beyondText, sizeof(beyondText), "%.1f MB", beyond * 1e-6);
  int length = std::snprintf(line, sizeof(line),
                             "memory a rank: arenas %.1f MB (state %.1f, inputs %.1f, work %.1f%s), beyond them %s%s",
                             arenas * 1e-6, state * 1e-6, double(program.inputBytes) * 1e-6,
                             double(program.workBytes) * 1e-6, copied, beyondText, offloaded);
  if (const size_t data = unpackedBytes())
    std::snprintf(line + length, sizeof(line) - size_t(length), "; unpacked data %.1f MB %s", double(data) * 1e-6,
                  rank.transport().isDirect() ? "in all" : "each");
  return line;
}

} // namespace echelon::runtime
