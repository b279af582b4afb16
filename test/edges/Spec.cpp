// The spec of a family and the data that it reads.
#include "test/edges/Program.h"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace echelon::edges {

int64_t product(const Family &family, const std::vector<std::string> &axes) {
  int64_t n = 1;
  for (const std::string &axis : axes)
    n *= family.sizes.at(axis);
  return n;
}
std::string own(const Case &c, std::string text) {
  for (size_t at; (at = text.find('$')) != std::string::npos;)
    text.replace(at, 1, c.name + "_");
  return text;
}
double valueOf(const Input &input, int64_t i) { return input.values[i % input.values.size()]; }

double weightOf(int64_t i) { return (i * 7 % 5 < 2 ? -1 : 1) * (0.5 + double(i * 37 % 8) / 8); }

namespace {

std::string joined(const std::vector<std::string> &names, const char *between = ", ") {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : between) + name;
  return text;
}

void writeNpy(const std::string &path, Kind kind, int64_t rows, const std::vector<int64_t> &sizes,
              const std::function<double(int64_t)> &at) {
  int64_t count = rows;
  std::string shape = std::to_string(rows) + ", ";
  for (int64_t size : sizes) {
    shape += std::to_string(size) + ", ";
    count *= size;
  }
  const char *type = kind == Kind::Real ? "<f8" : kind == Kind::Bool ? "|b1" : "<i4";
  std::string header = std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(127 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00", 8) << char(header.size() & 255) << char(header.size() >> 8) << header;
  for (int64_t i = 0; i < count; ++i) {
    const double v = at(i);
    const int32_t whole = int32_t(v);
    const char truth = v != 0;
    if (kind == Kind::Real)
      file.write(reinterpret_cast<const char *>(&v), 8);
    else if (kind == Kind::Bool)
      file.write(&truth, 1);
    else
      file.write(reinterpret_cast<const char *>(&whole), 4);
  }
}

struct Writer {
  const Family &family;
  const std::string &folder;
  std::vector<std::string> files, names;

  void input(const std::string &name, const std::vector<std::string> &axes, Kind kind,
             const std::function<double(int64_t)> &at) {
    std::vector<int64_t> sizes;
    for (const std::string &axis : axes)
      sizes.push_back(family.sizes.at(axis));
    writeNpy(folder + "/" + name + ".npy", kind, family.rows, sizes, at);
    files.push_back("\"" + name + ".npy\"");
    names.push_back(name);
  }
  std::string declare(const Case &c, const Input &in) {
    const std::string name = own(c, "$" + in.name), axes = in.axes.empty() ? "" : ", " + joined(in.axes);
    const bool real = in.kind == Kind::Real;
    input(real ? name + "_in" : name, in.axes, in.kind, [&](int64_t i) { return valueOf(in, i); });
    if (!real)
      return "  input " + name + "[batch" + axes + "] : " + (in.kind == Kind::Bool ? "bool" : "int below " + in.below) +
             "\n";
    if (!c.hasDerivative)
      return "  input " + name + "_in[batch" + axes + "] : float\n  " + name + " = " + name + "_in\n";
    return "  input " + name + "_in[batch" + axes + "] : float\n  param " + name + "_d[row" + axes + "] ~ zeros\n  " +
           name + " = " + name + "_in + " + name + "_d[row = id]\n";
  }
  std::string statementsOf(const Case &c) {
    std::string text, axes = c.axes.empty() ? "" : ", " + joined(c.axes), y = own(c, "$y");
    for (const Input &in : c.inputs)
      text += declare(c, in);
    std::istringstream lines(own(c, c.text));
    for (std::string line; std::getline(lines, line);)
      text += "  " + line + "\n";
    if (c.isPerSample)
      text += "  state " + y + "_out[row" + axes + "] = 0\n  next " + y +
              "_out = sum(outer(where(outer(id == " + "index(row)), 1.0 * " + y + ", 0)), over = batch)\n";
    else
      text += "  state " + y + "_out[" + joined(c.axes) + "] = 0\n  next " + y + "_out = 1.0 * " + y + "\n";
    if (!c.hasDerivative && !c.isEvaluated)
      return text;
    const std::string weights = own(c, "$weights");
    input(weights, c.axes, Kind::Real, weightOf);
    text += "  input " + weights + "[batch" + axes + "] : float\n";
    const std::string value =
        c.isPerSample ? "sum(" + y + " * " + weights + ")" : "sum(" + y + " * max(" + weights + ", over = batch))";
    if (c.hasDerivative)
      text += "  loss " + own(c, "$loss") + " = " + value + "\n";
    if (c.isEvaluated)
      text += "  metric " + own(c, "$metric") + " = " + value + "\n";
    return text;
  }
  std::string spec() {
    bool evaluates = false, derives = false;
    std::string body;
    input("id", {}, Kind::Int, [&](int64_t i) { return double(i); });
    for (const Case &c : family.cases) {
      body += statementsOf(c);
      evaluates |= c.isEvaluated;
      derives |= c.hasDerivative;
    }
    if (!derives) // there is something to train
      body += "  param none[row] ~ zeros\n  loss sum(none)\n";
    const std::string data = "npy(" + joined(files) + ")", rows = std::to_string(family.rows);
    return "import nn\nmodel Edges() {\n  axis batch\n  axis row = " + rows + "\n" + family.axes +
           "  input id[batch] : int below row\n" + body + "}\ncluster here = local(ranks = 4)\ntrain edges {\n" +
           "  model Edges()\n  on here\n  data " + data + " -> " + joined(names) + "\n  batch " + rows +
           "\n  steps 1\n  optimize sgd(lr = 1)\n" +
           (evaluates ? "  evaluate held on " + data + " every 1 steps\n" : "") + "}\n";
  }
};

} // namespace

std::string writeSpec(const Family &family, const std::string &folder) {
  Writer writer{family, folder, {}, {}};
  return writer.spec();
}

} // namespace echelon::edges
