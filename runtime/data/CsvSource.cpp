// csv tables of numbers: one header line, a sample a line. Columns are told apart by their names: those of the first
// file (from left to right) or of the spec hold for every file.
#include "runtime/data/Content.h"
#include "runtime/data/Sources.h"
#include "runtime/launch/Nearest.h"

#include <algorithm>
#include <cctype>
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
  std::vector<std::string> names; // of the columns, once a file or the spec has told them

  std::vector<std::string> columns() const override { return names; }
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

/// Whether the quotes of a line come in pairs.
bool closesQuotes(std::string_view line) { return std::count(line.begin(), line.end(), '"') % 2 == 0; }

/// A name in quotes has its own quotes doubled.
std::string unquoted(std::string_view field) {
  std::string name;
  for (size_t i = 0; i < field.size(); ++i) {
    name += field[i];
    i += field[i] == '"' && i + 1 < field.size() && field[i + 1] == '"';
  }
  return name;
}

/// The next line, whichever way lines end: "\n", "\r\n", or "\r" as on old Macs.
std::string_view takeLine(std::string_view &text) {
  const size_t end = text.find_first_of("\r\n");
  const std::string_view line = text.substr(0, end);
  const bool both = end != text.npos && text[end] == '\r' && end + 1 < text.size() && text[end + 1] == '\n';
  text.remove_prefix(end == text.npos ? text.size() : end + 1 + both);
  return line;
}

/// 1 and 0 for what pandas and others write for bools.
std::optional<double> truthOf(std::string_view field) {
  if (field == "True" || field == "true" || field == "TRUE")
    return 1;
  if (field == "False" || field == "false" || field == "FALSE")
    return 0;
  return std::nullopt;
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
  const std::optional<double> truth = truthOf(field), number = truth ? truth : numberOf(field);
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

/// A first line of numbers, or nothing, is a sample whose header is missing, but for 0, 1, 2, ….
bool checkNames(const std::vector<std::string> &names, const std::string &where, DataError &error) {
  bool anyNumber = false, anyWord = false, counted = true;
  for (size_t c = 0; c < names.size(); ++c) {
    const std::optional<double> number = numberOf(names[c]);
    anyNumber |= number.has_value();
    anyWord |= !number && !truthOf(names[c]) && !names[c].empty();
    counted = counted && number == double(c);
  }
  if (!anyNumber || anyWord || counted)
    return true;
  error.text = where + " holds numbers, and a csv file begins with a line of its columns' names; add one";
  return false;
}

/// A column that is called as an input of one column fills that one.
bool checkFilled(const std::vector<std::string> &names, const std::string &where, const OpenRequest &request,
                 const CsvSource &source, DataError &error) {
  for (size_t c = 0, input = 0; c < names.size(); ++c) {
    while (int64_t(c) >= source.firstColumn[input + 1])
      ++input;
    for (size_t other = 0; other < request.inputs.size(); ++other)
      if (other != input && names[c] == request.inputs[other].name &&
          source.firstColumn[other + 1] - source.firstColumn[other] == 1) {
        error = {
            where + ": column " + names[c] + " would fill " + request.inputs[input].name +
                ", for columns fill the inputs from left to right" + dealt(request, source) +
                "; name the inputs in the columns' order, or the columns in the inputs', as in columns = (NAME, …)",
            int(other)};
        return false;
      }
  }
  return true;
}

/// What stands between the fields of a line, where it is no comma.
std::string otherSeparator(std::string_view line) {
  for (const auto &[sign, name] : {std::pair(';', "semicolons"), {'\t', "tabs"}, {'|', "bars"}})
    if (line.find(sign) != line.npos)
      return std::string("; ") + name + " separate its fields, and csv takes commas";
  return "";
}

/// A column's name as the spec writes it.
std::string written(const std::string &name) {
  const bool isWord = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_';
  }) && !std::isdigit(static_cast<unsigned char>(name[0]));
  return isWord ? name : "\"" + name + "\"";
}

std::string counted(size_t n) { return std::to_string(n) + (n == 1 ? " column" : " columns"); }

/// Where the columns of the source are in a file whose header has the columns `found`; false, with `error` set, where
/// they cannot be found by name. `alone`: the file has no others.
bool findColumns(const std::vector<std::string> &names, const std::vector<std::string> &found, bool alone,
                 const std::string &where, std::string_view line, std::vector<size_t> &places, DataError &error) {
  places.resize(names.size());
  for (size_t i = 0; i < names.size(); ++i)
    places[i] = i;
  if (names == found)
    return true;
  const std::string first = alone ? ", which the first file has" : "";
  for (size_t i = 0; i < names.size(); ++i) {
    const auto at = std::find(found.begin(), found.end(), names[i]);
    places[i] = size_t(at - found.begin());
    if (at == found.end()) {
      const std::string near = nearest(names[i], found);
      error.text = where + " has no column " + names[i] + first +
                   (near.empty() ? otherSeparator(line) : "; did you mean " + near + "?");
      return false;
    }
    if (std::find(at + 1, found.end(), names[i]) != found.end()) {
      error.text = where + " has more than one column " + names[i] + "; columns are found by their names";
      return false;
    }
  }
  for (const std::string &name : found)
    if (alone && std::find(names.begin(), names.end(), name) == names.end()) {
      std::string listed;
      for (size_t i = 0; i < names.size() && i < 3; ++i)
        listed += (i ? ", " : "") + written(names[i]);
      error.text = where + " has a column " + name +
                   ", which the first file does not have; say which are read, as in columns = (" + listed +
                   (names.size() > 3 ? ", …)" : ")");
      return false;
    }
  return true;
}

/// Whether the file is text that a table may be.
bool checkText(const FileBytes &file, const std::string &path, DataError &error) {
  const std::string encoding = wideEncoding(file);
  if (!encoding.empty()) {
    error.text = "\"" + path + "\" is text in " + encoding + "; write it in UTF-8: iconv -f " + encoding +
                 " -t UTF-8 FILE > NEW";
    return false;
  }
  const FileContent content = contentOf(file);
  if (!content.isBinaryForm() && (content.kind != Content::Text || content.name == "text"))
    return true;
  error.text = "\"" + path + "\" looks like " + content.name + ", and csv reads text with a sample a line";
  return false;
}

/// The columns of a file, by its first line; false, with `error` set, where they do not fill the inputs.
bool readHeader(const std::vector<std::string> &found, std::string_view line, const std::string &where,
                const OpenRequest &request, CsvSource &source, std::vector<size_t> &places, DataError &error) {
  const size_t columns = size_t(source.firstColumn.back());
  const bool isFirst = source.names.empty();
  if (isFirst && found.size() != columns) {
    error.text = where + " has " + counted(found.size()) + "; the inputs take " + std::to_string(columns) +
                 dealt(request, source) + otherSeparator(line);
    if (found.size() > columns)
      error.text += "; say which are read, as in columns = (" + written(found[0]) + ", …)";
    return false;
  }
  if (!checkNames(found, where, error))
    return false;
  if (isFirst)
    source.names = found;
  const bool alone = request.spec.columns.empty() || !request.spec.args.empty();
  return findColumns(source.names, found, alone, where, line, places, error) &&
         checkFilled(source.names, where, request, source, error);
}

/// Appends the samples of one file; false, with `error` set, where it is not one.
bool readTable(const std::string &path, const OpenRequest &request, CsvSource &source, DataError &error) {
  FileBytes file;
  if (!(error.text = readFile(path, file)).empty() || !checkText(file, path, error))
    return false;
  std::string_view text(reinterpret_cast<const char *>(file.data()), file.size());
  constexpr std::string_view byteOrderMark = "\xEF\xBB\xBF";
  if (text.substr(0, byteOrderMark.size()) == byteOrderMark)
    text.remove_prefix(byteOrderMark.size());
  size_t inFile = 0;          // columns; 0: no header yet
  std::vector<size_t> places; // of the source's columns in the file
  struct Column {
    int input;
    Bounds bounds;
    std::string outside; // the place of the first number that is
  };
  std::vector<Column> columnBounds; // when the header has shown that there are so many
  for (int64_t line = 1; !text.empty(); ++line) {
    const std::string_view row = trimmed(takeLine(text));
    if (row.empty())
      continue;
    const std::vector<std::string_view> found = fields(row);
    const std::string where = "\"" + path + "\", line " + std::to_string(line);
    if (!closesQuotes(row)) {
      error.text = where + " has a quote that is not closed; a sample is one line";
      return false;
    }
    if (inFile == 0) {
      std::vector<std::string> header;
      for (std::string_view field : found)
        header.push_back(unquoted(field));
      if (!readHeader(header, row, where, request, source, places, error))
        return false;
      inFile = found.size();
      for (size_t input = 0; input < request.inputs.size(); ++input)
        for (int64_t c = source.firstColumn[input]; c < source.firstColumn[input + 1]; ++c)
          columnBounds.push_back({int(input), Bounds(request.inputs[input]), ""});
      continue;
    }
    if (found.size() != inFile) {
      error.text = where + " has " + counted(found.size()) + "; the first line names " + std::to_string(inFile) +
                   (found.size() == 1 ? otherSeparator(row) : "");
      return false;
    }
    for (size_t c = 0; c < places.size(); ++c) {
      Column &column = columnBounds[c];
      const InputShape &input = request.inputs[size_t(column.input)];
      double value = 0;
      if (!readField(found[places[c]], where + ", column " + source.names[c], input, column.input, value, error))
        return false;
      if (input.type == ElementType::Int32 && column.bounds.see(int64_t(value)))
        column.outside = where + ", column " + source.names[c];
      source.values.push_back(value);
    }
    ++source.rows;
  }
  for (const Column &column : columnBounds)
    if (!column.bounds.kept()) {
      error = {column.bounds.textOfLabels(column.outside), column.input};
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
  source->names = request.spec.columns;
  if (!source->names.empty() && int64_t(source->names.size()) != source->firstColumn.back()) {
    error.text = "columns names " + counted(source->names.size()) + "; the inputs take " +
                 std::to_string(source->firstColumn.back()) + dealt(request, *source);
    return nullptr;
  }
  for (const std::string &path : request.spec.paths)
    if (!readTable(resolvePath(path, request.folder), request, *source, error))
      return nullptr;
  if (source->rows == 0) {
    error.text = "\"" + request.spec.paths.front() +
                 "\" has no samples: nothing comes after its first line, which names the columns";
    return nullptr;
  }
  return source;
}

} // namespace echelon::runtime
