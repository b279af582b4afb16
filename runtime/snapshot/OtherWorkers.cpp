#include "runtime/snapshot/OtherWorkers.h"

#include "runtime/launch/Fail.h"

#include <algorithm>
#include <cstdio>

namespace echelon::runtime {

namespace {

bool isResidual(const Stored &stored) { return stored.path.compare(0, 19, "optimizer.residual.") == 0; }

/// Axes of workers that come before a tensor's own.
size_t axesOfWorkers(const Stored &stored) { return size_t(stored.isOfWorkers) + size_t(isResidual(stored)); }

std::vector<int64_t> ownSizes(const Stored &stored) {
  std::vector<int64_t> sizes = logicalSizes(stored.layout, stored.axes);
  sizes.erase(sizes.begin(), sizes.begin() + std::ptrdiff_t(axesOfWorkers(stored)));
  return sizes;
}

/// Workers over the gradients of a mean, of a run's text "packed by: 4 workers, means of 2"; 1 where it packs nothing.
double workersOfMean(const std::vector<Fingerprint> &prints) {
  for (const Fingerprint &print : prints)
    if (const size_t at = print.text.find("packed by: "); print.category == "optimizer" && at != std::string::npos) {
      long long workers = 1, mean = 1;
      if (std::sscanf(print.text.c_str() + at, "packed by: %lld workers, means of %lld", &workers, &mean) == 2 &&
          mean > 0)
        return double(workers) / double(mean);
    }
  return 1;
}

template <class T> std::vector<T> meanOf(const T *rows, int64_t count, int64_t width, double factor) {
  std::vector<T> mean(static_cast<size_t>(width));
  for (int64_t i = 0; i < width; ++i) {
    double sum = 0;
    for (int64_t row = 0; row < count; ++row)
      sum += double(rows[row * width + i]);
    mean[size_t(i)] = T(sum * factor / double(count));
  }
  return mean;
}

/// What the mean over the snapshot's workers is taken times.
double factorOf(const Program &program, const Snapshot &snapshot, const Stored &stored) {
  return isResidual(stored) ? workersOfMean(snapshot.fingerprints) / workersOfMean(program.fingerprints) : 1;
}

} // namespace

bool isOfOtherWorkers(const Program &program, const Snapshot &snapshot, const SafetensorsFile::Tensor &found,
                      const Stored &stored) {
  if (stored.kind != Stored::Optimizer || found.type != stored.type)
    return false;
  if (found.sizes == logicalSizes(stored.layout, stored.axes))
    return factorOf(program, snapshot, stored) != 1;
  const std::vector<int64_t> own = ownSizes(stored);
  const size_t more = found.sizes.size() - own.size(), most = std::max<size_t>(axesOfWorkers(stored), 1);
  return found.sizes.size() >= own.size() && more <= most &&
         std::equal(own.begin(), own.end(), found.sizes.begin() + std::ptrdiff_t(more));
}

void takeMean(Rank &rank, const Snapshot &snapshot, const SafetensorsFile::Tensor &found, const Stored &stored,
              const TensorPiece &piece) {
  int64_t width = 1, rows = 1;
  for (const int64_t size : ownSizes(stored))
    width *= size;
  for (size_t i = 0; i + ownSizes(stored).size() < found.sizes.size(); ++i)
    rows *= found.sizes[i];
  const double factor = factorOf(rank.program(), snapshot, stored);
  // One worker's tensor, which a rank holds for each of its own.
  Layout layout = *piece.layout;
  TensorPiece one = piece;
  one.layout = &layout;
  for (size_t i = 0; i < axesOfWorkers(stored); ++i) {
    one.axes.erase(one.axes.begin());
    layout.axes.erase(std::find_if(layout.axes.begin(), layout.axes.end(),
                                   [&](const AxisPiece &axis) { return axis.name == piece.axes[i]; }));
  }
  const int64_t count = localCount(layout, rank.program().mesh);
  const int64_t workers = localCount(*piece.layout, rank.program().mesh) / count;
  visitElement(stored.type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      const std::vector<T> mean = meanOf(reinterpret_cast<const T *>(found.data), rows, width, factor);
      for (int64_t worker = 0; worker < workers; ++worker) {
        one.data = piece.data + worker * count * int64_t(sizeof(T));
        takePiece(rank, one, reinterpret_cast<const std::byte *>(mean.data()));
      }
    } else {
      fail("internal error, please report: no mean of " + stored.path +
           ", whose numbers are not of four or eight bytes");
    }
  });
}

} // namespace echelon::runtime
