// libFuzzer's mutators for specs: three of four changes keep to the grammar, the others are of bytes.
#include "test/fuzz/Sentences.h"

#include <cstring>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

using echelon::fuzz::Sentences;

static std::string textOf(const uint8_t *data, size_t size) {
  return std::string(reinterpret_cast<const char *>(data), size);
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  if (seed % 4 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  const std::string text = textOf(data, size), changed = Sentences(seed).mutate(text, text);
  if (changed.empty() || changed.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size, const uint8_t *other, size_t otherSize,
                                            uint8_t *out, size_t maxSize, unsigned seed) {
  std::string changed = Sentences(seed).mutate(textOf(data, size), textOf(other, otherSize));
  if (changed.size() > maxSize)
    changed.resize(maxSize);
  std::memcpy(out, changed.data(), changed.size());
  return changed.size();
}
