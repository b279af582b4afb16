#include "frontend/train/NotBuilt.h"

namespace echelon::frontend {

std::string messageOf(const NotBuilt &part) {
  const std::string &what = part.what;
  static const std::pair<const char *, const char *> instead[] = {
      {"optimize lamb", "adamw, adam and sgd are"},
      {"sync", "leave it out: every step is synchronous"},
      {"precision", "fp32 and fp64 are"},
      {"recompute", "leave it out; micro batches keep fewer activations, as in batch 64 in micro batches of 8"},
      {"checkpoint auto", "say how often, as in checkpoint every 200 steps"},
      {"export", "leave it out; checkpoint writes snapshots as safetensors"},
      {"freeze", "a learning rate of 0 does the same: optimize sgd(lr = 0) on (PATTERNS)"},
      {"start from", "leave it out; echelon run --resume goes on from a snapshot"},
      {"search", "leave it out; echelon run --set optimize.lr=3e-4 tries one value"},
      {"until", "say how long, as in steps 1000"},
      {"on nan", "on nan stop is, which happens anyway"},
      {"data mix", "name one source"},
      {"data pack", "next_token(…) is"},
      {"layout auto", "write the mesh, as in layout mesh(dp = 2) { split batch over dp }"},
      {"mesh axis", "write a number"},
      {"split with ring", "leave `with` out; heads may be split instead, as in split head over cp"},
      {"split with zigzag", "leave `with` out; heads may be split instead, as in split head over cp"},
      {"split", "split axes of the layers instead, as in split head, ff over tp"},
      {"uneven split", "leave `as` out; the parts are equal"},
      {"store", "store optimizer is"},
      {"offload", "leave it out; store optimizer over a mesh axis takes less memory"},
      {"collective with hierarchical", "ring, tree, butterfly, one_to_all and native are"}};
  for (const auto &[begin, other] : instead)
    if (what.rfind(begin, 0) == 0)
      return what + " is not built yet; " + other;
  return what + " is not built yet; leave it out";
}

} // namespace echelon::frontend
