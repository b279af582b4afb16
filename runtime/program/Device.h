// A device with a memory of its own, on which a rank's program computes.
#pragma once

namespace echelon::runtime {

class Device {
public:
  virtual ~Device() = default;
  /// What the host's state arena holds becomes the device's state.
  virtual void takeState() = 0;
  /// The host's state arena shows the device's state.
  virtual void showState() = 0;
};

} // namespace echelon::runtime
