// Fills the input arena: each rank reads the samples that it holds, cut and stored as each place wants them.
#pragma once

#include "runtime/data/DataSource.h"
#include "runtime/program/Rank.h"

#include <optional>
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

  /// Loads samples first … first + batch - 1 of the stream as the global batch, or the worker's mini-batch. Samples
  /// from `valid` on are padding: they repeat the last real one, so that what is computed on them stays finite.
  void load(const DataStream &stream, Reading reading, int64_t first, int64_t valid);
  /// Loads them while a device computes with others: load() then has nothing to do, if it is these that it is asked
  /// for.
  void loadAhead(const DataStream &stream, Reading reading, int64_t first, int64_t valid);

private:
  struct Samples {
    const DataStream *stream;
    Reading reading;
    int64_t first, valid;
    bool operator==(const Samples &other) const {
      return stream == other.stream && reading == other.reading && first == other.first && valid == other.valid;
    }
  };
  void fill(const Samples &samples);
  /// `count` elements of a sample, seen from its place in storage.
  struct SampleRun {
    int64_t local, localStride, sample, sampleStride, count;
  };
  struct Place {
    struct Held {
      int64_t start = 0; // in storage
      int64_t list = -1; // of `lists`; -1: the rank holds nothing of the sample
    };
    const InputPlace *place;
    int output;
    std::vector<Held> held; // by sample of the global batch
    std::vector<std::vector<SampleRun>> lists;

    void add(size_t list, int64_t local, int64_t sample);
  };
  void store(const Place &place, int64_t sample, const std::vector<double> &values, std::byte *inputs);

  Rank &rank;
  std::vector<std::vector<Place>> places; // by input
  std::vector<double> values;
  std::optional<Samples> ahead; // loaded, and not asked for yet
};

/// Reads one output of a stream the way an evaluation or training does.
void readSample(const DataStream &stream, Reading reading, int64_t index, int output, std::vector<double> &values);

} // namespace echelon::runtime
