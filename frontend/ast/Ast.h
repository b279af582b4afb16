// The syntax tree of a spec: plain structs, free of the parser's and of MLIR's types.
#pragma once
#include "frontend/ast/Expr.h"
#include "frontend/ast/Machine.h"
#include "frontend/ast/Model.h"
#include "frontend/ast/Train.h"

namespace echelon::frontend {

struct File;

/// `import nn`, `import "file.ech"`
struct Import {
  std::string name;      // nn, or the path as written
  bool isLibrary = true; // by name, not by path
  SourceRange range;
  const File *file = nullptr; // null when it could not be found
};

/// One parsed source file.
struct File {
  FileId id = -1;
  std::string stem;       // `nn` of `std/nn.ech`: what its names may be qualified with
  bool isLibrary = false; // part of the compiler
  std::vector<Import> imports;
  std::vector<Block> blocks;
  std::vector<Model> models;
  std::vector<Device> devices;
  std::vector<Link> links;
  std::vector<Cluster> clusters;
  std::vector<Train> trains;
  bool broken = false; // something in it could not be read
  size_t tokens = 0;   // words, signs and comments, however many were read

  /// Whether a declaration that it would see could not be read, here or in what it imports.
  bool mayLack() const {
    bool lacks = broken;
    for (const Import &import : imports)
      lacks |= !import.file || import.file->broken;
    return lacks;
  }
};

/// A spec with all that it imports, directly or not; `files[0]` is the spec itself.
struct Program {
  std::vector<std::unique_ptr<File>> files;
  const File &main() const { return *files.front(); }
  const File *file(FileId id) const;

  /// What a path means in `from`: `name` is looked up in the file itself, then in what it imports by path;
  /// `module.name` in the import of that name. Devices and links of `import NAME` are known without the module's name,
  /// too. Null: unknown.
  const Block *findBlock(const File &from, const Path &path) const;
  const Model *findModel(const File &from, const Path &path) const;
  const Device *findDevice(const File &from, const Path &path) const;
  const Link *findLink(const File &from, const Path &path) const;
  const Cluster *findCluster(const File &from, const Path &path) const;
  const Train *findTrain(const std::string &name) const;
  /// "a.ech and b.ech both have …": what to say where `path` means declarations of two imports in `from`; else empty.
  /// `list` is one of File's, as &File::blocks.
  template <typename T> std::string ambiguity(const File &from, const Path &path, std::vector<T> File::*list) const;

  /// Every spelling that `findBlock` would know in `from`: for did-you-mean.
  std::vector<std::string> blockNames(const File &from) const;
  std::vector<std::string> modelNames(const File &from) const;
  std::vector<std::string> clusterNames(const File &from) const;
  std::vector<std::string> deviceNames(const File &from) const;
  std::vector<std::string> linkNames(const File &from) const;
};

} // namespace echelon::frontend
