// Every collective by the bytes of the whole message, over all ranks, in memory that the transport gives.
#include "runtime/calibrate/Figures.h"

namespace echelon::runtime {

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
    const std::string size = " " + std::to_string(bytes);
    const int64_t all = bytes / 4, part = std::max<int64_t>(all / p, 1);
    const auto add = [&](const char *name, std::function<void()> call) {
      figures.addShared(name + size, std::move(call));
    };
    add("all_reduce", [=, &t] { all_reduce(t, t.world(), in, all, Sum); });
    add("reduce_scatter", [=, &t] { reduce_scatter(t, t.world(), out, in, part, Sum); });
    add("all_gather", [=, &t] { all_gather(t, t.world(), out, in, part); });
    add("all_to_all", [=, &t] { all_to_all(t, t.world(), out, in, part); });
    add("broadcast", [=, &t] { broadcast(t, t.world(), in, all, 0); });
    if (p == 2)
      add("send", [=, &t] {
        if (t.rank() == 0)
          t.wait(t.isend(1, in, size_t(bytes), 7, "calibrate"));
        else
          t.wait(t.ireceive(0, out, size_t(bytes), 7, "calibrate"));
      });
  }
}

} // namespace echelon::runtime
