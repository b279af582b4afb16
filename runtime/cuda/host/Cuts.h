// What a test takes out of a program, one thing at a time, to see that the emulation misses it. No option of a program
// leads here: nothing is cut unless a test calls cutOut. A site is named by what is done there, and where:
//
//   wait 3 of device 1                                 cudaStreamWaitEvent does nothing
//   record 3 of device 1                               nor does cudaEventRecord
//   host wait 3 of device 1                            the host does not wait for a stream, an event or a device
//   read 2 of 'softmax' (Softmax.cu:149)               the launch's second range is not said to be read,
//   write 1 of 'softmax' (Softmax.cu:149)              or written;
//   end of 2 of 'softmax' (Softmax.cu:149)             it is said of all but its last two bytes
//   barrier Device.h:139 in 'softmax' (Softmax.cu:149) no thread waits at this __syncthreads or __syncwarp
//   arrival Device.h:139 in 'softmax' (Softmax.cu:149) its first warp does not come there, or a warp's first lane
//
// Calls of the host count by device, from 1, so that ranks do not depend on each other's order.
#pragma once
#include "runtime/cuda/host/Clocks.h"

#include <map>
#include <string>

namespace echelon::cuda::host {

/// Takes out what is at a site, from now on.
void cutOut(const std::string &site);

/// Notes the sites that are reached from now on.
void listSites();
/// Those since the last call, and whether each does something: false where the emulation sees that what it orders is
/// ordered without it, or that nothing is there to be ordered.
std::map<std::string, bool> takeSites();

//===-- by the emulation -----------------------------------------------------------------------------------------===//

/// Whether anything is cut out or noted: false in every program.
bool mayCut();
/// Whether this call of the host, the next of its kind on the current device, is cut out. `matters`: whether it orders
/// anything.
bool isCut(const char *kind, bool matters);
/// What a launch declares, less what is cut.
std::vector<Range> declared(const LaunchSite &site, std::vector<Range> ranges);

/// A meeting of threads in a kernel.
struct MeetingCut {
  bool isGone = false, lacksFirst = false;
};
MeetingCut cutAt(const LaunchSite &launch, const MeetingSite &meeting);
/// Threads have met at the site that was asked for last. `matters`: whether anything is in shared memory.
void hasMet(bool matters);
/// Whether hasMet may learn anything new.
bool isMeetingUnknown();

} // namespace echelon::cuda::host
