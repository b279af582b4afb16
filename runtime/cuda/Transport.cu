#include "runtime/collectives/Collectives.h"
#include "runtime/cuda/Check.h"
#include "runtime/cuda/Transport.h"
#include "runtime/launch/Fail.h"
#include "runtime/launch/MachineNumber.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <tuple>
#include <unistd.h>
#include <vector>

namespace echelon::cuda {

namespace {

/// Where a rank computes, as ranks tell each other.
struct Place {
  uint64_t machine = 0;
  int64_t process = 0;
  char device[24] = {}; // on its bus, "0000:1b:00.0"

  auto key() const { return std::tuple(machine, std::string(device)); }
};

std::vector<Place> placesOf(runtime::Rank &host, const Place &own) {
  static_assert(std::is_trivially_copyable_v<Place>);
  std::vector<Place> all(static_cast<size_t>(host.size()));
  runtime::all_gather(host.transport(), host.transport().world(), reinterpret_cast<uint8_t *>(all.data()),
                      reinterpret_cast<const uint8_t *>(&own), int64_t(sizeof own));
  return all;
}

} // namespace

int chooseDevice(runtime::Rank &host) {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess || devices == 0)
    runtime::fail(std::string("no GPU: ") + (error == cudaSuccess ? "there is none" : cudaGetErrorString(error)));
  // A launcher that counts the ranks of a machine may have given each some of its devices by that number.
  if (const int place = host.transport().localRank(); place >= 0)
    return place % devices;
  Place own;
  own.machine = runtime::machineNumber();
  const std::vector<Place> all = placesOf(host, own);
  const auto before = std::count_if(all.begin(), all.begin() + host.rank(),
                                    [&](const Place &other) { return other.machine == own.machine; });
  return int(before % devices);
}

std::unique_ptr<DeviceTransport> deviceTransport(runtime::Rank &host) {
  Place own;
  own.machine = runtime::machineNumber();
  own.process = getpid();
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetPCIBusId(own.device, sizeof own.device, device), "cudaDeviceGetPCIBusId");
  const std::vector<Place> all = placesOf(host, own);
  std::set<std::tuple<uint64_t, std::string>> devices;
  bool isShared = false; // NCCL refuses two ranks on one device
  for (const Place &place : all)
    isShared = !devices.insert(place.key()).second || isShared ||
               (kIsEmulated && place.process != all[0].process); // the emulated one knows threads alone
  return isShared ? hostTransport(host) : ncclTransport(host);
}

} // namespace echelon::cuda
