#include "runtime/transport/Transport.h"

namespace echelon::runtime {

const char *nameOf(Activity doing) {
  static const char *const names[] = {"barrier",       "broadcast",  "scatter",        "gather",     "all_gather",
                                      "reduce",        "all_reduce", "reduce_scatter", "all_to_all", "start",
                                      "making groups", "send",       "receive",        "evaluate",   "save"};
  static_assert(sizeof names / sizeof *names == size_t(Activity::Save) + 1, "a name for each");
  return names[size_t(doing)];
}

} // namespace echelon::runtime
