#include "cubin.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace bascule {
namespace {

constexpr int kWarpThreads = 32;
constexpr int kSharedWithoutOptIn = 48 * 1024;  // bytes
constexpr char kElfMagic[] = "\177ELF";

}  // namespace

RelaxedCapture::RelaxedCapture(const Driver &driver) : driver_(driver) { driver_.exchange_capture_mode(&mode_); }

RelaxedCapture::~RelaxedCapture() { driver_.exchange_capture_mode(&mode_); }

CurrentContext::CurrentContext(const Driver &driver, Context context) : driver_(driver) {
  Context current = nullptr;
  driver.check(driver.current_context(&current), "the CUDA context cannot be read");
  if (current == context) return;
  driver.check(driver.push_context(context), "the CUDA context cannot be made current");
  pushed_ = true;
}

CurrentContext::~CurrentContext() {
  Context popped;
  if (pushed_) driver_.pop_context(&popped);
}

Cubin::Cubin(DriverPtr opened, const void *image, size_t size, int index)
    : driver(std::move(opened)), ordinal(index), process_(getpid()) {
  if (size < 64 || std::memcmp(image, kElfMagic, 4) != 0) {
    throw DriverError("the kernel's machine code is no cubin: " + std::to_string(size) + " bytes that are no ELF file");
  }
  const std::string where = "cuda:" + std::to_string(index);
  driver->check(driver->device(&device, index), "there is no device " + where);
  driver->check(driver->retain_primary(&context, device), where + " cannot be used");
  CurrentContext current(*driver, context);
  RelaxedCapture relaxed(*driver);
  driver->check(driver->load_module(&module, image), "a kernel cannot be loaded on " + where);
}

Cubin::~Cubin() {
  if (module == nullptr || getpid() != process_) return;  // a forked child cannot use its parent's contexts
  try {
    CurrentContext current(*driver, context);
    RelaxedCapture relaxed(*driver);
    driver->unload_module(module);
  } catch (const DriverError &) {  // the driver is gone already: the process ends
  }
}

std::vector<uint64_t> TensorMap::extents(const int64_t *values) const {
  std::vector<uint64_t> found;
  for (const auto *sums : {&sizes, &strides}) {
    for (const Sum &sum : *sums) {
      uint64_t total = 0;
      for (const Term &term : sum) {
        auto product = uint64_t(term.factor);
        for (size_t parameter : term.parameters) product *= uint64_t(values[parameter]);
        total += product;
      }
      found.push_back(total);
    }
  }
  return found;
}

Status TensorMap::encode(const Driver &driver, int64_t address, const std::vector<uint64_t> &extents, EncodedMap *map) const {
  const auto end = extents.begin() + std::ptrdiff_t(sizes.size());
  if (std::find(extents.begin(), end, uint64_t(0)) != end) {
    *map = {};
    return kSuccess;
  }
  const std::vector<uint32_t> steps(sizes.size(), 1);
  return driver.encode_map(map, element, uint32_t(sizes.size()), reinterpret_cast<void *>(address), extents.data(),
                           extents.data() + sizes.size(), box.data(), steps.data(), kNoInterleave, swizzle, kPromoteToLines,
                           kFillZeros);
}

Function::Function(std::shared_ptr<const Cubin> owner, std::string entry, int count, int bytes, std::string line, bool waits,
                   std::vector<TensorMap> tensors)
    : cubin(std::move(owner)),
      name(std::move(entry)),
      location(std::move(line)),
      warps(count),
      shared(bytes),
      early(waits),
      maps(std::move(tensors)) {
  const Driver &driver = *cubin->driver;
  if (!maps.empty() && driver.encode_map == nullptr) {
    throw DriverError(title() + " takes tensor maps, and the driver has no cuTensorMapEncodeTiled: update the driver");
  }
  for (const TensorMap &map : maps) {
    const size_t rank = map.sizes.size();
    if (rank == 0 || map.strides.size() + 1 != rank || map.box.size() != rank) {
      throw DriverError(title() + " has a tensor map of " + std::to_string(rank) + " sizes, " + std::to_string(map.strides.size()) +
                        " strides and a box of " + std::to_string(map.box.size()) + " dims");
    }
  }
  CurrentContext current(driver, cubin->context);
  driver.check(driver.find_function(&handle, cubin->module, name.c_str()), title() + " is not in its cubin");

  auto attribute = [&](FunctionAttribute which) {
    int value = 0;
    driver.check(driver.function_attribute(&value, which, handle), title() + " cannot be inspected");
    return value;
  };
  registers = attribute(kRegisters);
  local_bytes = attribute(kLocalBytes);

  const int threads = attribute(kMaxThreadsPerBlock);
  if (warps < 1 || warps * kWarpThreads > threads) {
    throw KernelError(title() + " was compiled for " + std::to_string(warps) + " warps, and with its " +
                      std::to_string(registers) + " registers a thread the device runs 1 to " +
                      std::to_string(threads / kWarpThreads));
  }
  int limit = 0;
  driver.check(driver.device_attribute(&limit, kMaxSharedBytesPerBlockOptIn, cubin->device),
               "the shared memory of the device cannot be read");
  const int fixed = attribute(kStaticSharedBytes);
  if (shared < 0 || shared + fixed > limit) {
    throw KernelError(title() + " needs " + std::to_string(shared + fixed) +
                      " bytes of shared memory a program, and the device has " + std::to_string(limit) +
                      ": give its schedule smaller blocks or fewer stages");
  }
  if (shared > kSharedWithoutOptIn) {
    driver.check(driver.set_function_attribute(handle, kMaxDynamicSharedBytes, shared),
                 title() + " does not get its shared memory");
  }
}

std::string Function::title() const {
  return "kernel " + name + (location.empty() ? "" : " (" + location + ")");
}

}  // namespace bascule
