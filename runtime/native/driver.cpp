#include "driver.h"

#include <dlfcn.h>

#include <mutex>

namespace bascule {
namespace {

constexpr char kDefaultLibrary[] = "libcuda.so.1";
constexpr int kOldest = 12000;  // CUDA 12.0: the oldest driver that loads what Triton's ptxas writes

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// What a user can do about an error; empty where the driver's words say it all.
const char *advice(Status status) {
  switch (status) {
    case kOutOfMemory:
      return "The device has no memory left for it: free tensors, or torch.cuda.empty_cache().";
    case kNotInitialized:
      return "A process that was forked after CUDA had been used cannot use it: start processes with 'spawn'.";
    case kStubLibrary:
      return "This is the toolkit's stub of libcuda, not a driver: put the driver's folder first in LD_LIBRARY_PATH.";
    case kNoDevice:
      return "No GPU is visible: see nvidia-smi and CUDA_VISIBLE_DEVICES.";
    case kInvalidDevice:
      return "See torch.cuda.device_count() and CUDA_VISIBLE_DEVICES.";
    case kInvalidImage:
    case kNoBinaryForGpu:
      return "The kernel was compiled for another architecture, or by a newer toolkit than the driver knows: "
             "update the driver.";
    case kSystemDriverMismatch:
    case kCompatNotSupported:
      return "The kernel module and the user-mode driver do not fit each other: reboot, or update the driver.";
    case kIllegalAddress:
    case kLaunchTimeout:
    case kAssert:
    case kHardwareStackError:
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case kLaunchFailed:
      return "The driver reports it late: a kernel launched earlier may have failed. Run with "
             "CUDA_LAUNCH_BLOCKING=1 to find it; the process cannot use this device any more.";
    default:
      return "";
  }
}

std::mutex opening;
DriverPtr opened;

}  // namespace

Driver::Driver(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char *reason = dlerror();
    throw DriverError("no CUDA driver: " + std::string(reason ? reason : path) +
                      ". Install NVIDIA's driver, or compile for the CPU.");
  }
  driver_version = reinterpret_cast<decltype(driver_version)>(dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (driver_version != nullptr) driver_version(&version);
  if (version < kOldest) {
    throw DriverError("the NVIDIA driver is too old: it supports CUDA " + version_text(version) +
                      ", and CUDA " + version_text(kOldest) + " or newer is needed. Update the driver.");
  }
#define X(field, name, parameters)                                        \
  field = reinterpret_cast<decltype(field)>(dlsym(library, #name));       \
  if (field == nullptr) {                                                 \
    throw DriverError(path + " (CUDA " + version_text(version) + ") has no " #name \
                      ": it is no complete CUDA driver.");                \
  }
  BASCULE_DRIVER_FUNCTIONS(X)
#undef X
#define X(field, name, parameters) field = reinterpret_cast<decltype(field)>(dlsym(library, #name));
  BASCULE_OPTIONAL_DRIVER_FUNCTIONS(X)
#undef X
  check(init(0), "the CUDA driver does not start");
  int devices = 0;
  check(device_count(&devices), "the CUDA driver does not count its devices");
  if (devices == 0) fail(kNoDevice, "there is no device");
}

std::string Driver::describe(Status status) const {
  const char *name = nullptr, *text = nullptr;
  std::string described;
  if (error_name(status, &name) == kSuccess && name != nullptr) described = name;
  described += (described.empty() ? "error " : " (") + std::to_string(status) + (described.empty() ? "" : ")");
  if (error_text(status, &text) == kSuccess && text != nullptr) described += std::string(": ") + text;
  if (const char *hint = advice(status); *hint != '\0') described += std::string(". ") + hint;
  return described;
}

void Driver::fail(Status status, const std::string &what) const {
  throw DriverError(what + ": " + describe(status));
}

void open_driver(const std::string &path) {
  std::lock_guard lock(opening);
  opened.reset();
  opened = std::make_shared<const Driver>(path);
}

DriverPtr current_driver() {
  std::lock_guard lock(opening);
  if (opened == nullptr) opened = std::make_shared<const Driver>(kDefaultLibrary);
  return opened;
}

}  // namespace bascule
