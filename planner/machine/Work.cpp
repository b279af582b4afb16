#include "planner/machine/Work.h"

namespace echelon::planner {

const char *nameOf(Precision precision) {
  switch (precision) {
  case Precision::Fp64:
    return "fp64";
  case Precision::Fp32:
    return "fp32";
  case Precision::Tf32:
    return "tf32";
  case Precision::Bf16:
    return "bf16";
  case Precision::Fp16:
    return "fp16";
  case Precision::Fp8:
    return "fp8";
  }
  return "";
}

const char *nameOf(Message::Kind kind) {
  switch (kind) {
  case Message::Kind::AllReduce:
    return "all_reduce";
  case Message::Kind::ReduceScatter:
    return "reduce_scatter";
  case Message::Kind::AllGather:
    return "all_gather";
  case Message::Kind::AllToAll:
    return "all_to_all";
  case Message::Kind::Broadcast:
    return "broadcast";
  case Message::Kind::Send:
    return "send";
  }
  return "";
}

} // namespace echelon::planner
