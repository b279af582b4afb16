// Every collective by the bytes of the whole message, over all ranks, in memory that the transport gives: as the
// transport does it by itself, then by each algorithm over messages.
#include "runtime/calibrate/Figures.h"

namespace echelon::runtime {

namespace {
/// "all_reduce 1024", "all_reduce_ring 1024".
std::string nameOf(const char *kind, Algorithm algorithm, int64_t bytes) {
  return std::string(kind) + (algorithm == Algorithm::automatic ? "" : std::string("_") + runtime::nameOf(algorithm)) +
         " " + std::to_string(bytes);
}
} // namespace

void addCollectives(Figures &figures, Transport &t, bool few) {
  constexpr int64_t kLargest = int64_t(64) << 20;
  const std::vector<int64_t> sizes =
      few ? std::vector<int64_t>{64, 8 << 10, 512 << 10, 16 << 20}
          : std::vector<int64_t>{64, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, kLargest};
  auto *in = static_cast<float *>(t.allocate(kLargest)), *out = static_cast<float *>(t.allocate(kLargest));
  std::fill(in, in + kLargest / 4, 0.0f);
  std::fill(out, out + kLargest / 4, 0.0f);
  const int64_t p = t.size();
  for (int64_t bytes : sizes) {
    const int64_t all = bytes / 4, part = std::max<int64_t>(all / p, 1);
    for (Algorithm by :
         {Algorithm::automatic, Algorithm::ring, Algorithm::tree, Algorithm::butterfly, Algorithm::one_to_all}) {
      const auto add = [&](const char *kind, std::function<void()> call) {
        figures.addShared(nameOf(kind, by, bytes), std::move(call));
      };
      add("all_reduce", [=, &t] { all_reduce(t, t.world(), in, all, Sum, by); });
      if (few && by != Algorithm::automatic)
        continue;
      add("reduce_scatter", [=, &t] { reduce_scatter(t, t.world(), out, in, part, Sum, by); });
      add("all_gather", [=, &t] { all_gather(t, t.world(), out, in, part, by); });
      if (by != Algorithm::tree) // which it has none of
        add("all_to_all", [=, &t] { all_to_all(t, t.world(), out, in, part, by); });
      add("broadcast", [=, &t] { broadcast(t, t.world(), in, all, 0, by); });
    }
    if (p == 2)
      figures.addShared(nameOf("send", Algorithm::automatic, bytes), [=, &t] {
        if (t.rank() == 0)
          t.wait(t.isend(1, in, size_t(bytes), 7, "calibrate"));
        else
          t.wait(t.ireceive(0, out, size_t(bytes), 7, "calibrate"));
      });
  }
}

} // namespace echelon::runtime
