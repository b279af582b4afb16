#include "ir/ech/Decimal.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

std::string echelon::shortestDecimal(double value) {
  for (int digits = 6; digits <= 17; ++digits) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << llvm::format("%.*g", digits, value);
    if (std::strtod(text.c_str(), nullptr) == value)
      return text;
  }
  return "";
}
