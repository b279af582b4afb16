// A device with a memory of its own, on which a rank's program computes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace echelon::runtime {

struct Limits;

class Device {
public:
  virtual ~Device() = default;
  /// What the host's state arena holds becomes the device's state.
  virtual void takeState() = 0;
  /// The host's state arena shows the device's state.
  virtual void showState() = 0;
  /// Host memory for the program's inputs. What is there is sent to the device, and is what the next function that runs
  /// reads, and those after it. What functions read so far stays where it is.
  virtual std::byte *inputsToFill() = 0;
  virtual void sendInputs() = 0;
  /// What the function that ran last read, in the host's memory.
  virtual std::byte *inputs() = 0;
  /// Bytes of the device's state, from an offset on, to the host's memory and back.
  virtual void readState(int64_t offset, void *to, size_t bytes) = 0;
  virtual void writeState(int64_t offset, const void *from, size_t bytes) = 0;
  /// Copies between the device and this memory of the host will be frequent or large: they are made faster, where they
  /// can be. Until the device is closed.
  virtual void expectCopies(void *memory, size_t bytes) = 0;
  /// What the device can do; all but the cost of a lap.
  virtual Limits limits() = 0;
};

} // namespace echelon::runtime
