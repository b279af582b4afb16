// How which convolution is done, and the scratch memory it wants. No dependency: the compiler includes this to plan the
// memory, and the runtime to follow.
#pragma once
#include "runtime/kernels/cpu/WinogradShape.h"

namespace echelon::runtime {

enum class ConvWay : uint8_t {
  direct,   // ConvDirect.cpp
  winograd, // ConvWinograd.cpp
  library,  // oneDNN, which has no convolution in double
  columns,  // im2col and a matrix product a sample
};

/// What oneDNN has convolutions of.
constexpr bool conv_in_library(const ConvShape &shape, int elementBytes) {
  return elementBytes == 4 && shape.rank <= 3;
}

/// The fastest way on one thread. Winograd's products where they fit, unless channels are so few that bringing images
/// to pixels and back is most of the work. Else direct, while the images between zeros stay in the second cache, but
/// where vectors of outputs are not full, steps spread them, or each of many channels is a sum over many. GFLOP/s of
/// the plain definition, 3 x 3 windows, 64 images (Zen 3 of 103, shared with other work; all ways in turns):
///
///                        forward                     dx                          dw
///                        direct  library  Winograd   direct  library  Winograd   direct  library  Winograd
///   1 -> 16, 28 x 28         33       32        15       28        8         8       42        8         9
///   3 -> 16, 32 x 32         66       52        36       34       23        28       58       47        30
///   8 -> 8, 32 x 32          48       32        36       45       35        35       52       33        41
///   8 -> 16, 28 x 28         39       47        47       40       37        46       48       34        47
///   16 -> 16, 32 x 32        80       61        99       80       78        98       80       56       107
///   16 -> 32, step 2         71       65                 58       61                 49       57
///   16 -> 32, 14 x 14        70       84       119       65       92       122       72       71       125
///   32 -> 32, 16 x 16        84       78       144       84       85       147       80       67       142
///   32 -> 64, step 2         56       64                 60       61                 43       56
///   64 -> 64, 8 x 8          78       82       169       79       95       167       70       67       156
///   64 -> 64, 4 x 4          24       52       118       22       68       116       29       45       106
constexpr ConvWay choose_conv(ConvKind kind, const ConvShape &shape, int elementBytes) {
  const detail::FourDims d(shape);
  const int64_t lanes = 32 / elementBytes;
  const bool back = kind == ConvKind::gradData;
  const detail::Frame frame = back ? frameOfDy(d, lanes) : frameOfX(d, lanes);
  const int64_t channels = back ? shape.to : shape.from, others = back ? shape.from : shape.to;
  const bool fits = channels * frame.channel * elementBytes <= 512 << 10;
  if (detail::winogradFits(shape) && channels >= 8 && others >= 8 && channels * others >= 200)
    return ConvWay::winograd;
  if (!conv_in_library(shape, elementBytes))
    return fits ? ConvWay::direct : ConvWay::columns;
  const int64_t sum = channels * d.window, row = back ? d.d[3].in : d.d[3].out();
  const bool stepped = d.d[3].stride > 1;
  bool slow = channels > 3 && others > 3;
  if (kind == ConvKind::gradWeights)
    slow = slow && stepped;
  else
    slow = slow && (row % lanes != 0 || sum > (back ? 200 : 400) || (stepped && (back || sum > 200)));
  return fits && !slow ? ConvWay::direct : ConvWay::library;
}

/// How many vectors of outputs the direct derivative by the weights adds up before their lanes are: 4 channels of so
/// many vectors of dy stay in the first cache.
constexpr int64_t kWeightsPlaces = 128;

/// How many images the direct kernels take at a time, so that small ones have enough vectors of outputs for whole tiles
/// and long sums.
constexpr int64_t conv_direct_images(ConvKind kind, const ConvShape &shape, int elementBytes) {
  const detail::FourDims d(shape);
  const int64_t lanes = 32 / elementBytes;
  int64_t places = 1;
  for (int k = 0; k < 4; ++k) {
    const int64_t phases = kind == ConvKind::gradData ? d.d[k].stride : 1;
    const int64_t outputs = kind == ConvKind::gradData ? (d.d[k].in + phases - 1) / phases : d.d[k].out();
    places *= k == 3 ? (outputs + lanes - 1) / lanes : outputs;
  }
  const int64_t wanted = kind == ConvKind::gradWeights ? kWeightsPlaces : 32;
  const int64_t images = places > 0 ? wanted / places : 1;
  return images < 1 ? 1 : images > shape.batch ? (shape.batch < 1 ? 1 : shape.batch) : images;
}

/// How many samples oneDNN gets at a time: a divisor of the batch, such that their blocked x and y stay in the cache
/// between being brought into their formats, used, and brought back. The weights' derivative takes all at once, since
/// it would be summed again for each part.
constexpr int64_t conv_samples(ConvKind kind, const ConvShape &shape) {
  int64_t in = 1, out = 1;
  for (int d = 0; d < shape.rank; ++d)
    in *= shape.dims[d].in, out *= shape.dims[d].out();
  constexpr int64_t kCached = 512 << 10;
  int64_t samples = kCached / (4 * (shape.from * in + shape.to * out) + 1);
  if (kind == ConvKind::gradWeights || samples >= shape.batch)
    return shape.batch;
  samples = samples < 1 ? 1 : samples;
  while (shape.batch % samples != 0)
    --samples;
  return samples;
}

/// What conv_direct takes: frames; the weights, or vectors of dy, by tiles.
constexpr int64_t conv_direct_scratch(ConvKind kind, const ConvShape &shape, int elementBytes) {
  const detail::FourDims d(shape);
  const int64_t lanes = 32 / elementBytes, line = 2 * lanes, images = conv_direct_images(kind, shape, elementBytes);
  if (kind == ConvKind::gradWeights)
    return frameOfX(d, lanes).count(images * shape.from, lanes) + kWeightsPlaces * 4 * lanes + line;
  int64_t phases = 1;
  for (const WindowDim &w : d.d)
    phases *= kind == ConvKind::gradData ? w.stride : 1;
  const int64_t packed = shape.from * shape.to * d.window + (phases + 1) * line; // each in whole lines
  return packed + (kind == ConvKind::forward ? frameOfX(d, lanes).count(images * shape.from, lanes)
                                             : frameOfDy(d, lanes).count(images * shape.to, lanes));
}

/// How many elements of scratch memory it wants: our own kernels', the windows of one sample, or oneDNN's blocked
/// formats of x, w and y (at most 16 channels a block; x of up to 3 channels is taken as it is).
constexpr int64_t conv_scratch(ConvKind kind, const ConvShape &shape, int elementBytes) {
  int64_t in = 1, window = 1, out = 1;
  for (int d = 0; d < shape.rank; ++d)
    in *= shape.dims[d].in, window *= shape.dims[d].window, out *= shape.dims[d].out();
  const ConvWay way = choose_conv(kind, shape, elementBytes);
  if (way == ConvWay::direct)
    return conv_direct_scratch(kind, shape, elementBytes);
  if (way == ConvWay::winograd)
    return detail::WinogradShape(kind, shape, 32 / elementBytes).scratch();
  if (way == ConvWay::columns)
    return shape.from * window * out;
  int64_t from = (shape.from + 15) / 16 * 16, to = (shape.to + 15) / 16 * 16, samples = conv_samples(kind, shape);
  bool asItIs = shape.from <= 3 && kind != ConvKind::gradData;
  return (asItIs ? 0 : samples * from * in) + from * to * window + samples * to * out;
}

} // namespace echelon::runtime
