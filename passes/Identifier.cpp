#include "passes/Identifier.h"
#include "ir/dist/State.h"
#include "ir/rt/Rt.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
using namespace echelon;

namespace {
// Words that a variable of a program cannot be called: those of C++, macros of the headers that programs include, and
// what programs use bare, which a local variable would hide.
constexpr llvm::StringLiteral kReserved[] = {
    // C++
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class "
    "compl const constexpr const_cast continue decltype default delete do double dynamic_cast else enum "
    "explicit export extern false float for friend goto if inline int long mutable namespace new noexcept "
    "not not_eq nullptr operator or or_eq private protected public register reinterpret_cast return short "
    "signed sizeof static static_assert static_cast struct switch template this thread_local throw true try "
    "typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq",
    // macros
    "assert errno linux unix stdin stdout stderr NULL EOF NAN INFINITY HUGE_VAL MATH_ERRNO MATH_ERREXCEPT "
    "RAND_MAX BUFSIZ",
    // the program's own
    "r lr math std echelon runtime main step forward backward update describe int32_t int64_t uint8_t Sum "
    "Max Min Form Blas Algorithm Rank Program Ticket Stored Init Scalar messages wait fill learning_rate "
    "evaluate_begin evaluate_batch evaluate_end path_hash Distribution ElementType run_program LongSum Stack "
    "in_pieces let_go UpdatePiece piece",
    // kernels
    "gemm gemm_batched linear gather gather_rows scatter_add scatter_add_rows fill_random copy_strided reduce_sum "
    "reduce_max reduce_min argmax max_with_index place_of_largest softmax softmax_finish local_sum_exp "
    "logsumexp logsumexp_finish cumsum top_k cross_entropy cross_entropy_target cross_entropy_local "
    "cross_entropy_target_local cross_entropy_finish cross_entropy_target_finish add_squares normalize "
    "normalize_grad normalize_finish normalize_grad_local normalize_grad_finish rms_normalize rms_normalize_grad "
    "rms_local rms_finish rms_grad_local rms_grad_finish channel_statistics channel_statistics_finish "
    "local_moments combine_moments conv conv_grad_data conv_grad_weights maxpool avgpool maxpool_grad avgpool_grad "
    "attention attention_grad ring_attention ring_attention_grad orthogonalize",
    // of programs for GPUs
    "round gpu range launch launch_each launch_in_pieces fetch write_back cover cover_blocks cover_columns out inout "
    "inputs now health numbers device "
    "run "
    "parts wide_parts threadIdx blockIdx blockDim Numbers Health Host Tensors tensors UNROLL",
    // its structs and what it calls them
    "Params Activations Gradients OptimizerState State Inputs Sums Messages p act grad opt state in sums from"};

bool isReserved(StringRef name) {
  static const llvm::StringSet<> words = [] {
    llvm::StringSet<> set;
    for (StringRef list : kReserved)
      for (StringRef word : llvm::split(list, ' '))
        set.insert(word);
    return set;
  }();
  return words.contains(name) || name.starts_with("M_") || name.starts_with("FP_");
}
} // namespace

std::string echelon::identifier(StringRef text) {
  std::string name;
  for (char c : text)
    name += llvm::isAlnum(c) ? c : '_';
  while (name.find("__") != std::string::npos)
    name.erase(name.find("__"), 1);
  if (name.empty() || llvm::isDigit(name[0]))
    name = "v" + name;
  if (name[0] == '_')
    name = "v" + name;
  if (isReserved(name))
    name += "_";
  return name;
}

std::string echelon::uniqueName(StringRef wanted, function_ref<bool(StringRef)> isTaken) {
  const std::string base = identifier(wanted);
  std::string name = base;
  for (int i = 2; isTaken(name); ++i)
    name = base + "_" + std::to_string(i);
  return name;
}

std::string echelon::shortestName(StringRef name, function_ref<bool(StringRef)> isTaken) {
  name = name.ltrim("@_"); // "@dp" counts the ranks over dp
  if (name.empty())
    for (StringRef each : {"i", "j", "k"})
      if (!isTaken(each))
        return each.str();
  for (size_t letters = 1; letters < std::max<size_t>(name.size(), 2); ++letters) {
    std::string beginning = name.take_front(letters).str();
    if (identifier(beginning) == beginning && beginning.back() != '_' && !isTaken(beginning))
      return beginning;
  }
  return uniqueName(name.empty() ? "i" : identifier(name) + "_i", isTaken);
}

llvm::StringSet<> echelon::constantsOf(mlir::ModuleOp module) {
  llvm::StringSet<> names;
  if (auto sizes = module->getAttrOfType<mlir::ArrayAttr>(rt::kSizes))
    for (auto size : sizes.getAsRange<mlir::DictionaryAttr>())
      names.insert(identifier(size.getAs<mlir::StringAttr>("name").getValue()));
  if (dist::MeshAttr mesh = dist::meshOf(module))
    for (const dist::MeshAxis &axis : mesh.getAxes())
      names.insert(identifier(axis.name));
  module.walk([&](mlir::Operation *op) {
    if (auto passes = rt::passesOf(op))
      names.insert(identifier(passes->name));
  });
  return names;
}
