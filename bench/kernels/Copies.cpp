// Copies, transposes, gathers and scatters.
#include "Bench.h"
#include "runtime/kernels/Copy.h"
#include "runtime/kernels/Gather.h"
#include <cstring>

namespace echelon::bench {
namespace {

using namespace runtime;

/// y, dense over `sizes`, from x by strides.
void strided(const std::string &name, std::vector<int64_t> from, std::vector<int64_t> sizes) {
  int64_t all = 1, rank = int64_t(sizes.size());
  std::vector<int64_t> to(rank);
  for (int64_t d = rank - 1; d >= 0; --d)
    to[d] = all, all *= sizes[d];
  Values x(all);
  Array<float> y(all), want(all);
  streams(
      name, Traffic().read(4.0 * all).write(4.0 * all),
      [&] { copy_strided<float>(y, to.data(), x, from.data(), sizes.data(), int(rank)); },
      [&] { reference::copy_strided<float>(want, to.data(), x, from.data(), sizes.data(), int(rank), false); },
      {{y, want, all}});
}

void gathers(int64_t tokens, int64_t width, int64_t vocab) {
  Values x(tokens * width);
  Array<float> table(vocab * width), want(tokens * width);
  Array<int32_t> index(tokens);
  for (int64_t i = 0; i < tokens; ++i)
    index[i] = int32_t(i * 7919 % vocab);
  const double moved = 4.0 * tokens * width;
  std::string size = std::to_string(tokens) + " rows of " + std::to_string(width);
  streams("scatter of " + size, Traffic().read(moved).update(moved),
          [&] { scatter_add_rows<float>(table, x, index, tokens, width, 0, int32_t(vocab)); });
  streams(
      "gather of " + size, Traffic().read(moved).write(moved),
      [&] { gather_rows<float>(x, table, index, tokens, width, 0, int32_t(vocab)); },
      [&] {
        for (int64_t i = 0; i < tokens; ++i)
          for (int64_t j = 0; j < width; ++j)
            want[i * width + j] = table[index[i] * width + j];
      },
      {{x, want, tokens * width}});
}

} // namespace

void copies() {
  heading("copies");
  const int64_t all = 1 << 24;
  Values x(all);
  Array<float> y(all);
  streams("memcpy, 64 MB", Traffic().read(4.0 * all).write(4.0 * all), [&] { std::memcpy(y, x, 4 * all); });
  streams("fill, 64 MB", Traffic().write(4.0 * all), [&] { fill<float>(y, all, 0); });
  strided("transpose 512 x 512", {1, 512}, {512, 512});
  strided("transpose 4096 x 4096", {1, 4096}, {4096, 4096});
  strided("transpose 768 x 30000", {1, 768}, {768, 30000});
  strided("transpose 30000 x 768", {1, 30000}, {30000, 768});
  strided("(32, 64, 4, 32) to (32, 4, 64, 32)", {8192, 32, 128, 1}, {32, 4, 64, 32});
  strided("(128, 256, 8, 64) to (128, 8, 256, 64)", {131072, 64, 512, 1}, {128, 8, 256, 64});
  strided("(256, 256, 256), the last two transposed", {65536, 1, 256}, {256, 256, 256});
  strided("(64, 3, 64, 64) to (64, 64, 64, 3)", {12288, 64, 1, 4096}, {64, 64, 64, 3});
  strided("(64, 64, 64, 64): first dimensions last", {1, 4096, 262144, 64}, {64, 64, 64, 64});
  gathers(4096, 512, 8192);
  gathers(16384, 1024, 32768);
}

} // namespace echelon::bench
