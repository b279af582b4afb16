// Where samples come from. The compiler opens sources to check a spec, the program to train on them; nothing here knows
// ranks.
#pragma once

#include "runtime/data/DataSpec.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace echelon::runtime {

enum class Part { Training, HeldOut };

/// The size of a part that never ends (synthetic data).
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

/// What a source gives for one of its outputs.
struct OutputShape {
  std::vector<int64_t> dims;               // of one sample
  ElementType type = ElementType::Float32; // Float32 stands for any real number
  int row = -1, column = -1, channel = -1; // which of the dims are a picture's, where the source knows
};

/// Samples by number. Opened once and shared: reading is const and may happen on several threads.
class DataSource {
public:
  virtual ~DataSource() = default;
  virtual int64_t size(Part part) const = 0;
  /// One output of one sample, its axes in declared order; integers and bools as their values.
  virtual void read(Part part, int64_t sample, int output, double *values) const = 0;

  /// Of a table: the names of the columns that fill the inputs, in that order.
  virtual std::vector<std::string> columns() const { return {}; }

  const std::vector<OutputShape> &outputs() const { return outputShapes; }

protected:
  std::vector<OutputShape> outputShapes;
};

class Transforms;

/// A source with its order and transforms: the stream that training and evaluation see.
class DataStream {
public:
  DataStream(std::unique_ptr<DataSource> source, std::unique_ptr<const Transforms> transforms, uint64_t seed);
  ~DataStream();

  int64_t trainSize() const { return source->size(Part::Training); }
  int64_t heldOutSize() const { return source->size(Part::HeldOut); }
  const std::vector<OutputShape> &outputs() const { return source->outputs(); }

  /// Output `output` of place `index` in the stream. Training: the endless sequence of epochs' permutations, with the
  /// random transforms of that place; held out: the samples in their order.
  void read(Part part, int64_t index, int output, std::vector<double> &values) const;
  /// The same samples in their order and without random transforms, whichever part they are from.
  void readPlain(Part part, int64_t sample, int output, std::vector<double> &values) const;

private:
  void fetch(Part part, int64_t sample, int output, std::vector<double> &values) const;

  std::unique_ptr<DataSource> source;
  std::unique_ptr<const Transforms> transforms;
  uint64_t seed;
};

/// What went wrong when opening data, for a diagnostic at the right place.
struct DataError {
  std::string text;   // empty: nothing
  int input = -1;     // the input concerned; -1: the source itself
  int transform = -1; // the transform concerned; -1: none
};

/// Opens a source for the inputs that its outputs fill in order, and checks files, shapes, types and every integer
/// against its bound. Relative paths start at `folder`. Null with `error` set where it cannot be used.
std::unique_ptr<DataStream> openData(const DataSpec &spec, const std::vector<InputShape> &inputs, uint64_t seed,
                                     const std::string &folder, DataError &error);

/// For the compiler: the same checks, but pixels are left in their files.
struct DataDescription {
  DataError error;
  std::vector<OutputShape> outputs;
  int64_t trainSize = 0;
  int64_t heldOutSize = 0;               // kUnlimited for both: synthetic
  std::vector<std::string> columns;      // as DataSource::columns
  std::vector<TransformSpec> transforms; // with the axes and the inputs that they act on
};
DataDescription describe(const DataSpec &spec, const std::vector<InputShape> &inputs, const std::string &folder);

} // namespace echelon::runtime
