// Each number in fewer bits: two bytes, one byte, one bit.
#include "passes/compress/Packing.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::compress;

namespace {

//===- fp16 ------------------------------------------------------------------------------------------------------===//

/// Numbers beyond 65,504 are that; what is not finite stays so.
Unpacked packFp16(const Packed &p, Value u) {
  Build &b = p.build;
  constexpr double kMost = 65504;
  Value size = b.map(Function::Abs, {u});
  Value sign = b.map(Function::Sign, {u});
  Value isFinite = b.map(Function::Le, {size, b.constant(std::numeric_limits<float>::max())});
  Value isBeyond = b.map(Function::Gt, {size, b.constant(kMost)});
  Value isCut = b.map(Function::And, {isBeyond, isFinite});
  Value kept = b.select(isCut, b.mul(sign, b.constant(kMost)), u);
  Value half = p.named("half", b.cast(kept, b.builder.getF16Type()));
  return {p.mean(b.toReal(p.handIn(half))), b.toReal(half)};
}

//===- int8 ------------------------------------------------------------------------------------------------------===//

/// Steps of largest / 127.
Unpacked packInt8(const Packed &p, Value u) {
  Build &b = p.build;
  SmallVector<StringRef> own = p.ownNames();
  Value largest = b.reduce(Reduction::Max, b.map(Function::Abs, {u}), own);
  Value step = p.named("step", b.mul(b.mul(largest, b.constant(1.0 / 127)), p.finiteness(u)));
  Value isZero = b.map(Function::Eq, {step, b.constant(0)});
  Value divisor = b.select(isZero, b.constant(1), step);
  Value level = b.map(Function::Round, {b.div(u, divisor)});
  // What is not finite is so in the step; of it there is no byte.
  Value isLevel = b.map(Function::Le, {b.map(Function::Abs, {level}), b.constant(127)});
  level = b.select(isLevel, level, b.constant(0));
  Value byte = p.named("byte", b.cast(level, b.builder.getI8Type()));
  auto unpack = [&](Value bytes, Value steps) { return b.mul(b.toReal(bytes), steps); };
  Value bytes = p.handIn(byte);
  Value steps = p.handIn(step);
  return {p.mean(unpack(bytes, steps)), p.feedback ? unpack(byte, step) : Value()};
}

//===- onebit ----------------------------------------------------------------------------------------------------===//

constexpr int64_t kBits = 8;

/// The axis that is packed: the last that holds whole bytes.
std::optional<Axis> packedAxis(const Packed &p) {
  for (const Axis &axis : llvm::reverse(p.own()))
    if (axis.size % kBits == 0)
      return axis;
  return std::nullopt;
}

/// 2^bit along the axis of bits, or 2^-bit: by the bits of its position, for loops that would take a power of each sign.
Value weightOf(const Packed &p, bool isInverse) {
  Build &b = p.build;
  Value rest = b.toReal(b.index(p.workers.bit, kBits)), weight;
  for (int64_t place : {4, 2, 1}) {
    Value has = b.map(Function::Ge, {rest, b.constant(double(place))});
    const double power = std::exp2(isInverse ? -place : place);
    Value factor = b.select(has, b.constant(power), b.constant(1));
    weight = weight ? b.mul(weight, factor) : factor;
    rest = b.select(has, b.sub(rest, b.constant(double(place))), rest);
  }
  return weight;
}

/// Signs along an axis as bytes, from -128 on.
Value bytesOf(const Packed &p, Value isUp, StringRef axis, int64_t size) {
  Build &b = p.build;
  Value bits = b.relabel(isUp, {axis}, {{p.workers.byte, size / kBits}, {p.workers.bit, kBits}});
  Value sum = b.sum(b.select(bits, weightOf(p, false), b.constant(0)), {p.workers.bit});
  return b.cast(b.sub(sum, b.constant(128)), b.builder.getI8Type());
}
Value signsOf(const Packed &p, Value bytes, StringRef axis, int64_t size) {
  Build &b = p.build;
  Value number = b.add(b.toReal(bytes), b.constant(128));
  Value half = b.mul(number, b.mul(weightOf(p, true), b.constant(0.5))); // the bit is its first place after the point
  Value fraction = b.sub(half, b.map(Function::Floor, {half}));
  Value isUp = b.map(Function::Ge, {fraction, b.constant(0.5)});
  return b.relabel(isUp, {p.workers.byte, p.workers.bit}, {{axis, size}});
}

/// The sign of each, and two numbers: the mean of those from 0 on, and that of those below (Seide et al. 2014).
Unpacked packOneBit(const Packed &p, Value u) {
  Build &b = p.build;
  SmallVector<StringRef> own = p.ownNames();
  Value zero = b.constant(0), one = b.constant(1);
  Value isUp = b.map(Function::Ge, {u, zero});
  Value ups = b.sum(b.select(isUp, one, zero), own);
  Value downs = b.sub(b.constant(double(p.elements())), ups);
  auto meanOf = [&](Value sum, Value count) { return b.div(sum, b.map(Function::Max, {count, one})); };
  Value up = p.named("mean_up", meanOf(b.sum(b.select(isUp, u, zero), own), ups));
  Value down = p.named("mean_down", meanOf(b.sum(b.select(isUp, zero, u), own), downs));

  std::optional<Axis> whole = packedAxis(p);
  const int64_t size = whole ? whole->size : (p.elements() + kBits - 1) / kBits * kBits;
  const std::string axis = whole ? whole->name.getValue().str() : p.workers.flat;
  Value signs = isUp;
  if (!whole) {
    Value real = p.flat(b.select(isUp, one, zero));
    Tensor type = tensor(real);
    SmallVector<Axis> axes(type.getAxes());
    for (Axis &a : axes)
      a.size = a.name == axis ? size : a.size;
    signs = b.map(Function::Gt, {size == p.elements() ? real : b.pad(real, axis, 0, type.withAxes(axes)), zero});
  }
  Value handed = signsOf(p, p.handIn(p.named("signs", bytesOf(p, signs, axis, size))), axis, size);
  if (!whole) {
    Value real = b.select(handed, one, zero);
    if (size != p.elements())
      real = b.slice(real, axis, 0, p.elements());
    handed = b.map(Function::Gt, {p.unflat(real), zero});
  }
  Value mean = p.mean(b.select(handed, p.handIn(up), p.handIn(down)));
  return {mean, p.feedback ? b.select(isUp, up, down) : Value()};
}
} // namespace

const Packing echelon::compress::kFp16{"fp16", isMany, packFp16};
const Packing echelon::compress::kInt8{"int8", isMany, packInt8};
const Packing echelon::compress::kOneBit{"onebit", isMany, packOneBit};
