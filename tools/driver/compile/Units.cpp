#include "tools/driver/compile/Units.h"
#include "passes/cost/ProgramCost.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <iterator>

namespace echelon {

std::string inBytes(int64_t bytes) {
  static const char *units[] = {"bytes", "KB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(units); ++unit)
    value /= 1000;
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.3g ", value) << units[unit];
  return text;
}

std::string inHours(double seconds) {
  if (seconds < 120)
    return inTime(seconds);
  const bool isInMinutes = seconds < 2 * 3600, isInHours = seconds < 1000.0 * 3600;
  const double unit = isInMinutes ? 60 : isInHours ? 3600 : 24 * 3600;
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.3g", seconds / unit)
                                 << (isInMinutes ? " min"
                                     : isInHours ? " h"
                                                 : " days");
  return text;
}

} // namespace echelon
