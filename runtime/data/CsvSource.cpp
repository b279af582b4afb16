// csv tables of numbers: one header line, a sample a line, columns from left to right.
#include "runtime/data/File.h"
#include "runtime/data/Sources.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace echelon::runtime {

namespace {

class CsvSource : public DataSource {
public:
  std::vector<double> values;             // (rows, columns)
  std::vector<int64_t> firstColumn = {0}; // of each output, then all columns
  int64_t rows = 0;

  int64_t size(Part part) const override { return part == Part::Training ? rows : 0; }
  void read(Part, int64_t sample, int output, double *out) const override {
    const int64_t first = firstColumn[size_t(output)], last = firstColumn[size_t(output) + 1];
    const double *row = values.data() + sample * firstColumn.back();
    for (int64_t c = first; c < last; ++c)
      out[c - first] = row[c];
  }
  void addOutput(const std::vector<int64_t> &dims, ElementType type) {
    firstColumn.push_back(firstColumn.back() + countOf(dims));
    outputShapes.push_back({dims, type});
  }
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

/// The fields of a line, quotes taken off; a comma inside quotes belongs to its field.
std::vector<std::string_view> fields(std::string_view line) {
  std::vector<std::string_view> result;
  size_t start = 0;
  bool quoted = false;
  for (size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"')
      quoted = !quoted;
    if (i < line.size() && (line[i] != ',' || quoted))
      continue;
    std::string_view field = trimmed(line.substr(start, i - start));
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"')
      field = field.substr(1, field.size() - 2);
    result.push_back(field);
    start = i + 1;
  }
  return result;
}

/// The number that a field is: infinite where it is beyond what a double holds. Words, "inf" and "nan" among them, are
/// none.
std::optional<double> numberOf(std::string_view field) {
  if (field.find_first_of("iInN") != field.npos)
    return std::nullopt;
  if (field.size() > 1 && field[0] == '+' && field[1] != '-')
    field.remove_prefix(1);
  double value = 0;
  const char *end = field.data() + field.size();
  const auto parsed = std::from_chars(field.data(), end, value);
  if (parsed.ptr != end || parsed.ec == std::errc::invalid_argument)
    return std::nullopt;
  if (parsed.ec == std::errc::result_out_of_range) // nearer to 0, or further from it, than any double
    return std::strtod(std::string(field).c_str(), nullptr);
  return value;
}

/// The number that a field is for an input; false, with `error` set, where it is none.
bool readField(std::string_view field, const std::string &place, const InputShape &shape, int input, double &value,
               DataError &error) {
  const std::string text(field);
  const std::optional<double> number = numberOf(field);
  const bool whole = shape.type == ElementType::Int32 || shape.type == ElementType::UInt8;
  value = number.value_or(0);
  if (std::isinf(value))
    error = {place + ": " + text + " is beyond what a double holds", input};
  else if (!number)
    error = {place + (text.empty() ? " is empty; each field is a number" : ": \"" + text + "\" is not a number"),
             input};
  else if (isBeyond(shape, value))
    error = {place + ": " + text +
                 " is beyond what fp32 holds, 3.4e38; rescale the column, or train under precision fp64",
             input};
  else if (whole && (value != std::floor(value) || std::fabs(value) > 1e15))
    error = {place + ": " + text + " is no integer, " + shape.name + " is " + nameOf(shape.type), input};
  else if (shape.type == ElementType::UInt8 && value != 0 && value != 1)
    error = {place + ": " + text + " is neither 0 nor 1, " + shape.name + " is bool", input};
  else
    return true;
  return false;
}

/// How the columns are dealt out: ": facts 3, price 1".
std::string dealt(const OpenRequest &request, const CsvSource &source) {
  std::string text;
  for (size_t i = 0; i < request.inputs.size(); ++i)
    text += (i ? ", " : ": ") + request.inputs[i].name + " " +
            std::to_string(source.firstColumn[i + 1] - source.firstColumn[i]);
  return text;
}

/// A first line of numbers, or nothing, is a sample whose header is missing, but for 0, 1, 2, …; and a column that is
/// called as an input of one column fills that one.
bool checkHeader(const std::vector<std::string> &names, const std::string &where, const OpenRequest &request,
                 const CsvSource &source, DataError &error) {
  bool anyNumber = false, anyWord = false, counted = true;
  for (size_t c = 0; c < names.size(); ++c) {
    const std::optional<double> number = numberOf(names[c]);
    anyNumber |= number.has_value();
    anyWord |= !number && !names[c].empty();
    counted = counted && number == double(c);
  }
  if (anyNumber && !anyWord && !counted) {
    error.text = where + " holds numbers, and a csv file begins with a line of its columns' names; add one";
    return false;
  }
  for (size_t c = 0, input = 0; c < names.size(); ++c) {
    while (int64_t(c) >= source.firstColumn[input + 1])
      ++input;
    for (size_t other = 0; other < request.inputs.size(); ++other)
      if (other != input && names[c] == request.inputs[other].name &&
          source.firstColumn[other + 1] - source.firstColumn[other] == 1) {
        error = {where + ": column " + names[c] + " would fill " + request.inputs[input].name +
                     ", for columns fill the inputs from left to right" + dealt(request, source) +
                     "; name the inputs in the columns' order",
                 int(other)};
        return false;
      }
  }
  return true;
}

/// Appends the samples of one file; false, with `error` set, where it is not one.
bool readTable(const std::string &path, const OpenRequest &request, CsvSource &source, DataError &error) {
  FileBytes file;
  if (!(error.text = readFile(path, file)).empty())
    return false;
  const int64_t columns = source.firstColumn.back();
  std::string_view text(reinterpret_cast<const char *>(file.data()), file.size());
  constexpr std::string_view byteOrderMark = "\xEF\xBB\xBF";
  if (text.substr(0, byteOrderMark.size()) == byteOrderMark)
    text.remove_prefix(byteOrderMark.size());
  std::vector<std::string> names;
  struct Column {
    int input;
    Bounds bounds;
    std::string outside; // the place of the first number that is
  };
  std::vector<Column> columnBounds; // when the header has shown that there are so many
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    const std::string_view row = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (row.empty())
      continue;
    const std::vector<std::string_view> found = fields(row);
    const std::string where = "\"" + path + "\", line " + std::to_string(line);
    if (int64_t(found.size()) != columns) {
      error.text = where + " has " + std::to_string(found.size()) + (found.size() == 1 ? " column" : " columns") +
                   "; the inputs take " + std::to_string(columns) + dealt(request, source) +
                   (row.find(';') != row.npos || row.find('\t') != row.npos ? "; commas separate fields" : "");
      return false;
    }
    if (names.empty()) {
      names.assign(found.begin(), found.end());
      if (!checkHeader(names, where, request, source, error))
        return false;
      for (size_t input = 0; input < request.inputs.size(); ++input)
        for (int64_t c = source.firstColumn[input]; c < source.firstColumn[input + 1]; ++c)
          columnBounds.push_back({int(input), Bounds(request.inputs[input]), ""});
      continue;
    }
    for (size_t c = 0; c < found.size(); ++c) {
      Column &column = columnBounds[c];
      const InputShape &input = request.inputs[size_t(column.input)];
      double value = 0;
      if (!readField(found[c], where + ", column " + names[c], input, column.input, value, error))
        return false;
      if (input.type == ElementType::Int32 && column.bounds.see(int64_t(value)))
        column.outside = where + ", column " + names[c];
      source.values.push_back(value);
    }
    ++source.rows;
  }
  for (const Column &column : columnBounds)
    if (!column.bounds.kept()) {
      error = {column.bounds.text(column.outside), column.input};
      return false;
    }
  return true;
}

} // namespace

std::unique_ptr<DataSource> openCsv(const OpenRequest &request, DataError &error) {
  if (request.inputs.empty()) {
    error.text = "csv needs inputs that its columns fill";
    return nullptr;
  }
  auto source = std::make_unique<CsvSource>();
  for (const InputShape &input : request.inputs)
    source->addOutput(input.dims, input.type);
  for (const std::string &path : request.spec.paths)
    if (!readTable(resolvePath(path, request.folder), request, *source, error))
      return nullptr;
  if (source->rows == 0) {
    error.text = "\"" + request.spec.paths.front() +
                 "\" has no samples: nothing stands behind its first line, which names the columns";
    return nullptr;
  }
  return source;
}

} // namespace echelon::runtime
