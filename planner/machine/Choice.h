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

/// What is put together into messages.
struct Values {
  int64_t count = 1;       ///< each is in one message
  bool comeAtOnce = false; ///< then no message runs beside what makes the others
  double otherwise = 0;    ///< bytes of a message, unless others are clearly better
};
/// How many bytes a message is to have; nothing: the machine cannot tell.
struct Bucket {
  double bytes = 0;
  double seconds = 0;          ///< of all messages, and of the last one once more where it alone does not run beside
  double secondsOtherwise = 0; ///< the same, as they would be otherwise
};
/// `message`: as if all values travelled in one.
std::optional<Bucket> bucketOf(const Machine &machine, const Message &message, const Values &values);

} // namespace echelon::planner
