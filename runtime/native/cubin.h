// Cubins and the kernels in them.
#pragma once

#include <memory>
#include <string>

#include "driver.h"

namespace bascule {

// Makes a context the thread's current one for its own life.
class CurrentContext {
 public:
  CurrentContext(const Driver &driver, Context context);
  ~CurrentContext();
  CurrentContext(const CurrentContext &) = delete;
  CurrentContext &operator=(const CurrentContext &) = delete;

 private:
  const Driver &driver_;
  bool pushed_ = false;
};

// Loading, unloading and making graphs are forbidden to a thread that captures one unless it is relaxed about it; none of them takes part in
// a capture.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver &driver);
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture &) = delete;
  RelaxedCapture &operator=(const RelaxedCapture &) = delete;

 private:
  const Driver &driver_;
  int mode_ = kCaptureRelaxed;
};

// A cubin loaded in the primary context of a device, which is PyTorch's too. Unloaded with its last kernel.
class Cubin {
 public:
  Cubin(DriverPtr driver, const void *image, size_t size, int device);
  ~Cubin();
  Cubin(const Cubin &) = delete;
  Cubin &operator=(const Cubin &) = delete;

  const DriverPtr driver;
  const int ordinal;
  Device device = 0;
  Context context = nullptr;
  Module module = nullptr;

 private:
  const int process_;
};

// A kernel that can be launched. Triton's launch is one-dimensional: `warps` warps of 32 threads a program.
class Function {
 public:
  // Throws DriverError: no such kernel, more shared memory or threads than the device gives a program.
  Function(std::shared_ptr<const Cubin> cubin, std::string name, int warps, int shared, std::string location, bool early);

  const std::shared_ptr<const Cubin> cubin;
  const std::string name, location;  // the user's line
  const int warps, shared;           // shared: dynamic shared memory, bytes
  const bool early;                  // may be started while the kernel before it ends
  FunctionHandle handle = nullptr;
  int registers = 0, local_bytes = 0;  // a thread's; local memory is what spills take

  // "kernel softmax_0 (model.py:12)"
  std::string title() const;
};

}  // namespace bascule
