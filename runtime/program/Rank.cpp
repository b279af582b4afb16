#include "runtime/program/Rank.h"
#include "runtime/launch/Fail.h"
#include "runtime/program/Offload.h"
#include "runtime/sync/LiveWorkers.h"

#include <algorithm>
#include <cstring>

namespace echelon::runtime {

size_t arenaBytes(const Program &program) {
  size_t bytes = 0;
  const bool isHosts = !program.device; // a device has the other arenas
  for (int64_t arena : {program.stateBytes, isHosts ? program.inputBytes : 0, isHosts ? program.workBytes : 0})
    bytes += (std::max<size_t>(size_t(arena), 64) + 63) / 64 * 64;
  return bytes;
}

size_t residentStateBytes(const Program &program) {
  return size_t(program.stateBytes - program.offload.bytes + program.offload.resident);
}
size_t residentBytes(const Program &program) {
  return arenaBytes(program) - size_t(program.stateBytes) + residentStateBytes(program);
}

size_t copyBytes(const Program &program) {
  return program.checkpoint.directory.empty() ? 0 : (size_t(program.stateBytes) + 63) / 64 * 64;
}

Rank::Rank(const Program &program, Transport &transport)
    : ownProgram(program), ownTransport(transport), ownRank(transport.rank()), ownSize(transport.size()),
      meshCoordinate(meshCoordinates(program.mesh, transport.rank())), reportedValue(program.scalars.size()),
      isReported(program.scalars.size()) {
  setCourse(program.course);
  if (ownSize != meshSize(program.mesh))
    fail("the program is compiled for " + std::to_string(meshSize(program.mesh)) + " ranks, not " +
         std::to_string(ownSize));
  std::vector<int> sizes;
  for (const MeshAxis &axis : program.mesh)
    sizes.push_back(axis.size);
  for (const std::vector<int> &over : program.groups)
    ownGroups.push_back(transport.makeGroup(sizes, over));
  // An empty arena still has an address, so that a slice of nothing is a valid pointer.
  auto arena = [&](int64_t bytes) {
    return static_cast<std::byte *>(transport.allocate(size_t(std::max<int64_t>(bytes, 64))));
  };
  const Offload &offload = program.offload;
  stateArena =
      !offload.isInFile()
          ? arena(program.stateBytes)
          : static_cast<std::byte *>(transport.allocateBefore(size_t(program.stateBytes), size_t(offload.bytes)));
  if (offload.isInFile())
    ownOffloaded = std::make_unique<OffloadedState>(offload, stateArena);
  inputArena = arena(program.device ? 0 : program.inputBytes);
  workArena = arena(program.device ? 0 : program.workBytes);
  if (program.device)
    ownDevice = program.device(*this);
}

Rank::~Rank() = default;

void Rank::readState(int64_t offset, void *to, size_t bytes) {
  if (ownDevice)
    ownDevice->readState(offset, to, bytes);
  else
    std::memcpy(to, stateArena + offset, bytes);
  if (ownOffloaded)
    ownOffloaded->letGo(stateArena + offset, int64_t(bytes));
}

void Rank::writeState(int64_t offset, const void *from, size_t bytes) {
  if (ownDevice)
    ownDevice->writeState(offset, from, bytes);
  else
    std::memcpy(stateArena + offset, from, bytes);
  if (ownOffloaded)
    ownOffloaded->letGo(stateArena + offset, int64_t(bytes));
}

void Rank::look() {
  if (live)
    live->look();
}

bool Rank::isBroken() const {
  if (holdsBack)
    return true;
  for (size_t i = 0; i < isReported.size(); ++i)
    if (isReported[i] && ownProgram.scalars[i].kind != Scalar::Metric && !std::isfinite(reportedValue[i]))
      return true;
  return false;
}

bool Rank::hasOverflowed() const {
  if (!ownProgram.lossScale.isDynamic || ownCourse.lossScale <= 1)
    return false;
  for (size_t i = 0; i < isReported.size(); ++i)
    if (isReported[i] && ownProgram.scalars[i].kind == Scalar::Norm && !std::isfinite(reportedValue[i]))
      return true;
  return false;
}

void Rank::setCourse(const Course &course) {
  ownCourse = course;
  if (ownCourse.lossScale == 0)
    ownCourse.lossScale = ownProgram.lossScale.start;
}

void Rank::beginTraining(int64_t step) {
  isTraining = true;
  brokenGradient = nullptr;
  currentStep = currentRound = step;
  currentValid = currentSamples = ownProgram.miniBatch();
  currentOffset = 0;
  std::fill(isReported.begin(), isReported.end(), false);
}

void Rank::beginTicket(int64_t ticket) {
  currentRound = ticket / ownProgram.sync.workers;
  currentOffset = ticket % ownProgram.sync.workers * ownProgram.miniBatch();
}

void Rank::beginEvaluation(int64_t samples) {
  isTraining = false;
  currentSamples = samples;
  setEvaluationBatch(0, 0);
  std::fill(isReported.begin(), isReported.end(), false);
}

void Rank::setEvaluationBatch(int64_t offset, int64_t valid) {
  currentOffset = offset;
  currentValid = valid;
}

} // namespace echelon::runtime
