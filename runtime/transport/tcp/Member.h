// Who a process is among the ranks of a run, and where they meet.
#pragma once

#include <string>

namespace echelon::runtime::tcp {

struct Member {
  int rank = 0, size = 1;
  int localRank = 0; // among those of its machine
  std::string host;  // where rank 0 listens
  int port = 0;
  std::string job;     // what tells this run from others that may know the same place; may be empty
  int listener = -1;   // of rank 0: a descriptor that listens there already; -1: none does
  std::string atFault; // "MASTER_ADDR and MASTER_PORT": what said where to meet, for messages
};

} // namespace echelon::runtime::tcp
