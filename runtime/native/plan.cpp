#include "plan.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <sstream>

namespace bascule {
namespace {

constexpr int64_t kLargestGrid = std::numeric_limits<int32_t>::max();  // the device's limit along x

// The kernels of Triton 3.6 to 3.8 end with pointers that their source does not have: scratch in global memory, and the
// profiler's. Bascule's kernels use neither, so they are null.
constexpr size_t kHiddenPointers = 2;

size_t width(Kind kind) { return kind == Kind::kInt32 ? 4 : 8; }

// Refuses parameters that the kernel's own list does not have.
void check_parameters(const Driver &driver, const Launch &launch) {
  if (driver.parameter_info == nullptr) return;
  std::vector<size_t> sizes;
  size_t offset = 0, size = 0;
  while (driver.parameter_info(launch.function->handle, sizes.size(), &offset, &size) == kSuccess) sizes.push_back(size);
  std::vector<size_t> given;
  for (const Parameter &parameter : launch.parameters) given.push_back(width(parameter.kind));
  given.insert(given.end(), launch.function->maps.size(), sizeof(EncodedMap));
  std::vector<size_t> all = given;
  all.insert(all.end(), kHiddenPointers, sizeof(void *));
  if (sizes == all) return;
  std::string wanted, passed;
  for (size_t bytes : sizes) wanted += " " + std::to_string(bytes);
  for (size_t bytes : given) passed += " " + std::to_string(bytes);
  throw DriverError(launch.function->title() + " takes parameters of" + wanted + " bytes and is given" + passed +
                    ", after which come " + std::to_string(kHiddenPointers) + " pointers of Triton's");
}

// Refuses a tensor map of what is no number among the parameters.
void check_numbers(const Launch &launch, const Term &term) {
  for (size_t parameter : term.parameters) {
    if (parameter >= launch.parameters.size() || launch.parameters[parameter].kind == Kind::kPointer) {
      throw DriverError(launch.function->title() + " has a tensor map with a size of parameter " + std::to_string(parameter) +
                        ", which is no number");
    }
  }
}

Status start(const Driver &driver, const KernelLaunch &kernel, Stream stream, bool early) {
  if (!early) {
    return driver.launch(kernel.handle, kernel.programs, 1, 1, kernel.threads, 1, 1, kernel.shared, stream,
                         kernel.parameters, nullptr);
  }
  LaunchAttribute attribute{};
  attribute.which = kProgrammaticStreamSerialization;
  attribute.value.number = 1;
  const LaunchConfig config{{kernel.programs, 1, 1}, {kernel.threads, 1, 1}, kernel.shared, stream, &attribute, 1};
  return driver.launch_with(&config, kernel.handle, kernel.parameters, nullptr);
}

}  // namespace

Plan::Plan(std::vector<Launch> launches) : launches_(std::move(launches)) {
  size_t values = 0, maps = 0;
  for (const Launch &launch : launches_) {
    const Cubin &cubin = *launch.function->cubin;
    if (driver_ == nullptr) {
      driver_ = cubin.driver;
      context_ = cubin.context;
    }
    if (cubin.driver != driver_ || cubin.context != context_) {
      throw DriverError(launch.function->title() + " is on cuda:" + std::to_string(cubin.ordinal) +
                        ", and the plan's first kernel on another device");
    }
    check_parameters(*driver_, launch);
    for (const TensorMap &map : launch.function->maps) {
      if (map.parameter >= launch.parameters.size() || launch.parameters[map.parameter].kind != Kind::kPointer) {
        throw DriverError(launch.function->title() + " has a tensor map of parameter " + std::to_string(map.parameter) +
                          ", which is no pointer");
      }
      for (const auto *sums : {&map.sizes, &map.strides}) {
        for (const Sum &sum : *sums) {
          for (const Term &term : sum) check_numbers(launch, term);
        }
      }
    }
    values += launch.parameters.size();
    maps += launch.function->maps.size();
    if (launch.grid.slot >= 0) slots_ = std::max(slots_, size_t(launch.grid.slot) + 1);
    for (const Parameter &parameter : launch.parameters) slots_ = std::max(slots_, parameter.slot + 1);
  }
  cells_.assign(values + 1, 0);  // the last is the null that hidden pointers read
  maps_.resize(maps);
  addresses_.reserve(values + maps + launches_.size() * kHiddenPointers);
  uint32_t map = 0;
  for (const Launch &launch : launches_) {
    const Function &function = *launch.function;
    steps_.push_back({launch.grid, uint32_t(stores_.size()), uint32_t(launch.parameters.size()), map});
    void **parameters = addresses_.data() + addresses_.size();  // reserved: it does not move
    kernels_.push_back({function.handle, 0, uint32_t(function.warps) * 32, uint32_t(function.shared), parameters,
                        function.early, true});
    early_ |= function.early;
    for (const Parameter &parameter : launch.parameters) {
      addresses_.push_back(&cells_[stores_.size()]);
      stores_.push_back({uint32_t(parameter.slot), parameter.kind, parameter.offset});
    }
    for (size_t i = 0; i < function.maps.size(); ++i) addresses_.push_back(&maps_[map++].encoded);
    addresses_.insert(addresses_.end(), kHiddenPointers, &cells_.back());
  }
  if (driver_ != nullptr) graph_ = std::make_unique<RunGraph>(driver_, steps_.size());
}

void Plan::run(uint64_t stream, const int64_t *slots) {
  if (steps_.empty()) return;
  std::lock_guard lock(busy_);
  for (size_t i = 0; i < steps_.size(); ++i) set(i, slots);
  CurrentContext current(*driver_, context_);
  for (size_t i = 0; i < steps_.size() && !maps_.empty(); ++i) encode(i);
  const auto queue = reinterpret_cast<Stream>(stream);
  if (graph_->launch(queue, kernels_)) return;
  const bool early = overlaps(queue);
  for (size_t i = 0; i < kernels_.size(); ++i) {
    const KernelLaunch &kernel = kernels_[i];
    if (kernel.programs == 0) continue;
    const Status status = start(*driver_, kernel, queue, early && kernel.early);
    if (status != kSuccess) fail(i, "does not start: " + driver_->describe(status));
  }
}

bool Plan::overlaps(Stream stream) const {
  if (!early_ || driver_->launch_with == nullptr || driver_->is_capturing == nullptr) return false;
  int capturing = 0;
  return driver_->is_capturing(stream, &capturing) == kSuccess && capturing == 0;
}

void Plan::set(size_t i, const int64_t *slots) {
  const Step &step = steps_[i];
  KernelLaunch &kernel = kernels_[i];
  const int64_t grid = step.grid.slot < 0 ? step.grid.constant : slots[step.grid.slot];
  if (grid < 0 || grid > kLargestGrid) {
    fail(i, "is to run " + std::to_string(grid) + " programs, and a device runs 0 to " + std::to_string(kLargestGrid));
  }
  kernel.changed |= kernel.programs != uint32_t(grid);
  kernel.programs = uint32_t(grid);
  const Store *store = &stores_[step.first];
  int64_t *cell = &cells_[step.first];
  for (uint32_t k = 0; k < step.count && grid != 0; ++k) {
    const auto value = int64_t(uint64_t(slots[store[k].slot]) + uint64_t(store[k].offset));  // wraps, as addresses do
    if (store[k].kind == Kind::kInt32 && value != int32_t(value)) {
      fail(i, "takes parameter " + std::to_string(k) + " in 32 bits, and its value is " + std::to_string(value));
    }
    kernel.changed |= cell[k] != value;
    cell[k] = value;  // little-endian: the low four bytes come first
  }
}

void Plan::encode(size_t i) {
  const Step &step = steps_[i];
  const Function &function = *launches_[i].function;
  for (size_t k = 0; k < function.maps.size() && kernels_[i].programs != 0; ++k) {
    Map &map = maps_[step.map + k];
    const TensorMap &tensor = function.maps[k];
    const int64_t *values = &cells_[step.first];
    const int64_t address = values[tensor.parameter] + tensor.offset;
    if (address == map.address && !tensor.changes) continue;
    std::vector<uint64_t> extents = tensor.extents(values);
    if (address == map.address && extents == map.extents) continue;
    const Status status = tensor.encode(*driver_, address, extents, &map.encoded);
    if (status != kSuccess) {
      map.address = kNowhere;
      std::ostringstream where;
      where << std::hex << "0x" << address;
      fail(i, "has no tensor map for address " + where.str() + ": " + driver_->describe(status));
    }
    map.address = address;
    map.extents = std::move(extents);
  }
}

void Plan::fail(size_t step, const std::string &what) const {
  throw DriverError(launches_[step].function->title() + " " + what);
}

}  // namespace bascule
