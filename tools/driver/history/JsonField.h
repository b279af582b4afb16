// Fields of JSON that others may have written: what is of another kind is as if it were not there.
#pragma once
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>

namespace echelon {

/// Not a number: there is none.
inline double numberIn(const nlohmann::json &object, const char *name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_number() ? at->get<double>() : std::nan("");
}

/// From 0 to a million million; -1: there is none.
inline int64_t countIn(const nlohmann::json &object, const char *name) {
  const double number = numberIn(object, name);
  return number >= 0 && number <= 1e12 ? int64_t(number) : -1;
}

inline std::string textIn(const nlohmann::json &object, const char *name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

} // namespace echelon
