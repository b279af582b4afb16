// One training step of a GPT without all that is not a matrix product, the loss or the optimizer: what libraries make
// of the machine, as a yardstick that shares no code with the runtime.
#pragma once
#include <cstdint>
#include <sys/mman.h>
#include <vector>

namespace echelon::bench {

enum class Library { openblas, onednn };

/// The model, and which share of its step this process does. `columns`: heads, the columns of the feed-forward layers
/// and the vocabulary are divided, as tensor parallelism does; else whoever makes the Sizes divides `batch`. The
/// optimizer's share is parameters / `ways`, so that all processes together do it once for every parameter.
struct Sizes {
  int layers, heads, width, length, words, batch;
  int ways = 1, part = 0;
  bool columns = false;
};

/// Floats on huge pages where they fit.
class Buffer {
public:
  explicit Buffer(int64_t n, float spread);
  Buffer(Buffer &&other) : start(other.start), count(other.count) { other.start = nullptr; }
  ~Buffer();
  float *get() const { return start; }
  int64_t size() const { return count; }

private:
  float *start;
  int64_t count;
};

/// A parameter with what training keeps of it.
struct Weight {
  Weight(int64_t from, int64_t to);
  Buffer w, g, m, v;
};

/// What a layer keeps for its backward pass: distinct memory for each, as training has.
struct Layer {
  Layer(const Sizes &sizes, int heads, int inner);
  Weight qkv, proj, up, down;
  Buffer in, qkvOut, score, mixed, between, upOut;
};

class Step {
public:
  Step(const Sizes &sizes, Library library, int threads);
  void run();

private:
  void product(float *c, const float *a, const float *b, int64_t m, int64_t n, int64_t k, bool ta, bool tb, int64_t lda,
               int64_t ldb, int64_t ldc, float alpha = 1);
  void dense(float *y, const float *x, const Weight &weight, int64_t from, int64_t to);
  void denseGrad(float *dx, Weight &weight, const float *x, const float *dy, int64_t from, int64_t to);
  void attention(Layer &layer);
  void attentionGrad(Layer &layer);
  void loss();
  void update(Weight &weight);

  Sizes sizes;
  Library library;
  int threads, heads, key, inner, words;
  int64_t tokens;
  std::vector<Layer> layers;
  Weight embedding, others; // others: positions, biases, norms
  Buffer x, y, dx, dmixed, dqkv, dscore, dup, logits;
  std::vector<int> labels;
  int64_t steps = 0;
};

} // namespace echelon::bench
