// Convolutions, pools and batch norm's statistics, on images.
#include "runtime/kernels/Conv.h"
#include "Bench.h"
#include "runtime/kernels/Normalize.h"
#include "runtime/kernels/Pool.h"
#include "runtime/kernels/cpu/ConvDirect.h"
#include "runtime/kernels/cpu/ConvDnnl.h"
#include "runtime/kernels/cpu/ConvWinograd.h"

namespace echelon::bench {
namespace {

using namespace runtime;

void convolutions() {
  heading("convolutions");
  struct Case {
    const char *name;
    int64_t from, to, size, stride;
  };
  for (Case c : {Case{"conv 1 -> 16, 28 x 28, 64 images", 1, 16, 28, 1}, Case{"conv 2 -> 16, 28 x 28", 2, 16, 28, 1},
                 Case{"conv 3 -> 16, 32 x 32, 64 images", 3, 16, 32, 1}, Case{"conv 16 -> 16, 32 x 32", 16, 16, 32, 1},
                 Case{"conv 16 -> 32, stride 2", 16, 32, 32, 2}, Case{"conv 32 -> 32, 16 x 16", 32, 32, 16, 1},
                 Case{"conv 16 -> 32, 14 x 14", 16, 32, 14, 1}, Case{"conv 32 -> 64, stride 2", 32, 64, 16, 2},
                 Case{"conv 64 -> 64, 8 x 8", 64, 64, 8, 1}}) {
    WindowDim w{c.size, 3, c.stride, 1, 1};
    ConvShape s{64, c.from, c.to, 2, {w, w}};
    int64_t in = 64 * c.from * c.size * c.size, out = 64 * c.to * w.out() * w.out(), weight = c.to * c.from * 9;
    Values x(in), weights(weight, 2), dy(out, 3);
    Array<float> y(out), dx(in), dw(weight), wantY(out), wantDx(in), wantDw(weight);
    double work = 2.0 * out * c.from * 9;
    flops(
        c.name, work, [&] { conv<float>(y, x, weights, s); }, [&] { reference::conv<float>(wantY, x, weights, s); },
        {{y, wantY, out}});
    flops(
        "  its dx", work, [&] { conv_grad_data<float>(dx, dy, weights, s); },
        [&] { reference::conv_grad_data<float>(wantDx, dy, weights, s); }, {{dx, wantDx, in}});
    flops(
        "  its dw", work, [&] { conv_grad_weights<float>(dw, x, dy, s); },
        [&] { reference::conv_grad_weights<float>(wantDw, x, dy, s); }, {{dw, wantDw, weight}});
    // All ways, whichever choose_conv takes.
    for (ConvKind kind : {ConvKind::forward, ConvKind::gradData, ConvKind::gradWeights}) {
      const bool tiles = detail::winogradFits(s);
      const int64_t wanted = tiles ? detail::WinogradShape(kind, s, 8).scratch() : 0;
      std::vector<float> scratch(std::max({conv_direct_scratch(kind, s, 4), conv_scratch(kind, s, 4), wanted}));
      auto rate = [&](auto way) {
        float *operands[] = {x, weights, dy};
        return work * 1e-9 / fastest([&] {
                 way(kind, operands[0], operands[1], operands[2], s, scratch.data(), int64_t(scratch.size()));
               });
      };
      const char *names[] = {"forward", "dx", "dw"};
      std::printf("    %-8s direct %6.1f, oneDNN %6.1f", names[int(kind)], rate(detail::conv_direct<float>),
                  rate(detail::conv_dnnl));
      if (tiles)
        std::printf(", Winograd %6.1f", rate(detail::conv_winograd<float>));
      std::printf(" GFLOP/s\n");
    }
  }
}

void images(int64_t batch, int64_t channels, int64_t side) {
  const int64_t inner = side * side, n = batch * channels * inner;
  const double all = 4.0 * n;
  std::string size =
      ", " + std::to_string(batch) + " x " + std::to_string(channels) + " x " + std::to_string(side) + " squared";
  Values x(n), d(n, 2);
  Array<float> y(n), dx(n), want(n), rstd(channels), wantRstd(channels);
  streams(
      "statistics of channels" + size, Traffic().read(all),
      [&] { channel_statistics<float>(rstd, x, batch, channels, inner, 1e-5); },
      [&] { reference::normalize<float>(want, wantRstd, x, batch, channels, inner, 1e-5, true); },
      {{rstd, wantRstd, channels}});
  PoolShape pool{batch * channels, 2, {{side, 2, 2, 0, 0}, {side, 2, 2, 0, 0}}};
  Array<int32_t> places(n / 4), wantPlaces(n / 4);
  streams(
      "maxpool 2 x 2" + size, Traffic().read(all).write(all / 4).write(all / 4),
      [&] { maxpool<float>(y, places, x, pool); }, [&] { reference::maxpool<float>(want, wantPlaces, x, pool); },
      {{y, want, n / 4}});
  streams("  its derivative", Traffic().read(all / 4).read(all / 4).write(all),
          [&] { maxpool_grad<float>(dx, d, places, pool); });
  streams(
      "avgpool 2 x 2" + size, Traffic().read(all).write(all / 4), [&] { avgpool<float>(y, x, pool); },
      [&] { reference::avgpool<float>(want, x, pool); }, {{y, want, n / 4}});
  streams("  its derivative", Traffic().read(all / 4).write(all), [&] { avgpool_grad<float>(dx, d, pool); });
}

} // namespace

void convs() {
  convolutions();
  heading("images");
  images(64, 16, 32);
  images(256, 64, 32); // 64 MB
}

} // namespace echelon::bench
