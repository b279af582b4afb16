// What is different between two plans, both as `plan --json` prints them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace echelon {

/// One of two plans that are compared.
struct NamedPlan {
  std::string spec;
  nlohmann::ordered_json plan;
};

/// Figures as pairs, of the first plan and of the second: step time by term, memory by part, and the messages of which
/// there are more in one of them, or that take longer.
nlohmann::ordered_json differenceJson(const NamedPlan &a, const NamedPlan &b);
/// The same for people; of terms and parts those that differ, the largest difference first.
std::string differenceText(const nlohmann::ordered_json &difference);

} // namespace echelon
