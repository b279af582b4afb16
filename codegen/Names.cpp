// Unique names. Buffers keep the user's name; where several have one, the later ones are numbered.
#include "codegen/Names.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

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
    "evaluate_begin evaluate_batch evaluate_end path_hash Distribution ElementType run_program"};

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

struct Phases {
  bool forward = false, backward = false;
};
void addPhases(Value buffer, Phases &phases) {
  for (Operation *user : buffer.getUsers()) {
    auto phase = user->getAttrOfType<StringAttr>(ech::kPhase);
    if (auto view = dyn_cast<rt::ViewOp>(user))
      addPhases(view.getView(), phases);
    else if (!phase)
      phases.forward = true;
    else
      phases.backward |= phase.getValue() == "backward";
  }
}
/// The same for views that begin at the same element.
std::string keyOf(rt::ViewOp view) {
  std::string key;
  llvm::raw_string_ostream text(key);
  text << view.getBase().getAsOpaquePointer() << " " << view.getOffset() << " "
       << rt::buffer(view.getView()).getElement();
  for (auto [index, factor] : llvm::zip(view.getIndices(), view.getFactors()))
    text << " " << index.getAsOpaquePointer() << "*" << factor;
  return key;
}
/// What the backward pass alone makes and reads: of a value named x it is called d_x.
bool madeBackward(Value buffer) {
  Phases phases;
  addPhases(buffer, phases);
  return phases.backward && !phases.forward;
}
} // namespace

std::string codegen::identifier(StringRef text) {
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

std::string Names::notTaken(const std::string &base) {
  int &number = numbers.try_emplace(base, 1).first->second;
  auto name = [&] { return number == 1 ? base : base + "_" + std::to_string(number); };
  while (taken.contains(name()))
    ++number;
  return name();
}

std::string Names::fresh(StringRef wanted) {
  const std::string base = identifier(wanted);
  std::string name = notTaken(base);
  for (int i = numbers[base]; taken.contains(name) || !temporary.insert(name).second;)
    name = base + "_" + std::to_string(++i);
  return name;
}

void Names::give(Value value, StringRef wanted) {
  names[value] = notTaken(identifier(wanted));
  taken.insert(names[value]);
}

Names::Names(ModuleOp module) {
  module.walk([&](rt::CallOp call) { taken.insert(call.getCallee()); });
  module.walk([&](rt::CollectiveOp op) {
    for (const char *form : {"", "_start", "_inner", "_inner_start"})
      taken.insert((op.getKind() + form).str());
  });
  for (auto function : module.getOps<rt::FunctionOp>()) // each has its own names
    inScope(function.getBody().front());
  taken = std::move(everywhere);
}

void Names::inScope(Block &block) {
  const llvm::StringSet<> outerTaken = taken;
  const llvm::StringMap<int> outerNumbers = numbers;
  const llvm::StringMap<std::string> outerViews = views;
  if (auto loop = dyn_cast<rt::ForOp>(block.getParentOp()))
    give(loop.position(), loop.getAxis());
  for (Operation &op : block) {
    name(op);
    if (auto loop = dyn_cast<rt::ForOp>(op))
      inScope(loop.getBody().front());
  }
  for (StringRef name : taken.keys())
    everywhere.insert(name);
  taken = outerTaken;
  numbers = outerNumbers;
  views = outerViews;
}

void Names::name(Operation &op) {
  auto wanted = [&](StringRef otherwise) {
    StringRef name = rt::nameOf(op.getLoc());
    return name.empty() ? otherwise : name;
  };
  if (auto alloc = dyn_cast<rt::AllocOp>(op)) {
    StringRef name = wanted("t");
    bool own = name == "message" || name == "gathered" || name == "part" || name == "t";
    bool derivative = !own && !name.starts_with("d_") && madeBackward(alloc.getBuffer());
    give(alloc.getBuffer(), derivative ? ("d_" + name).str() : name.str());
  } else if (auto view = dyn_cast<rt::ViewOp>(op)) {
    const std::string &base = names[view.getBase()];
    if (view.getOffset() == 0 && view.getIndices().empty()) {
      names[view.getView()] = base;
      return;
    }
    std::string &same = views[keyOf(view)];
    if (!same.empty()) {
      names[view.getView()] = same;
      return;
    }
    StringRef own = rt::nameOf(op.getLoc());
    std::string name = own.empty() || own == base ? base : own.str();
    if (view.getIndices().size() == 1 && names.count(view.getIndices()[0]) && isa<BlockArgument>(view.getIndices()[0]))
      name = base + "_" + names[view.getIndices()[0]];
    else if (name == base)
      name += "_part";
    give(view.getView(), name);
    same = names[view.getView()];
  } else if (auto number = dyn_cast<rt::NumberOp>(op)) {
    give(number.getResult(), wanted("number"));
  } else if (auto offset = dyn_cast<rt::OffsetOp>(op)) {
    give(offset.getResult(), wanted("first"));
  } else if (auto tickets = dyn_cast<rt::TicketsOp>(op)) {
    for (Operation *user : tickets.getTickets().getUsers())
      if (auto kept = dyn_cast<rt::CollectiveOp>(user); kept && !names.count(tickets.getTickets()))
        give(tickets.getTickets(), (kept.getKind() + "_of_" + names[rt::allocOf(kept.getOut()).getBuffer()]).str());
  } else if (auto started = dyn_cast<rt::CollectiveOp>(op); started && started.getTicket()) {
    give(started.getTicket(), (started.getKind() + "_of_" + names[started.getOut()]).str());
  }
}
