// Fills the input arena: each rank reads the samples that it holds, cut and stored as each place wants them.
#pragma once

#include "runtime/data/DataSource.h"
#include "runtime/program/Rank.h"

#include <vector>

namespace echelon::runtime {

/// What the data source is asked to fill: the program's inputs in the order of the source's outputs.
std::vector<InputShape> inputShapes(const Program &program);

enum class Reading {
  Training, // the shuffled stream with its random transforms
  HeldOut,  // held-out samples in their order
  Plain     // training samples in their order: an evaluation on a source that holds nothing out
};

class InputLoader {
public:
  explicit InputLoader(Rank &rank);

  /// Loads samples first … first + batch - 1 of the stream as the global batch. Samples from `valid` on are padding:
  /// they repeat the last real one, so that what is computed on them stays finite.
  void load(const DataStream &stream, Reading reading, int64_t first, int64_t valid);

private:
  /// `count` elements in a row of a sample's, seen from the first one that the rank holds of a batch.
  struct SampleRun {
    int64_t local, localStride, sample, sampleStride, count;
  };
  struct Place {
    const InputPlace *place;
    int output;
    int64_t firstSample, samples; // of a micro batch
    int64_t batchStride;          // elements from one sample to the next in storage
    int64_t microStride;          // elements from one micro batch to the next
    std::vector<SampleRun> runs;
  };
  void store(const Place &place, int64_t micro, int64_t sample, const std::vector<double> &values);

  Rank &rank;
  std::vector<std::vector<Place>> places; // by input
  std::vector<double> values;
};

/// Reads one output of a stream the way an evaluation or training does.
void readSample(const DataStream &stream, Reading reading, int64_t index, int output, std::vector<double> &values);

} // namespace echelon::runtime
