// Cubins and the kernels in them.
#pragma once

#include <memory>
#include <string>
#include <vector>

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

// A factor, and the numbers of the kernel's parameters that it is multiplied by.
struct Term {
  int64_t factor;
  std::vector<size_t> parameters;
};
using Sum = std::vector<Term>;

// A strided tensor of which a kernel has boxes copied: all that the driver encodes, but for the address, which is `offset` bytes from that in a
// parameter of the kernel. Dims are fastest first.
struct TensorMap {
  size_t parameter;
  int64_t offset;
  int element, swizzle;             // the driver's numbers
  std::vector<Sum> sizes, strides;  // strides: bytes, of all dims but the first
  std::vector<uint32_t> box;
  bool changes;  // whether sizes or strides are of parameters

  // The sizes, then the strides, where the kernel's parameters are `values`.
  std::vector<uint64_t> extents(const int64_t *values) const;
  // Writes `map` for the tensor that begins at `address`. One without elements is not for the driver: the map is of nothing, for a kernel
  // that copies none of it.
  Status encode(const Driver &driver, int64_t address, const std::vector<uint64_t> &extents, EncodedMap *map) const;
};

// A kernel that can be launched. Triton's launch is one-dimensional: `warps` warps of 32 threads a program.
class Function {
 public:
  // Throws DriverError: no such kernel, more shared memory or threads than the device gives a program, tensor maps that are none.
  Function(std::shared_ptr<const Cubin> cubin, std::string name, int warps, int shared, std::string location, bool early,
           std::vector<TensorMap> maps);

  const std::shared_ptr<const Cubin> cubin;
  const std::string name, location;  // the user's line
  const int warps, shared;           // shared: dynamic shared memory, bytes
  const bool early;                  // may be started while the kernel before it ends
  const std::vector<TensorMap> maps;  // parameters after those that a launch gives
  FunctionHandle handle = nullptr;
  int registers = 0, local_bytes = 0;  // a thread's; local memory is what spills take

  // "kernel softmax_0 (model.py:12)"
  std::string title() const;
};

}  // namespace bascule
