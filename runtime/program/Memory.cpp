#include "runtime/program/Memory.h"

#include "runtime/data/File.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace echelon::runtime {

namespace {

/// A line of /proc/self/status, in bytes; 0 where it is missing.
int64_t statusBytes(const char *name) {
  FILE *file = std::fopen("/proc/self/status", "r");
  if (!file)
    return 0;
  char line[256];
  long long kib = 0;
  while (std::fgets(line, sizeof(line), file))
    if (std::strncmp(line, name, std::strlen(name)) == 0 && line[std::strlen(name)] == ':')
      std::sscanf(line + std::strlen(name) + 1, "%lld", &kib);
  std::fclose(file);
  return int64_t(kib) * 1024;
}

} // namespace

int64_t residentBytesBeyond(const Rank &rank) {
  const int64_t arenas = int64_t(arenaBytes(rank.program()));
  const char *transport = const_cast<Rank &>(rank).transport().name();
  if (std::strcmp(transport, "shm") == 0 && rank.size() > 1) // arenas and unpacked data lie in shared memory
    return statusBytes("RssAnon") + statusBytes("RssFile");
  const int64_t ranksHere = std::strcmp(transport, "threads") == 0 ? rank.size() : 1;
  return std::max<int64_t>(0, statusBytes("VmHWM") - ranksHere * arenas - int64_t(unpackedBytes())) / ranksHere;
}

} // namespace echelon::runtime
