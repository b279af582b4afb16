#include "frontend/elaborate/BuiltIns.h"
#include "frontend/elaborate/Elaborate.h"
#include "frontend/elaborate/Fold.h"

using namespace echelon::frontend;

const std::map<std::string, BuiltIn> &echelon::frontend::builtIns() {
  static const std::map<std::string, BuiltIn> table = [] {
    std::map<std::string, BuiltIn> t;
    for (const auto &[name, function] : unaryFunctions())
      t[name] = {{"x"}, 1, builtin::elementwise};
    t["ceil"] = {{"x"}, 1, builtin::elementwise};
    t["gelu"] = {{"x", "tanh"}, 1, builtin::elementwise};
    t["mod"] = {{"a", "b"}, 2, builtin::elementwise};
    t["clamp"] = {{"x", "lo", "hi"}, 3, builtin::elementwise};
    t["where"] = {{"c", "a", "b"}, 3, builtin::where};
    t["outer"] = {{"e"}, 1, builtin::outer};
    t["size"] = {{"axis"}, 1, builtin::size};
    t["index"] = {{"axis"}, 1, builtin::index};
    t["stop_gradient"] = {{"x"}, 1, builtin::stopGradient};
    for (const char *name : {"max", "min"})
      t[name] = {{"x", "y", "over", "where"}, 1, builtin::maximum};
    for (const char *name : {"sum", "mean", "argmax", "softmax", "log_softmax", "logsumexp", "cumsum"})
      t[name] = {{"x", "over", "where"}, 1, builtin::reduction};
    t["dot"] = {{"a", "b", "over"}, 3, builtin::dot};
    t["cross_entropy"] = {{"logits", "labels", "over"}, 3, builtin::crossEntropy};
    t["top"] = {{"x", "over", "k", "into"}, 4, builtin::top};
    t["concat"] = {{"a", "b", "over"}, 3, builtin::concat, /*isVariadic=*/true};
    t["conv"] = {{"x", "w", "over", "window", "stride", "pad"}, 2, builtin::conv};
    for (const char *name : {"maxpool", "avgpool"})
      t[name] = {{"x", "window", "size", "stride", "pad"}, 2, builtin::pool};
    t["attention"] = {
        {"q", "k", "v", "over", "key", "causal", "mask", "bias", "scale", "query"}, 5, builtin::attention};
    t["dropout"] = {{"x", "p"}, 2, builtin::dropout};
    t["survive"] = {{"x", "p"}, 2, builtin::survive};
    // What the library is made of; users may call them as well.
    t["normalize"] = {{"x", "over", "rms", "local"}, 2, builtin::normalize};
    for (const char *name : {"normalize_mean", "normalize_variance"})
      t[name] = {{"x", "over", "local"}, 2, builtin::normalize};
    t["count"] = {{"x", "over", "local"}, 1, builtin::count};
    return t;
  }();
  return table;
}

std::map<std::string, std::vector<std::string>> echelon::frontend::builtInFunctions() {
  std::map<std::string, std::vector<std::string>> functions;
  for (const auto &[name, of] : builtIns())
    functions[name].assign(of.arguments.begin(), of.arguments.end());
  return functions;
}
