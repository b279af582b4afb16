// JSON from a file that anyone may have written.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>

namespace echelon::runtime {

/// The text as JSON; a discarded value where it is none. What nests more than 64 deep is left out: copying, comparing
/// and writing recurse, and a file of brackets would end on the stack.
template <class Json> Json parseJson(const char *text, size_t bytes) {
  const typename Json::parser_callback_t shallow = [](int depth, typename Json::parse_event_t, Json &) {
    return depth <= 64;
  };
  return Json::parse(text, text + bytes, shallow, false);
}

} // namespace echelon::runtime
