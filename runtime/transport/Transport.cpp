#include "runtime/transport/Transport.h"

namespace echelon::runtime {

const char *nameOf(Collective collective) {
  switch (collective) {
  case Collective::Barrier:
    return "barrier";
  case Collective::Broadcast:
    return "broadcast";
  case Collective::Scatter:
    return "scatter";
  case Collective::Gather:
    return "gather";
  case Collective::AllGather:
    return "all_gather";
  case Collective::Reduce:
    return "reduce";
  case Collective::AllReduce:
    return "all_reduce";
  case Collective::ReduceScatter:
    return "reduce_scatter";
  case Collective::AllToAll:
    return "all_to_all";
  }
  return "collective";
}

} // namespace echelon::runtime
