// The driver library, opened at run time, and its errors.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "driver_api.h"

namespace bascule {

// What the driver refuses, in words that a user can act on.
class DriverError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A kernel for which a program of the device has too little: threads, registers, shared memory.
class KernelError : public DriverError {
  using DriverError::DriverError;
};

// The functions of one libcuda. The library stays loaded until the process ends.
struct Driver {
#define X(field, name, parameters) Status(*field) parameters = nullptr;
  BASCULE_DRIVER_FUNCTIONS(X)
  BASCULE_OPTIONAL_DRIVER_FUNCTIONS(X)
#undef X

  // Opens `path` and initializes it. Throws DriverError: no driver, a driver too old, no GPU.
  explicit Driver(const std::string &path);

  // Throws DriverError "`what`: CUDA_ERROR_X (n): the driver's words" if `status` is not success.
  void check(Status status, const std::string &what) const {
    if (status != kSuccess) fail(status, what);
  }
  [[noreturn]] void fail(Status status, const std::string &what) const;

  bool has_graphs() const {
    return is_capturing && create_graph && destroy_graph && add_kernel && instantiate && set_kernel && destroy_exec &&
           launch_graph;
  }

  // "CUDA_ERROR_X (n): the driver's words. What to do about it"
  std::string describe(Status status) const;
};

using DriverPtr = std::shared_ptr<const Driver>;

// Makes the library at `path` the one that later cubins use. Where it fails, they open the system's.
void open_driver(const std::string &path);

// The opened driver; the system's, if none has been.
DriverPtr current_driver();

}  // namespace bascule
