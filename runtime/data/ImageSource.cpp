// mnist (idx files; Y. LeCun, C. Cortes, C. Burges) and cifar10 (the binary version; A. Krizhevsky, 2009).
#include "runtime/data/Content.h"
#include "runtime/data/File.h"
#include "runtime/data/Sources.h"

#include <algorithm>
#include <cstdio>
#include <initializer_list>

namespace echelon::runtime {

namespace {

bool contains(const std::string &name, std::initializer_list<const char *> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char *word) { return name.find(word) != std::string::npos; });
}

/// Whether `name` is the packed form of a file that is there too.
bool isPackedTwin(const std::string &name, const std::vector<std::string> &names) {
  return name.size() > 3 && name.compare(name.size() - 3, 3, ".gz") == 0 &&
         std::binary_search(names.begin(), names.end(), name.substr(0, name.size() - 3));
}

std::string listText(const std::vector<std::string> &names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 8; ++i)
    text += (i ? ", " : "") + names[i];
  return names.empty() ? "no file" : names.size() > 8 ? text + ", …" : text;
}

/// Checks what both sources give, an image and a label, against the inputs.
bool checkImageInputs(const OpenRequest &request, const std::vector<OutputShape> &outputs, DataError &error) {
  for (size_t i = 0; i < request.inputs.size() && i < outputs.size(); ++i)
    if (request.inputs[i].dims != outputs[i].dims) {
      error = {request.spec.kind + " gives " + (i ? "labels " : "images ") + dimsText(outputs[i].dims) + ", " +
                   request.inputs[i].name + " is " + dimsText(request.inputs[i].dims),
               int(i)};
      return false;
    }
  return true;
}

/// Checks the labels of a file, `count` bytes `stride` apart.
bool checkLabels(const OpenRequest &request, const uint8_t *labels, int64_t count, int64_t stride,
                 const std::string &path, DataError &error) {
  if (request.inputs.size() < 2)
    return true;
  Bounds bounds(request.inputs[1]);
  int64_t first = 0;
  for (int64_t i = 0; i < count; ++i)
    if (bounds.see(labels[i * stride]))
      first = i;
  if (!bounds.kept())
    error = {bounds.textOfLabels("label " + std::to_string(first) + " of \"" + path + "\""), 1};
  return bounds.kept();
}

// ---------------------------------------------------------------- mnist

uint32_t bigEndian(const uint8_t *p) {
  return uint32_t(p[0]) << 24 | uint32_t(p[1]) << 16 | uint32_t(p[2]) << 8 | p[3];
}

/// The sizes of an idx file of bytes; empty where it is none.
std::vector<int64_t> idxSizes(const FileBytes &file) {
  std::vector<int64_t> sizes;
  if (file.size() < 8 || file.data()[0] || file.data()[1] || file.data()[2] != 8)
    return sizes;
  const size_t rank = file.data()[3];
  for (size_t i = 0; i < rank && 4 * i + 8 <= file.size(); ++i)
    sizes.push_back(bigEndian(file.data() + 4 + 4 * i));
  if (sizes.size() != rank)
    sizes.clear();
  return sizes;
}

class MnistSource : public DataSource {
public:
  struct Set {
    FileBytes images, labels;
    int64_t count = 0;
  } sets[2];
  int64_t pixels = 0;

  int64_t size(Part part) const override { return sets[part == Part::HeldOut].count; }
  void read(Part part, int64_t sample, int output, double *values) const override {
    const Set &set = sets[part == Part::HeldOut];
    if (output == 1) {
      *values = set.labels.data()[8 + sample];
      return;
    }
    const uint8_t *image = set.images.data() + 16 + sample * pixels;
    for (int64_t i = 0; i < pixels; ++i)
      values[i] = image[i] / 255.0;
  }
  void setOutputs(int64_t rows, int64_t columns) {
    pixels = rows * columns;
    outputShapes = {{{rows, columns}, ElementType::Float32, 0, 1}, {{}, ElementType::Int32}};
  }
};

/// What the numbers of an idx file are, by its third byte; null: it is no idx file.
const char *idxType(const FileBytes &file) {
  if (file.size() < 8 || file.data()[0] || file.data()[1])
    return nullptr;
  switch (file.data()[2]) {
  case 0x08:
    return "unsigned bytes";
  case 0x09:
    return "signed bytes";
  case 0x0b:
    return "integers of 16 bits";
  case 0x0c:
    return "integers of 32 bits";
  case 0x0d:
    return "float32";
  case 0x0e:
    return "float64";
  }
  return nullptr;
}

/// Why a file that is called as one of a part is none of its two, or is not needed.
std::string whyNot(const FileBytes &head, const std::string &path) {
  const char *type = idxType(head);
  const std::string file = "\"" + path + "\"";
  if (!type)
    return file + " is no idx file" + looksLike(head);
  char byte[8];
  std::snprintf(byte, sizeof(byte), "0x%02x", head.data()[2]);
  if (head.data()[2] != 8)
    return file + " holds " + type + ", by its type byte " + byte + ", where unsigned bytes have 0x08";
  return file + " has " + std::to_string(head.data()[3]) + " dimensions";
}

/// The two files of a part, and the sizes that their headers tell.
struct IdxPair {
  std::string imagesPath, labelsPath;
  std::vector<int64_t> imageSizes, labelSizes;
  bool imagesPacked = false;
};

/// Finds the first file of three dimensions and the first of one among those named after the part; an error message
/// where there are none.
std::string findPair(const std::string &folder, const std::vector<std::string> &names, Part part, IdxPair &pair) {
  const bool test = part == Part::HeldOut;
  std::string passedBy; // the first file of the name that is not taken
  for (const std::string &name : names) {
    const bool heldOut = contains(name, {"t10k", "test"});
    if (heldOut != test || !(heldOut || contains(name, {"train"})) || isPackedTwin(name, names))
      continue;
    FileBytes head;
    const std::string path = folder + "/" + name, error = readFile(path, head, 16);
    if (!error.empty())
      return error;
    const std::vector<int64_t> sizes = idxSizes(head);
    if (sizes.size() == 3 && pair.imagesPath.empty()) {
      pair.imagesPath = path;
      pair.imageSizes = sizes;
      pair.imagesPacked = head.isUnpacked();
    } else if (sizes.size() == 1 && pair.labelsPath.empty()) {
      pair.labelsPath = path;
      pair.labelSizes = sizes;
    } else if (passedBy.empty()) {
      passedBy = whyNot(head, path);
    }
  }
  const bool noImages = pair.imagesPath.empty();
  if (!noImages && !pair.labelsPath.empty())
    return "";
  return "mnist: no " + std::string(test ? "test " : "training ") + (noImages ? "images" : "labels") + " in \"" +
         folder + "\"; looked for an idx file of bytes in " + (noImages ? "three dimensions" : "one dimension") +
         ", packed or not, with " + (test ? "t10k or test" : "train") + " in its name; " +
         (passedBy.empty() ? "the folder has " + listText(names) : passedBy);
}

/// Reads the labels and the images, which must be as long as their headers say; packed images only where asked to, the
/// others are no more than mapped.
std::string readPair(const IdxPair &pair, bool load, MnistSource::Set &set) {
  const bool readsImages = load || !pair.imagesPacked;
  std::string error = readFile(pair.labelsPath, set.labels);
  if (error.empty() && readsImages)
    error = readFile(pair.imagesPath, set.images);
  if (!error.empty())
    return error;
  const std::vector<int64_t> &sizes = pair.imageSizes;
  int64_t pixels, bytes; // sizes have 32 bits each
  const bool labelsCut = int64_t(set.labels.size()) < 8 + sizes[0];
  const bool imagesCut = __builtin_mul_overflow(sizes[1], sizes[2], &pixels) ||
                         __builtin_mul_overflow(sizes[0], pixels, &bytes) ||
                         (readsImages && int64_t(set.images.size()) - 16 < bytes);
  if (labelsCut || imagesCut)
    return "mnist: \"" + (labelsCut ? pair.labelsPath : pair.imagesPath) +
           "\" is shorter than its header says; it may not have been copied whole";
  set.count = sizes[0];
  return "";
}

} // namespace

std::unique_ptr<DataSource> openMnist(const OpenRequest &request, DataError &error) {
  const std::string folder = resolvePath(request.spec.paths.at(0), request.folder);
  std::vector<std::string> names;
  if (!(error.text = listFolder(folder, names)).empty())
    return nullptr;
  auto source = std::make_unique<MnistSource>();
  std::vector<int64_t> image; // rows, columns
  for (Part part : {Part::Training, Part::HeldOut}) {
    MnistSource::Set &set = source->sets[part == Part::HeldOut];
    IdxPair pair;
    if (!(error.text = findPair(folder, names, part, pair)).empty())
      return nullptr;
    const std::vector<int64_t> own(pair.imageSizes.begin() + 1, pair.imageSizes.end());
    if (pair.labelSizes[0] != pair.imageSizes[0] || (!image.empty() && own != image)) {
      error.text = "mnist: \"" + pair.imagesPath + "\" has " + dimsText(pair.imageSizes) + " pixels, \"" +
                   pair.labelsPath + "\" has " + std::to_string(pair.labelSizes[0]) + " labels; each picture has one";
      return nullptr;
    }
    image = own;
    if (!(error.text = readPair(pair, request.load, set)).empty())
      return nullptr;
    if (!checkLabels(request, set.labels.data() + 8, set.count, 1, pair.labelsPath, error))
      return nullptr;
  }
  source->setOutputs(image[0], image[1]);
  return checkImageInputs(request, source->outputs(), error) ? std::move(source) : nullptr;
}

// ---------------------------------------------------------------- cifar10

namespace {

class CifarSource : public DataSource {
public:
  static constexpr int64_t kPixels = 3 * 32 * 32, kRecord = 1 + kPixels; // bytes: a label, then the image
  struct Set {
    std::vector<FileBytes> files;
    std::vector<int64_t> counts; // of records, file by file
    int64_t size = 0;            // of all of them
  } sets[2];

  CifarSource() { outputShapes = {{{3, 32, 32}, ElementType::Float32, 1, 2, 0}, {{}, ElementType::Int32}}; }
  int64_t size(Part part) const override { return sets[part == Part::HeldOut].size; }
  void read(Part part, int64_t sample, int output, double *values) const override {
    const Set &set = sets[part == Part::HeldOut];
    size_t file = 0;
    while (sample >= set.counts[file])
      sample -= set.counts[file++];
    const uint8_t *record = set.files[file].data() + sample * kRecord;
    if (output == 1) {
      *values = record[0];
      return;
    }
    for (int64_t i = 0; i < kPixels; ++i)
      values[i] = record[1 + i] / 255.0;
  }
};

} // namespace

std::unique_ptr<DataSource> openCifar10(const OpenRequest &request, DataError &error) {
  const std::string folder = resolvePath(request.spec.paths.at(0), request.folder);
  std::vector<std::string> names;
  if (!(error.text = listFolder(folder, names)).empty())
    return nullptr;
  auto source = std::make_unique<CifarSource>();
  if (!checkImageInputs(request, source->outputs(), error))
    return nullptr;
  for (int part = 0; part < 2; ++part) {
    CifarSource::Set &set = source->sets[part];
    for (const std::string &name : names) {
      const bool heldOut = contains(name, {"test"});
      if (heldOut != (part == 1) || !(heldOut || contains(name, {"data_batch", "train"})) || isPackedTwin(name, names))
        continue;
      const std::string path = folder + "/" + name;
      FileBytes file;
      if (!(error.text = readFile(path, file)).empty())
        return nullptr;
      if (file.size() == 0 || file.size() % CifarSource::kRecord != 0) {
        error.text = "cifar10: \"" + path + "\" is not in the binary format: its " + std::to_string(file.size()) +
                     " bytes are no multiple of " + std::to_string(CifarSource::kRecord) + looksLike(file) +
                     "; take the binary version, not the one for Python";
        return nullptr;
      }
      const int64_t count = int64_t(file.size()) / CifarSource::kRecord;
      if (!checkLabels(request, file.data(), count, CifarSource::kRecord, path, error))
        return nullptr;
      set.files.push_back(file);
      set.counts.push_back(count);
      set.size += count;
    }
    if (set.files.empty()) {
      error.text = "cifar10: no " + std::string(part ? "test" : "training") + " images in \"" + folder +
                   "\"; looked for files, packed or not, with " + (part ? "test" : "data_batch or train") +
                   " in their names; the folder has " + listText(names);
      return nullptr;
    }
  }
  return source;
}

} // namespace echelon::runtime
