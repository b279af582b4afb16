// Builds operations of the ech dialect and infers their types: the one place that knows the shape of each result.
// Callers guarantee what the verifiers check (the front end has told the user by then).
#pragma once
#include "ir/ech/Ech.h"
#include <functional>

namespace echelon::ech {

using Names = llvm::ArrayRef<llvm::StringRef>;

class Build {
public:
  Build(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type real) : builder(builder), loc(loc), real(real) {}
  mlir::OpBuilder &builder;
  mlir::Location loc; ///< of what is built next: NameLoc("h", FileLineColLoc) where the user named the value
  mlir::Type real;    ///< f32 or f64: the type of real numbers of this program

  Tensor type(llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> axes, mlir::Type element);
  Tensor scalarType() { return type({}, real); }

  mlir::Value constant(double value);              ///< real number without axes
  mlir::Value constant(double value, Tensor type); ///< the same at every place; any element type
  mlir::Value zeros(Tensor type) { return constant(0, type); }
  mlir::Value count(Names over, Tensor of); ///< product of logical sizes of axes of a type, a real number
  mlir::Value scalar(llvm::StringRef name, int64_t line = 0, double beta = 0);
  mlir::Value index(llvm::StringRef axis, int64_t size); ///< i32
  mlir::Value position(llvm::StringRef axis);            ///< i32, no axes
  mlir::Value random(Distribution kind, llvm::StringRef site, double a, double b, Tensor type);

  /// Element-wise: result axes are the union of the operands' (those of the operand with most axes first). Result
  /// element: i1 for comparisons and logic, the operands' common type (i32 becomes real where it meets real) else.
  mlir::Value map(Function f, mlir::ValueRange operands);
  mlir::Value cast(mlir::Value x, mlir::Type element); ///< no-op where it has it already
  mlir::Value toReal(mlir::Value x) { return cast(x, real); }
  mlir::Value add(mlir::Value a, mlir::Value b) { return map(Function::Add, {a, b}); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return map(Function::Sub, {a, b}); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return map(Function::Mul, {a, b}); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return map(Function::Div, {a, b}); }
  mlir::Value neg(mlir::Value a) { return map(Function::Neg, {a}); }
  mlir::Value select(mlir::Value c, mlir::Value a, mlir::Value b) { return map(Function::Select, {c, a, b}); }
  /// Adds the axes of `like` that x lacks, in like's order; x itself when it lacks none.
  mlir::Value expandTo(mlir::Value x, Tensor like);
  mlir::Value expand(mlir::Value x, Tensor result);
  /// Sums away the axes that `like` lacks (the transpose of broadcasting); x itself when there are none.
  mlir::Value sumTo(mlir::Value x, Tensor like);

  mlir::Value dot(mlir::Value a, mlir::Value b, Names over); ///< axes: shared, a's own, b's own
  mlir::Value reduce(Reduction kind, mlir::Value x, Names over);
  mlir::Value sum(mlir::Value x, Names over) { return reduce(Reduction::Sum, x, over); }
  mlir::Value mean(mlir::Value x, Names over);             ///< sum / count
  mlir::Value argmax(mlir::Value x, llvm::StringRef over); ///< i32
  mlir::Value softmax(mlir::Value x, Names over);
  LogSumExpOp logSumExp(mlir::Value x, Names over);
  mlir::Value logSoftmax(mlir::Value x, Names over); ///< of the terms of the logsumexp
  CrossEntropyOp crossEntropy(mlir::Value logits, mlir::Value labels, llvm::StringRef over);
  NormalizeOp normalize(mlir::Value x, Names over, bool rms);
  mlir::Value normalizeGrad(mlir::Value dy, mlir::Value y, mlir::Value rstd, Names over, bool rms);
  mlir::Value cumsum(mlir::Value x, llvm::StringRef over, bool reverse = false);
  mlir::Value top(mlir::Value x, llvm::StringRef over, llvm::StringRef into, int64_t k);
  mlir::Value globalNorm(mlir::ValueRange values);

  mlir::Value perWorker(mlir::Value x, llvm::StringRef axis, int64_t workers, bool isApart = false);
  mlir::Value handIn(mlir::Value x, llvm::StringRef axis); ///< the workers' axis behind it
  mlir::Value orthogonalize(mlir::Value x, Names over, llvm::StringRef vectors);

  mlir::Value gather(mlir::Value table, Names axes,
                     mlir::ValueRange indices); ///< axes: the indices', then the table's rest
  mlir::Value scatterAdd(mlir::Value values, Names axes, mlir::ValueRange indices, Tensor table);
  mlir::Value pick(mlir::Value x, llvm::StringRef axis, int64_t position);
  mlir::Value place(mlir::Value x, llvm::StringRef axis, int64_t position, Tensor result);
  mlir::Value slice(mlir::Value x, llvm::StringRef axis, int64_t start, int64_t size);
  mlir::Value pad(mlir::Value x, llvm::StringRef axis, int64_t start, Tensor result);
  /// One group: `from` names become `to` names with these sizes (product equal); others stay where they are.
  mlir::Value relabel(mlir::Value x, Names from, llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> to);
  /// Several groups at once, with the result's type given.
  mlir::Value relabel(mlir::Value x, mlir::ArrayAttr from, mlir::ArrayAttr to, Tensor result);
  mlir::Value concat(mlir::ValueRange values, llvm::StringRef axis);

  struct Window {
    llvm::SmallVector<llvm::StringRef> window, kernel;
    llvm::SmallVector<int64_t> stride, padLow, padHigh;
  };
  /// x: (batch…, over…, window…), w: (to…, over…, kernel…) -> (batch…, to…, window…): to is where over stood in x.
  mlir::Value conv(mlir::Value x, mlir::Value w, Names over, const Window &window);
  mlir::Value convGradX(mlir::Value dy, mlir::Value w, Names over, const Window &window, Tensor x);
  mlir::Value convGradW(mlir::Value dy, mlir::Value x, Names over, const Window &window, Tensor w);
  mlir::Value pool(Pooling kind, mlir::Value x, Names window, llvm::ArrayRef<int64_t> size,
                   llvm::ArrayRef<int64_t> stride, llvm::ArrayRef<int64_t> pad);
  AttentionOp attention(mlir::Value q, mlir::Value k, mlir::Value v, mlir::Value mask, mlir::Value bias,
                        llvm::StringRef query, llvm::StringRef past, llvm::StringRef key, double scale, bool causal);

  /// A repeat: `body` builds the region at this builder (block arguments: carried, then slices without the axis) and
  /// fills what it yields. Types of stacks get `axis` as slowest.
  struct Yields {
    llvm::SmallVector<mlir::Value> carried, stacked, summed;
  };
  RepeatOp repeat(llvm::StringRef axis, int64_t count, mlir::ValueRange carried, mlir::ValueRange slices, bool reverse,
                  bool along, std::function<Yields(mlir::ValueRange carried, mlir::ValueRange slices)> body);

private:
  mlir::ArrayAttr names(Names list);
};

/// x without an axis; with an axis as the slowest.
Tensor without(Tensor type, llvm::StringRef axis);
Tensor stackedType(Tensor type, llvm::StringRef axis, int64_t size);
mlir::SmallVector<llvm::StringRef> strings(mlir::ArrayAttr names);

} // namespace echelon::ech
