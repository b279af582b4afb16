// How a figure is measured: calls on all ranks at once, the median of their times, that of the slowest rank.
#pragma once
#include "runtime/collectives/Collectives.h"
#include "runtime/program/Clock.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace echelon::runtime {

/// One thing to measure.
struct Figure {
  std::string name; ///< with its sizes: "product 64 256 64"
  std::function<void()> call;
  int times = 1;         ///< that `call` does it
  bool isShared = false; ///< all ranks take part in a call: it begins on all at one moment, and ends with the last
};

class Figures {
public:
  explicit Figures(Transport &transport) : t(transport) {}

  void add(std::string name, std::function<void()> call, int times = 1) {
    all.push_back({std::move(name), std::move(call), times, false});
  }
  void addShared(std::string name, std::function<void()> call) {
    all.push_back({std::move(name), std::move(call), 1, true});
  }
  /// All of them in turns, `rounds` times, in about so many seconds together.
  void measure(double seconds, int rounds);

private:
  double own(const Figure &figure, double budget);
  double shared(const Figure &figure, double budget);

  Transport &t;
  std::vector<Figure> all;
};

/// Buffers of a rank, which stay until the program ends.
class Buffers {
public:
  /// `count` floats, none of them zero or denormal.
  float *floats(int64_t count);

private:
  std::vector<std::vector<float>> kept;
};

// Each adds its figures. `few`: a coarser grid.
void addProducts(Figures &figures, Buffers &buffers, bool few);
void addRowKernels(Figures &figures, Buffers &buffers, bool few);
void addAttention(Figures &figures, Buffers &buffers, bool few);
void addConvolutions(Figures &figures, Buffers &buffers, bool few);
void addImageKernels(Figures &figures, Buffers &buffers);
void addInputs(Figures &figures, Buffers &buffers);
void addMemory(Figures &figures, Buffers &buffers, bool few);
void addCollectives(Figures &figures, Transport &t, bool few);

} // namespace echelon::runtime
