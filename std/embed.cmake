# Writes OUTPUT, which holds the text of FILES: cmake -DOUTPUT=… "-DFILES=a.ech;b.ech" -P embed.cmake
set(table "")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND table "    {\"${name}\", R\"ech(${text})ech\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by std/embed.cmake.
#include \"std/Library.h\"
#include <map>

namespace echelon::frontend {

static const std::map<std::string, const char *> texts = {
${table}};

const char *libraryText(const std::string &name) {
  auto it = texts.find(name);
  return it == texts.end() ? nullptr : it->second;
}

std::vector<std::string> libraryNames() {
  std::vector<std::string> names;
  for (const auto &entry : texts)
    names.push_back(entry.first);
  return names;
}

} // namespace echelon::frontend
")
