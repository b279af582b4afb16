#include "runtime/launch/Descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace echelon::runtime {

void openStandardDescriptors() {
  int lowest;
  do
    lowest = open("/dev/null", O_RDWR); // the lowest that is free
  while (lowest >= 0 && lowest <= STDERR_FILENO);
  if (lowest >= 0)
    close(lowest);
}

} // namespace echelon::runtime
