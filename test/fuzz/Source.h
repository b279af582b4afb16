// What the targets of runtime/data do with a source: open it as the compiler and as the program does, and read it.
#pragma once

#include "runtime/data/DataSource.h"
#include "test/fuzz/Input.h"

#include <zlib.h>

#include <algorithm>

namespace echelon::fuzz {

/// The samples that a run reads from each end of a part.
constexpr int64_t kSamples = 4;

inline void readSamples(const runtime::DataStream &stream, const std::vector<runtime::InputShape> &inputs) {
  std::vector<double> values;
  for (size_t output = 0; output < stream.outputs().size(); ++output) {
    const int64_t below = output < inputs.size() ? inputs[output].below : 0;
    for (runtime::Part part : {runtime::Part::Training, runtime::Part::HeldOut}) {
      const int64_t size = part == runtime::Part::Training ? stream.trainSize() : stream.heldOutSize();
      for (int64_t i = 0; i < size; i = i + 1 == kSamples ? std::max(i + 1, size - kSamples) : i + 1) {
        stream.readPlain(part, i, int(output), values);
        for (double value : values)
          expect(below == 0 || (value >= 0 && value < double(below)));
        stream.read(part, i, int(output), values);
      }
    }
  }
}

/// Opens the source for the inputs, or, where there are none, for whatever it gives. A refusal has a message, and the
/// compiler, which leaves pixels in their files, refuses nothing that the program takes.
inline void useSource(const runtime::DataSpec &spec, std::vector<runtime::InputShape> inputs, const Folder &folder,
                      uint8_t choice = 0) {
  runtime::DataError error;
  std::unique_ptr<runtime::DataStream> stream = runtime::openData(spec, inputs, 7, folder.path(), error);
  expect((stream != nullptr) == error.text.empty());
  const runtime::DataDescription told = runtime::describe(spec, inputs, folder.path());
  expect(!stream || told.error.text.empty());
  if (!stream)
    return;
  expect(told.trainSize == stream->trainSize() && told.heldOutSize == stream->heldOutSize());
  readSamples(*stream, inputs);
  if (!inputs.empty())
    return;
  for (const runtime::OutputShape &output : stream->outputs()) { // once more, for inputs that fit or nearly so
    const runtime::ElementType type = choice & 1 ? runtime::ElementType::Int32 : output.type;
    inputs.push_back({"x", output.dims, type, type == runtime::ElementType::Int32 && choice & 2 ? 10 : 0});
  }
  useSource(spec, inputs, folder);
}

/// gzip's form of the bytes.
inline std::string packed(const std::string &bytes) {
  std::string result(compressBound(uLong(bytes.size())) + 32, '\0');
  z_stream stream = {};
  expect(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data()));
  stream.avail_in = uInt(bytes.size());
  stream.next_out = reinterpret_cast<Bytef *>(result.data());
  stream.avail_out = uInt(result.size());
  expect(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

} // namespace echelon::fuzz
