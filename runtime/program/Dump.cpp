#include "runtime/program/Dump.h"
#include "runtime/launch/Fail.h"
#include "runtime/program/Assemble.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <utility>

namespace echelon::runtime {

namespace {

/// An npy file (version 1) that is written front to back, and then finished.
class NpyWriter {
public:
  NpyWriter(const std::string &folder, const std::string &name, ElementType type, const std::vector<int64_t> &sizes)
      : path(folder + "/" + name + ".npy") {
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    file = std::fopen(path.c_str(), "wb");
    std::string header = std::string("{'descr': '") + namesOf(type).npy + "', 'fortran_order': False, 'shape': (";
    for (int64_t size : sizes)
      header += std::to_string(size) + ", ";
    header += "), }";
    header.append(63 - (10 + header.size()) % 64, ' ');
    header += '\n';
    const char lead[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, char(header.size() & 255), char(header.size() >> 8)};
    append(lead, sizeof(lead));
    append(header.data(), header.size());
  }
  ~NpyWriter() {
    if (file)
      std::fclose(file);
  }
  void append(const void *data, size_t bytes) { check(file && std::fwrite(data, 1, bytes, file) == bytes); }
  /// A full disk may show only here, when what is buffered is written.
  void finish() { check(std::fclose(std::exchange(file, nullptr)) == 0); }

private:
  void check(bool ok) const {
    if (!ok)
      fail("cannot write \"" + path + "\": " + std::strerror(errno));
  }

  std::string path;
  FILE *file;
};

std::string stepFolder(const Rank &rank, const std::string &folder) {
  char name[32];
  std::snprintf(name, sizeof(name), "/step-%06lld/", static_cast<long long>(rank.step() + 1));
  return folder + name;
}

void dumpTensors(Rank &rank, const std::string &folder, const std::vector<TensorPiece> &tensors) {
  WriterTurns turns(rank, "dump");
  for (const TensorPiece &tensor : tensors) {
    std::unique_ptr<NpyWriter> file;
    if (rank.rank() == 0)
      file = std::make_unique<NpyWriter>(folder, tensor.name, tensor.type, logicalSizes(*tensor.layout, tensor.axes));
    assemble(rank, turns, tensor, [&](const std::byte *data, size_t bytes) { file->append(data, bytes); });
    if (file)
      file->finish();
  }
  turns.end();
}

template <class T> void appendAs(NpyWriter &file, const std::vector<double> &values) {
  std::vector<T> converted(values.begin(), values.end());
  file.append(converted.data(), converted.size() * sizeof(T));
}

void appendValues(NpyWriter &file, ElementType type, const std::vector<double> &values) {
  visitElement(type, [&](auto zero) { appendAs<decltype(zero)>(file, values); });
}

} // namespace

void dumpStart(Rank &rank, const std::string &folder) { dumpTensors(rank, folder + "/start", storedTensors(rank)); }

void dumpState(Rank &rank, const std::string &folder) {
  dumpTensors(rank, stepFolder(rank, folder) + "after", storedTensors(rank));
}

/// What the inputs are of these samples, of the endless stream; rank 0 alone.
static void dumpInputs(Rank &rank, const DataStream &stream, const std::vector<int64_t> &samples,
                       const std::string &folder, WriterTurns &turns) {
  const auto count = int64_t(samples.size());
  std::vector<double> sample;
  for (const Input &input : rank.program().inputs) {
    int64_t inner = 1, outer = 1; // sizes of the axes after and before the batch
    std::vector<int64_t> sizes = input.sizes;
    bool after = false;
    for (size_t i = 0; i < input.axes.size(); ++i) {
      if (input.axes[i] == rank.program().batchAxis) {
        after = true;
        sizes[i] = count;
      } else {
        (after ? inner : outer) *= input.sizes[i];
      }
    }
    std::vector<double> whole(size_t(outer * count * inner));
    for (int64_t b = 0; b < count; ++b) {
      readSample(stream, Reading::Training, samples[size_t(b)], input.output, sample);
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < inner; ++i)
          whole[size_t((o * count + b) * inner + i)] = sample[size_t(o * inner + i)];
    }
    NpyWriter file(stepFolder(rank, folder) + "batch", input.name, input.type, sizes);
    appendValues(file, input.type, whole);
    file.finish();
    turns.stillWriting();
  }
}

void dumpMiniBatches(Rank &rank, const DataStream &stream, const Update &update, const std::string &folder) {
  WriterTurns turns(rank, "dump");
  if (rank.rank() != 0)
    return turns.end();
  const int64_t size = rank.program().miniBatch();
  std::vector<int64_t> samples;
  for (const HandedIn &gradient : update.gradients)
    for (int64_t i = 0; i < size; ++i)
      samples.push_back(gradient.ticket * size + i);
  dumpInputs(rank, stream, samples, folder, turns);
  turns.end();
}

void dumpBatch(Rank &rank, const DataStream &stream, const std::string &folder) {
  WriterTurns turns(rank, "dump");
  if (rank.rank() != 0)
    return turns.end();
  const Program &program = rank.program();
  const std::string base = stepFolder(rank, folder);
  std::vector<int64_t> samples(size_t(program.batch));
  std::iota(samples.begin(), samples.end(), rank.samplesBefore(rank.step()));
  dumpInputs(rank, stream, samples, folder, turns);
  for (const RandomDraw &draw : program.draws) {
    int64_t count = 1;
    for (int64_t size : draw.sizes)
      count *= size;
    std::vector<double> values(static_cast<size_t>(count));
    const RandomKey key = rank.randomKey(path_hash(draw.path));
    const int64_t rows = draw.aPerIndex.empty() ? 1 : int64_t(draw.aPerIndex.size());
    for (int64_t row = 0; row < rows; ++row)
      fill_random(values.data() + row * (count / rows), key, draw.kind,
                  draw.aPerIndex.empty() ? draw.a : draw.aPerIndex[size_t(row)],
                  draw.kind == Distribution::Keep ? 1.0 : draw.b, {{count / rows, row * (count / rows), 1}});
    const ElementType type = draw.kind == Distribution::Keep ? ElementType::UInt8 : ElementType::Float64;
    NpyWriter file(base + "random", draw.path, type, draw.sizes);
    appendValues(file, type, values);
    file.finish();
    turns.stillWriting();
  }
  turns.end();
}

} // namespace echelon::runtime
