// Which of the ways that a message may take is the fastest, as far as a machine's figures tell.
#pragma once
#include "planner/machine/Machine.h"

namespace echelon::planner {

/// One way that a message may take.
struct Way {
  /// Whose figures tell: measurements, the protocols of a library, or rounds and bytes by the textbook.
  enum Source { Measured, Library, Textbook } source = Textbook;
  std::string
      algorithm;        ///< "ring", "tree", "butterfly", "one_to_all", "nvls"; empty: what the transport does by itself
  std::string protocol; ///< of a library that has several, as the machine calls it; else empty
  int64_t channels = 0; ///< that the library sends through; 0: as many as it likes
  double seconds = 0;
};

/// The ways whose times a machine can compare, that which is taken first. Empty: it cannot, and the transport goes by
/// its own rule, as where nobody has measured, where ranks of one node are not told apart, where the message says what
/// it takes. A transport's own way is left only for one that is clearly faster.
std::vector<Way> waysOf(const Machine &machine, const Message &message);

/// "ring", "ring ll128", "automatic".
std::string nameOf(const Way &way);

/// Into how many bytes values are put together that travel as such messages and have `message.bytes` in all, of so many
/// `values`; nothing: the machine cannot tell. `otherwise`: the size that is kept unless another one is clearly better.
struct Bucket {
  double bytes = 0;
  double seconds = 0;          ///< of all messages, and of the last one once more where it alone does not run beside
  double secondsOtherwise = 0; ///< the same, of `otherwise`
};
std::optional<Bucket> bucketOf(const Machine &machine, const Message &message, int64_t values, double otherwise);

} // namespace echelon::planner
