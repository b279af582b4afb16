// Direct convolution. An image is copied between zeros (ConvFrame.h), so that what one window element w[t, f, u] meets
// lies at one offset from where the outputs' windows begin, in vectors:
//   y[t, p] = sum over k = (f, u) of w[t, k] * frame[at(p) + offset(k)],  p a vector of outputs of one row
// A tile of 4 channels x 3 vectors stays in registers over the whole sum. The derivative by x is the same sum over dy,
// once for every phase of the steps. That by w keeps a tile of 4 channels x 3 window elements in registers over the
// vectors of a few images, and adds the lanes up at the end.
#include "runtime/kernels/cpu/ConvDirect.h"
#include "runtime/kernels/cpu/BlockedSum.h"
#include "runtime/kernels/cpu/ConvMemory.h"
#include <algorithm>
#include <vector>

namespace echelon::runtime::detail {
namespace {

template <typename T> using Vector = typename Lanes<T>::Vector;
template <typename T> constexpr int64_t kLanes = Lanes<T>::width;

template <typename T> inline Vector<T> load(const T *p) {
  return *reinterpret_cast<const typename Lanes<T>::Unaligned *>(p);
}
template <typename T> inline void store(T *p, Vector<T> v) { *reinterpret_cast<typename Lanes<T>::Unaligned *>(p) = v; }

/// Keeps v in a register: gcc would read it from memory again at each use.
template <typename V> inline V kept(V v) {
#ifdef __AVX__
  asm("" : "+x"(v));
#endif
  return v;
}

/// A vector of outputs: where its windows begin in the frame, where it lies in a plane of outputs, how many they are.
struct Place {
  int32_t in, out, count;
};

/// What is read after this, brought near the core piece by piece.
template <typename T> struct Next {
  const T *from, *end;
  void bring(int64_t bytes) {
    for (; bytes > 0 && from < end; bytes -= 64, from += 64 / sizeof(T))
      __builtin_prefetch(from, 0, 2);
  }
};

//===-- products -------------------------------------------------------------------------------------------------===//

constexpr int kChannels = 4;

/// What all tiles of a sum share.
template <typename T> struct Product {
  const T *weights; // groups of kChannels channels: (inner, channels)
  const int32_t *offset;
  int64_t inner;
  const Place *places;
  int64_t count;
  int64_t channels, plane, step; // of the result: plane elements apart; neighbours of a row lie step apart
};

/// Elements k of a sum: what they touch of x stays in the first cache, over all channels and places.
struct Part {
  int64_t begin, end;
};

/// y[t, place] = sum over k of the part of w[k, t] * x[place + offset[k]], for nt channels and nv places; added to y,
/// unless it is the first part.
template <typename T, int nt, int nv>
void productTile(T *y, const T *x, const T *w, const Product<T> &p, Part part, const Place *places) {
  const T *at[nv];
  Vector<T> sum[nt][nv] = {};
  for (int v = 0; v < nv; ++v) {
    at[v] = x + places[v].in;
    for (int t = 0; t < nt; ++t)
      __builtin_prefetch(y + t * p.plane + places[v].out, 1);
  }
  w += part.begin * nt;
  for (int64_t k = part.begin; k < part.end; ++k, w += nt) {
    const int64_t shift = p.offset[k];
    Vector<T> in[nv];
    for (int v = 0; v < nv; ++v)
      in[v] = load(at[v] + shift);
    for (int t = 0; t < nt; ++t)
      for (int v = 0; v < nv; ++v)
        sum[t][v] += in[v] * w[t];
  }
  for (int t = 0; t < nt; ++t, y += p.plane)
    for (int v = 0; v < nv; ++v) {
      T *to = y + places[v].out;
      if (p.step == 1 && places[v].count == kLanes<T>)
        store(to, part.begin ? load(to) + sum[t][v] : sum[t][v]);
      else
        for (int l = 0; l < places[v].count; ++l)
          to[l * p.step] = part.begin ? to[l * p.step] + sum[t][v][l] : sum[t][v][l];
    }
}

/// The tile of `take` places, at most nv.
template <typename T, int nt, int nv>
void anyProductTile(int64_t take, T *y, const T *x, const T *w, const Product<T> &p, Part part, const Place *places) {
  if constexpr (nv > 1)
    if (take < nv)
      return anyProductTile<T, nt, nv - 1>(take, y, x, w, p, part, places);
  productTile<T, nt, nv>(y, x, w, p, part, places);
}

/// All places of nt channels, in tiles that fill the registers; what is left over in two tiles of half the size.
template <typename T, int nt>
void productGroup(T *y, const T *x, const T *w, const Product<T> &p, Part part, Next<T> &next, int64_t bytes) {
  constexpr int most = nt == 4 ? 3 : nt == 3 ? 4 : nt == 2 ? 5 : 8;
  for (int64_t done = 0, take; done < p.count; done += take) {
    const int64_t left = p.count - done;
    take = left == most + 1 ? (most + 1) / 2 : std::min<int64_t>(most, left);
    next.bring(bytes * take);
    anyProductTile<T, nt, most>(take, y, x, w, p, part, p.places + done);
  }
}

/// All places and channels of the frame, which may be of several images.
template <typename T> void product(T *y, const T *x, const Product<T> &p, Next<T> next) {
  if (p.count == 0) // of steps larger than the image, phases may have no place
    return;
  constexpr int64_t kPart = 160; // 16 channels of a 3 x 3 window, and a little
  const int64_t parts = std::max<int64_t>(1, (p.inner + kPart - 1) / kPart);
  const int64_t tiles = parts * ((p.channels + kChannels - 1) / kChannels) * p.count;
  const int64_t bytes = ((next.end - next.from) * int64_t(sizeof(T)) + tiles - 1) / tiles; // a place
  for (int64_t i = 0; i < parts; ++i)
    for (int64_t t = 0; t < p.channels; t += kChannels) {
      auto *group = p.channels - t == 1   ? productGroup<T, 1>
                    : p.channels - t == 2 ? productGroup<T, 2>
                    : p.channels - t == 3 ? productGroup<T, 3>
                                          : productGroup<T, kChannels>;
      group(y + t * p.plane, x, p.weights + t * p.inner, p, {i * p.inner / parts, (i + 1) * p.inner / parts}, next,
            bytes);
    }
}

//===-- derivative by the weights --------------------------------------------------------------------------------===//

/// The sums of four vectors' lanes.
inline void laneSums(float *sums, const Vector<float> *v) {
  auto pairs = [](Vector<float> a, Vector<float> b) {
    return __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
           __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
  };
  Vector<float> ab = pairs(v[0], v[1]), cd = pairs(v[2], v[3]);
  Vector<float> halves = __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13) +
                         __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
  for (int i = 0; i < 4; ++i)
    sums[i] = halves[i] + halves[i + 4];
}
inline void laneSums(double *sums, const Vector<double> *v) {
  for (int i = 0; i < 4; ++i)
    sums[i] = (v[i][0] + v[i][1]) + (v[i][2] + v[i][3]);
}

/// dw[t * inner + j] += sum over places of dy[place, t] * x[in + offset[j]], for nt channels, nk offsets.
template <typename T, int nt, int nk>
void weightsTile(T *dw, int64_t inner, const T *dy, const T *x, const int32_t *offset, const Place *places,
                 int64_t count) {
  Vector<T> sum[nk][4] = {};
  const T *at[nk];
  for (int j = 0; j < nk; ++j)
    at[j] = x + offset[j];
  for (int64_t p = 0; p < count; ++p, dy += nt * kLanes<T>) {
    const int64_t in = places[p].in;
    Vector<T> taps[nk];
    for (int j = 0; j < nk; ++j)
      taps[j] = load(at[j] + in);
    for (int t = 0; t < nt; ++t) {
      const Vector<T> v = kept(load(dy + t * kLanes<T>));
      for (int j = 0; j < nk; ++j)
        sum[j][t] += v * taps[j];
    }
  }
  for (int j = 0; j < nk; ++j) {
    T total[4];
    laneSums(total, sum[j]);
    for (int t = 0; t < nt; ++t)
      dw[t * inner + j] += total[t];
  }
}

/// All offsets of nt channels, three at a time. packed: for nt * count vectors of dy, with zeros after the rows.
template <typename T, int nt>
void weightsGroup(T *dw, int64_t inner, const T *dy, int64_t plane, const T *x, const int32_t *offset,
                  const Place *places, int64_t count, T *packed, Next<T> &next, int64_t bytes) {
  T *to = packed;
  for (int64_t p = 0; p < count; ++p)
    for (int t = 0; t < nt; ++t, to += kLanes<T>) {
      const T *from = dy + places[p].out + t * plane;
      __builtin_prefetch(from + kChannels * plane); // the next channels
      if (places[p].count == kLanes<T>)
        store(to, load(from));
      else
        for (int l = 0; l < kLanes<T>; ++l)
          to[l] = l < places[p].count ? from[l] : T(0);
    }
  int64_t j = 0;
  for (; j + 3 <= inner; j += 3) {
    next.bring(3 * bytes);
    weightsTile<T, nt, 3>(dw + j, inner, packed, x, offset + j, places, count);
  }
  for (; j < inner; ++j)
    weightsTile<T, nt, 1>(dw + j, inner, packed, x, offset + j, places, count);
}

//===-- frames ---------------------------------------------------------------------------------------------------===//

/// The elements of even and of odd index of two vectors.
inline void splitPairs(Vector<float> &even, Vector<float> &odd, Vector<float> a, Vector<float> b) {
  even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
  odd = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}
inline void splitPairs(Vector<double> &even, Vector<double> &odd, Vector<double> a, Vector<double> b) {
  even = __builtin_shufflevector(a, b, 0, 2, 4, 6);
  odd = __builtin_shufflevector(a, b, 1, 3, 5, 7);
}

/// Spreads a row over the phases: x[i] becomes column `before` + i.
template <typename T> void spreadRow(T *row, const T *x, int64_t columns, int64_t before, const Frame &f) {
  auto place = [&](int64_t i) { return row + (before + i) % f.phases * f.plane + (before + i) / f.phases; };
  int64_t done = 0;
  if (f.phases == 2) {
    T *even = place(0), *odd = place(1);
    for (; done + 2 * kLanes<T> <= columns; done += 2 * kLanes<T>) {
      Vector<T> a, b;
      splitPairs(a, b, load(x + done), load(x + done + kLanes<T>));
      store(even + done / 2, a), store(odd + done / 2, b);
    }
  }
  for (int64_t i = done; i < columns; ++i)
    *place(i) = x[i];
}

/// Copies an image's channels between the zeros. Frames lie [channel][image]; `frames` is that of the first channel.
template <typename T> void fillFrame(T *frames, const T *x, int64_t channels, int64_t images, const Frame &f) {
  int64_t reached[4];
  for (int k = 0; k < 4; ++k)
    reached[k] = std::min(f.d[k].in, f.d[k].extent - f.d[k].before);
  const int64_t columns = reached[3], step = f.d[3].in;
  for (int64_t c = 0; c < channels; ++c, frames += images * f.channel)
    for (int64_t i0 = 0; i0 < f.d[0].in; ++i0)
      for (int64_t i1 = 0; i1 < f.d[1].in; ++i1, x += f.d[2].in * step) {
        if (i0 >= reached[0] || i1 >= reached[1])
          continue;
        const int64_t line = ((i0 + f.d[0].before) * f.d[1].extent + i1 + f.d[1].before) * f.d[2].extent;
        T *row = frames + (line + f.d[2].before) * f.row + f.lead + (f.phases == 1 ? f.d[3].before : 0);
        const T *from = x;
        for (int64_t i2 = 0; i2 < reached[2]; ++i2, from += step, row += f.row) {
          if (f.phases > 1) {
            spreadRow(row, from, columns, f.d[3].before, f);
            continue;
          }
          int64_t i = 0;
          for (; i + kLanes<T> <= columns; i += kLanes<T>)
            store(row + i, load(from + i));
          for (; i < columns; ++i)
            row[i] = from[i];
        }
      }
}

template <typename T>
void fillFrames(T *frames, const T *x, int64_t channels, int64_t now, int64_t images, const Frame &f) {
  const int64_t image = channels * f.d[0].in * f.d[1].in * f.d[2].in * f.d[3].in;
  for (int64_t i = 0; i < now; ++i)
    fillFrame(frames + i * f.channel, x + i * image, channels, images, f);
}

/// The outputs' vectors, for outputs `step` rows of the frame apart and `spread` apart in the plane, whose first one
/// lies at `origin` in a plane of `size`.
struct Outputs {
  int64_t count[4], step[4], origin[4], spread[4], size[4];
};
std::vector<Place> placesOf(const Outputs &o, const Frame &f, int64_t lanes) {
  std::vector<Place> places;
  for (int64_t i0 = 0; i0 < o.count[0]; ++i0)
    for (int64_t i1 = 0; i1 < o.count[1]; ++i1)
      for (int64_t i2 = 0; i2 < o.count[2]; ++i2)
        for (int64_t i3 = 0; i3 < o.count[3]; i3 += lanes) {
          const int64_t at[4] = {i0, i1, i2, i3};
          int64_t in = 0, out = 0;
          for (int k = 0; k < 4; ++k) {
            in = k < 3 ? in * f.d[k].extent + at[k] * o.step[k] : in * f.row + i3;
            out = out * o.size[k] + at[k] * o.spread[k] + o.origin[k];
          }
          places.push_back({int32_t(in), int32_t(out), int32_t(std::min(lanes, o.count[3] - i3))});
        }
  return places;
}

/// The places of several images: `in` and `out` elements apart.
std::vector<Place> repeated(const std::vector<Place> &one, int64_t images, int64_t in, int64_t out) {
  std::vector<Place> all;
  for (int64_t b = 0; b < images; ++b)
    for (const Place &p : one)
      all.push_back({int32_t(p.in + b * in), int32_t(p.out + b * out), p.count});
  return all;
}

/// The windows of forward and of the weights' derivative: outputs lie densely.
Outputs outputsOf(const FourDims &d) {
  Outputs o{};
  for (int k = 0; k < 4; ++k)
    o.count[k] = o.size[k] = d.d[k].out(), o.step[k] = d.d[k].stride, o.spread[k] = 1;
  return o;
}
std::vector<int32_t> offsetsOf(const FourDims &d, const Frame &f, int64_t channels, int64_t images) {
  std::vector<int32_t> offsets;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t u0 = 0; u0 < d.d[0].window; ++u0)
      for (int64_t u1 = 0; u1 < d.d[1].window; ++u1)
        for (int64_t u2 = 0; u2 < d.d[2].window; ++u2)
          for (int64_t u3 = 0; u3 < d.d[3].window; ++u3) {
            const int64_t line = (u0 * f.d[1].extent + u1) * f.d[2].extent + u2;
            const int64_t column = u3 % f.phases * f.plane + f.lead + u3 / f.phases;
            offsets.push_back(static_cast<int32_t>(c * images * f.channel + line * f.row + column));
          }
  return offsets;
}

//===-- the three kinds ------------------------------------------------------------------------------------------===//

template <typename T> void forward(T *y, const T *x, const T *w, const ConvShape &shape, Memory<T> memory) {
  const FourDims d(shape);
  const Frame f = frameOfX(d, kLanes<T>);
  const int64_t inner = shape.from * d.window, images = conv_direct_images(ConvKind::forward, shape, sizeof(T));
  const std::vector<int32_t> offsets = offsetsOf(d, f, shape.from, images);
  const std::vector<Place> one = placesOf(outputsOf(d), f, kLanes<T>);
  const std::vector<Place> places = repeated(one, images, f.channel, shape.to * d.out);
  T *packed = memory.take(shape.to * inner), *frames = memory.zeros(f.count(images * shape.from, kLanes<T>));
  for (int64_t t = 0; t < shape.to; ++t) {
    const int64_t group = t / kChannels * kChannels, width = std::min<int64_t>(kChannels, shape.to - group);
    for (int64_t k = 0; k < inner; ++k)
      packed[group * inner + k * width + t - group] = w[t * inner + k];
  }
  const T *end = x + shape.batch * shape.from * d.in;
  for (int64_t b = 0; b < shape.batch; b += images) {
    const int64_t now = std::min(images, shape.batch - b);
    fillFrames(frames, x, shape.from, now, images, f);
    x += now * shape.from * d.in;
    product<T>(y + b * shape.to * d.out, frames,
               {packed, offsets.data(), inner, places.data(), now * int64_t(one.size()), shape.to, d.out, 1},
               {x, std::min(end, x + images * shape.from * d.in)});
  }
}

/// The sum for one phase of dx.
template <typename T> struct PhaseSum {
  std::vector<int32_t> offsets;
  std::vector<Place> places;
  T *packed;
  int64_t step;
};

template <typename T>
PhaseSum<T> phaseSum(const FourDims &d, const Frame &f, const int64_t (&phase)[4], const T *w, const ConvShape &shape,
                     int64_t images, Memory<T> &memory) {
  const Phase p[4] = {{d.d[0], phase[0]}, {d.d[1], phase[1]}, {d.d[2], phase[2]}, {d.d[3], phase[3]}};
  Outputs o{};
  for (int k = 0; k < 4; ++k)
    o.count[k] = p[k].count, o.step[k] = 1, o.origin[k] = phase[k], o.spread[k] = d.d[k].stride, o.size[k] = d.d[k].in;
  PhaseSum<T> sum{{}, placesOf(o, f, kLanes<T>), nullptr, d.d[3].stride};
  sum.places = repeated(sum.places, images, f.channel, shape.from * d.in);
  const int64_t inner = shape.to * p[0].taps * p[1].taps * p[2].taps * p[3].taps;
  sum.packed = memory.take(shape.from * inner);
  auto line = [&](int k, int64_t j) { return f.d[k].before + p[k].shift - j; };
  auto element = [&](int k, int64_t j) { return p[k].first + d.d[k].stride * j; };
  for (int64_t t = 0; t < shape.to; ++t)
    for (int64_t j0 = 0; j0 < p[0].taps; ++j0)
      for (int64_t j1 = 0; j1 < p[1].taps; ++j1)
        for (int64_t j2 = 0; j2 < p[2].taps; ++j2)
          for (int64_t j3 = 0; j3 < p[3].taps; ++j3) {
            const int64_t row = (line(0, j0) * f.d[1].extent + line(1, j1)) * f.d[2].extent + line(2, j2);
            const int64_t u =
                ((element(0, j0) * d.d[1].window + element(1, j1)) * d.d[2].window + element(2, j2)) * d.d[3].window +
                element(3, j3);
            const int64_t k = static_cast<int64_t>(sum.offsets.size());
            sum.offsets.push_back(static_cast<int32_t>(t * images * f.channel + row * f.row + f.lead + line(3, j3)));
            for (int64_t c = 0; c < shape.from; ++c) {
              const int64_t group = c / kChannels * kChannels, width = std::min<int64_t>(kChannels, shape.from - group);
              sum.packed[group * inner + k * width + c - group] = w[(t * shape.from + c) * d.window + u];
            }
          }
  return sum;
}

template <typename T> void gradData(T *dx, const T *dy, const T *w, const ConvShape &shape, Memory<T> memory) {
  const FourDims d(shape);
  const Frame f = frameOfDy(d, kLanes<T>);
  const int64_t images = conv_direct_images(ConvKind::gradData, shape, sizeof(T));
  T *frames = memory.zeros(f.count(images * shape.to, kLanes<T>));
  std::vector<PhaseSum<T>> sums;
  for (int64_t p0 = 0; p0 < d.d[0].stride; ++p0)
    for (int64_t p1 = 0; p1 < d.d[1].stride; ++p1)
      for (int64_t p2 = 0; p2 < d.d[2].stride; ++p2)
        for (int64_t p3 = 0; p3 < d.d[3].stride; ++p3)
          sums.push_back(phaseSum<T>(d, f, {p0, p1, p2, p3}, w, shape, images, memory));
  const T *end = dy + shape.batch * shape.to * d.out;
  for (int64_t b = 0; b < shape.batch; b += images) {
    const int64_t now = std::min(images, shape.batch - b);
    fillFrames(frames, dy, shape.to, now, images, f);
    dy += now * shape.to * d.out;
    Next<T> next{dy, std::min(end, dy + images * shape.to * d.out)};
    for (const PhaseSum<T> &s : sums) {
      product<T>(dx + b * shape.from * d.in, frames,
                 {s.packed, s.offsets.data(), int64_t(s.offsets.size()), s.places.data(),
                  int64_t(s.places.size()) / images * now, shape.from, d.in, s.step},
                 next);
      next.from = next.end;
    }
  }
}

/// Several images at a time, so that a tile has kWeightsPlaces vectors to add up before its lanes are.
template <typename T> void gradWeights(T *dw, const T *x, const T *dy, const ConvShape &shape, Memory<T> memory) {
  const FourDims d(shape);
  const Frame f = frameOfX(d, kLanes<T>);
  const int64_t inner = shape.from * d.window, images = conv_direct_images(ConvKind::gradWeights, shape, sizeof(T));
  const std::vector<int32_t> offsets = offsetsOf(d, f, shape.from, images);
  const std::vector<Place> one = placesOf(outputsOf(d), f, kLanes<T>);
  const std::vector<Place> places = repeated(one, images, f.channel, shape.to * d.out);
  T *packed = memory.take(kWeightsPlaces * kChannels * kLanes<T>);
  T *frames = memory.zeros(f.count(images * shape.from, kLanes<T>));
  std::fill_n(dw, shape.to * inner, T(0));
  const T *end = x + shape.batch * shape.from * d.in;
  for (int64_t b = 0; b < shape.batch; b += images) {
    const int64_t now = std::min(images, shape.batch - b), all = now * int64_t(one.size());
    fillFrames(frames, x + b * shape.from * d.in, shape.from, now, images, f);
    const T *soon = x + (b + now) * shape.from * d.in;
    Next<T> next{soon, std::min(end, soon + images * shape.from * d.in)};
    const int64_t parts = (all + kWeightsPlaces - 1) / kWeightsPlaces * ((shape.to + kChannels - 1) / kChannels);
    const int64_t bytes = (next.end - next.from) * int64_t(sizeof(T)) / (parts * inner) + 1; // an offset
    for (int64_t done = 0; done < all; done += kWeightsPlaces)
      for (int64_t t = 0; t < shape.to; t += kChannels) {
        auto *group = shape.to - t == 1   ? weightsGroup<T, 1>
                      : shape.to - t == 2 ? weightsGroup<T, 2>
                      : shape.to - t == 3 ? weightsGroup<T, 3>
                                          : weightsGroup<T, kChannels>;
        group(dw + t * inner, inner, dy + (b * shape.to + t) * d.out, d.out, frames, offsets.data(),
              places.data() + done, std::min(kWeightsPlaces, all - done), packed, next, bytes);
      }
  }
}

} // namespace

template <typename T>
void conv_direct(ConvKind kind, T *src, T *weights, T *dst, const ConvShape &shape, T *scratch, int64_t scratchCount) {
  Memory<T> memory(scratch, scratchCount);
  if (kind == ConvKind::forward)
    forward<T>(dst, src, weights, shape, std::move(memory));
  else if (kind == ConvKind::gradData)
    gradData<T>(src, dst, weights, shape, std::move(memory));
  else
    gradWeights<T>(weights, src, dst, shape, std::move(memory));
}

template void conv_direct<float>(ConvKind, float *, float *, float *, const ConvShape &, float *, int64_t);
template void conv_direct<double>(ConvKind, double *, double *, double *, const ConvShape &, double *, int64_t);

} // namespace echelon::runtime::detail
