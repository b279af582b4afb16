// What a name or an expression of a model stands for while it is elaborated.
#pragma once
#include "frontend/Source.h"
#include "frontend/elaborate/Number.h"
#include "ir/ech/Ech.h"
#include <optional>
#include <string>

namespace echelon::frontend {

/// A declared axis: two axes are the same when their `name` is.
struct AxisInfo {
  mlir::StringAttr name; // in types: the declared name, made unique against the axes of enclosing blocks
  int64_t size = 0;
  const AxisInfo *like = nullptr; // `axis n like m`
  bool isBatch = false, isRepeat = false;
  unsigned order = 0; // of declaration
  SourceRange range;
  bool likeBatch = false; // the samples of the step once more, under another name
  bool isWrong = false;   // its size could not be worked out, which has been reported

  /// Whether it is the run that says how long it is.
  bool countsSamples() const { return isBatch || likeBatch; }
};

/// Bounds of an integer value, both included.
struct Interval {
  int64_t low = 0, high = 0;
};

/// A value of the language: known when compiling (a number, a truth value, a word such as `same`), or a tensor.
/// Poisoned values come from an error that was reported; what is made of them is poisoned and silent.
struct Val {
  enum Kind { Poison, Known, Truth, Word, Tensor } kind = Poison;
  Number number;                 // Known
  bool truth = false;            // Truth
  std::string word;              // Word
  mlir::Value value;             // Tensor
  bool made = false;             // Tensor: of `index`, `size` and numbers only, so that it broadcasts freely
  std::optional<Interval> range; // Tensor of integers: what is known of its values
  unsigned depth = 0;            // number of loops around the place where it was made

  static Val poison() { return {}; }
  static Val known(Number n) {
    Val v;
    v.kind = Known;
    v.number = n;
    return v;
  }
  static Val truthOf(bool t) {
    Val v;
    v.kind = Truth;
    v.truth = t;
    return v;
  }
  bool isPoison() const { return kind == Poison; }
  bool isTensor() const { return kind == Tensor; }
  /// Whether it is a truth value, or a tensor of them.
  bool isTruth() const { return kind == Truth || (isTensor() && type().getElement().isInteger(1)); }
  bool isMade() const { return kind != Tensor || made; }
  ech::Tensor type() const { return ech::tensor(value); }
};

} // namespace echelon::frontend
