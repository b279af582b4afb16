// Memory of the emulated devices: pages that only their work may touch.
//
// An allocation ends where a page does, and the pages before and behind it may never be touched. Its own pages are
// closed while the host runs and open while work of the device does, so a host that reads a device's pointer ends
// there, and so does a kernel that leaves its memory. All of it is NaN at first.
#pragma once
#include "runtime/cuda/host/Clocks.h"

#include <cstddef>

namespace echelon::cuda::host {

struct Task;

/// On a device, or of the host and known to CUDA.
struct Allocation {
  char *data;
  size_t bytes;
  bool isOnDevice, isRegistered; // by cudaMalloc; by cudaHostRegister
  int device;
  char *pages; // of the device's: with a closed one at both ends
  size_t pageBytes;
  History history;
};

/// The one that holds the address; nullptr: CUDA does not know it.
Allocation *allocationOf(const void *address);

/// Runs a task with the devices' memory open; it stays so until closeMemory.
void runOpen(const Task &task);
/// Before the host goes on.
void closeMemory();

/// Ends the program: what it does is wrong on every device.
[[noreturn]] void stop(const std::string &message);

} // namespace echelon::cuda::host
