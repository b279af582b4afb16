// A spec and what it imports: finding, reading, and looking names up across files.
#include "frontend/Parse.h"
#include "frontend/parse/Tokens.h"
#include "frontend/resolve/Machines.h"
#include "std/Library.h"
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <type_traits>

namespace echelon::frontend {

namespace {
constexpr size_t maximalImportNesting = 64;

std::string folderOf(const std::string &path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string stemOf(const std::string &name) { return std::filesystem::path(name).stem().string(); }

class Loader {
public:
  Loader(SourceManager &sources, Diagnostics &diagnostics) : sources(sources), diagnostics(diagnostics) {}

  std::unique_ptr<Program> load(FileId id) {
    auto main = parse(sources, id, diagnostics);
    if (!main)
      return nullptr;
    bytes = sources.text(id).size();
    tokens = main->tokens;
    add(std::move(main), canonical(sources.path(id)));
    checkMachines(*program, diagnostics);
    return std::move(program);
  }

private:
  // Takes a parsed file in and loads its imports, depth first. `key` is its canonical path, or <nn> for the library.
  File *add(std::unique_ptr<File> parsed, const std::string &key) {
    File *file = parsed.get();
    file->stem = file->isLibrary ? key.substr(1, key.size() - 2) : stemOf(sources.path(file->id));
    known[key] = file;
    program->files.push_back(std::move(parsed));
    open.push_back(key);
    for (Import &import : file->imports)
      import.file = follow(import, *file);
    open.pop_back();
    checkTwice(*file);
    return file;
  }

  static std::string canonical(const std::string &key) {
    std::error_code error;
    std::string path = std::filesystem::weakly_canonical(key, error).string();
    return key.front() == '<' || error ? key : path;
  }

  const File *follow(const Import &import, const File &from) {
    const char *text = nullptr;
    std::string key;
    if (import.isLibrary) {
      text = libraryText(import.name);
      key = "<" + import.name + ">";
      if (!text) {
        std::string hint = didYouMean(import.name, libraryNames());
        diagnostics.error(Code::E0101, import.range,
                          "the library has no '" + escaped(import.name) + "'" +
                              (hint.empty() ? "; it has " + listed(libraryNames()) : hint));
        return nullptr;
      }
    } else if (import.name.empty()) {
      diagnostics.error(Code::E0101, import.range, "an import names a file, as in import \"layers.ech\"");
      return nullptr;
    } else {
      key = (std::filesystem::path(folderOf(sources.path(from.id))) / import.name).lexically_normal().string();
    }
    std::string whole = canonical(key);
    for (const std::string &above : open)
      if (above == whole) {
        diagnostics.error(Code::E0102, import.range,
                          above == open.back()
                              ? "the file imports itself"
                              : "'" + escaped(import.name) + "' imports this file, directly or not; a cycle");
        return nullptr;
      }
    if (auto it = known.find(whole); it != known.end())
      return it->second;
    if (open.size() > maximalImportNesting) {
      diagnostics.error(Code::E0702, import.range,
                        "imports nest more than " + std::to_string(maximalImportNesting) +
                            " deep; let one file import the others");
      return nullptr;
    }
    if (full()) // that is told
      return nullptr;
    FileId id;
    if (text) {
      id = sources.add("<" + import.name + ".ech>", text);
    } else {
      std::string why;
      std::error_code none;
      const auto type = std::filesystem::status(key, none).type();
      const bool isFile = type == std::filesystem::file_type::regular ||
                          type == std::filesystem::file_type::directory ||
                          type == std::filesystem::file_type::not_found || none;
      id = isFile ? sources.read(key, why) : -1; // a pipe would be waited for
      if (!isFile)
        why = "it is no file";
      if (id < 0) {
        bool ofLibrary = libraryText(import.name) != nullptr;
        diagnostics.error(Code::E0101, import.range,
                          "cannot read '" + escaped(key) + "': " + why +
                              (ofLibrary ? "; the library's is written without quotes: import " + import.name : ""));
        return nullptr;
      }
    }
    auto parsed = parse(sources, id, diagnostics, import.range);
    if (!text) {
      bytes += sources.text(id).size();
      tokens += parsed ? parsed->tokens : 0;
      if (parsed && full() && parsed->tokens <= maximalTokens)
        diagnostics.error(Code::E0701, import.range,
                          "with " + quoted(import.name) + " the spec and what it imports have more than " +
                              std::to_string(maximalFileBytes >> 20) + " MiB, or more than " +
                              std::to_string(maximalTokens) + " words, signs and comments");
    }
    if (!parsed || full())
      return nullptr;
    parsed->isLibrary = text != nullptr;
    return add(std::move(parsed), whole);
  }

  // Whether the spec and all that was read for it are as large as that may be; nothing more is read then.
  bool full() const { return bytes > maximalFileBytes || tokens > maximalTokens; }

  template <typename T> void checkTwice(const std::vector<T> &list, const char *what) {
    std::map<std::string, const T *> seen;
    for (const T &declaration : list) {
      auto [it, fresh] = seen.emplace(declaration.name.text, &declaration);
      if (!fresh)
        diagnostics
            .error(Code::E0103, declaration.name.range,
                   std::string(what) + " '" + declaration.name.text + "' is declared twice")
            .note(it->second->name.range, "it is declared here first");
    }
  }

  void checkTwice(const File &file) {
    checkTwice(file.blocks, "block");
    checkTwice(file.models, "model");
    checkTwice(file.devices, "device");
    checkTwice(file.links, "link");
    checkTwice(file.clusters, "cluster");
    checkTwice(file.trains, "train block");
  }

  SourceManager &sources;
  Diagnostics &diagnostics;
  std::unique_ptr<Program> program = std::make_unique<Program>();
  std::map<std::string, File *> known;
  std::vector<std::string> open; // the chain of imports being followed
  size_t bytes = 0, tokens = 0;  // of the files read, but for the library's
};

template <typename T> const T *named(const std::vector<T> &list, const std::string &name) {
  for (const T &declaration : list)
    if (declaration.name.text == name)
      return &declaration;
  return nullptr;
}

// Every declaration that a path means in `from`, with the import that brings it; null for the file's own, which is
// alone then. `bare`: library declarations are known without the module's name.
template <typename T>
std::vector<std::pair<const T *, const Import *>> meanings(const File &from, const Path &path,
                                                           std::vector<T> File::*list, bool bare) {
  if (path.parts.empty() || path.parts.size() > 2)
    return {};
  const std::string &name = path.last().text;
  // In the library, too, blocks go by the module's name: nn.attention calls the built-in attention.
  const bool ownKnown = path.single() ? bare || !from.isLibrary : from.stem == path.parts[0].text;
  if (const T *own = ownKnown ? named(from.*list, name) : nullptr)
    return {{own, nullptr}};
  std::vector<std::pair<const T *, const Import *>> found;
  for (const Import &import : from.imports) {
    if (!import.file || (path.single() ? !bare && import.isLibrary : import.file->stem != path.parts[0].text))
      continue;
    const T *other = named(import.file->*list, name);
    if (other && (found.empty() || found.front().first != other)) // a file may be imported twice
      found.push_back({other, &import});
  }
  return found;
}

template <typename T> const T *find(const File &from, const Path &path, std::vector<T> File::*list, bool bare) {
  const auto all = meanings(from, path, list, bare);
  return all.empty() ? nullptr : all.front().first;
}

template <typename T> std::vector<std::string> spellings(const File &from, std::vector<T> File::*list, bool bare) {
  std::vector<std::string> out;
  for (const T &own : from.*list)
    out.push_back((bare || !from.isLibrary ? "" : from.stem + ".") + own.name.text);
  for (const Import &import : from.imports)
    if (import.file)
      for (const T &other : import.file->*list)
        out.push_back((bare || !import.isLibrary ? "" : import.file->stem + ".") + other.name.text);
  std::sort(out.begin(), out.end()); // what two imports have is one spelling
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}
} // namespace

std::unique_ptr<Program> parseProgram(SourceManager &sources, const std::string &path,
                                      Diagnostics &diagnostics) noexcept {
  std::string why;
  FileId id = sources.read(path, why);
  if (id < 0) {
    diagnostics.error(Code::E0101, {}, "cannot read '" + escaped(path) + "': " + why);
    return nullptr;
  }
  return parseProgram(sources, id, diagnostics);
}

std::unique_ptr<Program> parseProgram(SourceManager &sources, FileId file, Diagnostics &diagnostics) noexcept {
  try {
    return Loader(sources, diagnostics).load(file);
  } catch (const std::exception &e) {
    diagnostics.error(Code::E0799, {},
                      "internal error while loading: " + escaped(e.what()) + "; please report it with the file");
    return nullptr;
  }
}

const File *Program::file(FileId id) const {
  for (const auto &f : files)
    if (f->id == id)
      return f.get();
  return nullptr;
}

const Block *Program::findBlock(const File &from, const Path &path) const {
  return find(from, path, &File::blocks, false);
}
const Model *Program::findModel(const File &from, const Path &path) const {
  return find(from, path, &File::models, true);
}
const Device *Program::findDevice(const File &from, const Path &path) const {
  return find(from, path, &File::devices, true);
}
const Link *Program::findLink(const File &from, const Path &path) const { return find(from, path, &File::links, true); }
const Cluster *Program::findCluster(const File &from, const Path &path) const {
  return find(from, path, &File::clusters, true);
}
const Train *Program::findTrain(const std::string &name) const { return named(main().trains, name); }

template <typename T>
std::string Program::ambiguity(const File &from, const Path &path, std::vector<T> File::*list) const {
  const auto all = meanings(from, path, list, /*bare=*/!std::is_same_v<T, Block>);
  if (all.size() < 2)
    return "";
  const Import &first = *all[0].second, &second = *all[1].second;
  const std::string name = path.last().text, ofFirst = first.file->stem + "." + name,
                    ofSecond = second.file->stem + "." + name;
  const bool canBeTold = ofFirst != ofSecond && isName(first.file->stem) && isName(second.file->stem);
  return quoted(first.name) + " and " + quoted(second.name) + " both have " + name +
         (canBeTold ? "; write " + ofFirst + " or " + ofSecond
                    : "; rename the files so that a path says which is meant, as in first." + name);
}
template std::string Program::ambiguity(const File &, const Path &, std::vector<Block> File::*) const;
template std::string Program::ambiguity(const File &, const Path &, std::vector<Model> File::*) const;
template std::string Program::ambiguity(const File &, const Path &, std::vector<Device> File::*) const;
template std::string Program::ambiguity(const File &, const Path &, std::vector<Link> File::*) const;
template std::string Program::ambiguity(const File &, const Path &, std::vector<Cluster> File::*) const;

std::vector<std::string> Program::blockNames(const File &from) const { return spellings(from, &File::blocks, false); }
std::vector<std::string> Program::modelNames(const File &from) const { return spellings(from, &File::models, true); }
std::vector<std::string> Program::deviceNames(const File &from) const { return spellings(from, &File::devices, true); }
std::vector<std::string> Program::linkNames(const File &from) const { return spellings(from, &File::links, true); }
std::vector<std::string> Program::clusterNames(const File &from) const {
  return spellings(from, &File::clusters, true);
}

} // namespace echelon::frontend
