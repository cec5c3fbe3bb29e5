#include "plan.h"

#include <algorithm>
#include <cstring>
#include <limits>

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
  const size_t given = launch.parameters.size();
  bool fits = sizes.size() == given + kHiddenPointers;
  for (size_t i = 0; fits && i < sizes.size(); ++i) {
    fits = sizes[i] == (i < given ? width(launch.parameters[i].kind) : sizeof(void *));
  }
  if (fits) return;
  std::string wanted, passed;
  for (size_t bytes : sizes) wanted += " " + std::to_string(bytes);
  for (const Parameter &parameter : launch.parameters) passed += " " + std::to_string(width(parameter.kind));
  throw DriverError(launch.function->title() + " takes parameters of" + wanted + " bytes and is given" + passed +
                    ", after which come " + std::to_string(kHiddenPointers) + " pointers of Triton's");
}

}  // namespace

Plan::Plan(std::vector<Launch> launches) : launches_(std::move(launches)) {
  size_t values = 0;
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
    values += launch.parameters.size();
    if (launch.grid.slot >= 0) slots_ = std::max(slots_, size_t(launch.grid.slot) + 1);
    for (const Parameter &parameter : launch.parameters) slots_ = std::max(slots_, parameter.slot + 1);
  }
  cells_.assign(values + 1, 0);  // the last is the null that hidden pointers read
  addresses_.reserve(values + launches_.size() * kHiddenPointers);
  for (const Launch &launch : launches_) {
    const Function &function = *launch.function;
    Step step{function.handle, launch.grid, uint32_t(function.warps) * 32, uint32_t(function.shared),
              uint32_t(stores_.size()), uint32_t(launch.parameters.size()), nullptr};
    step.addresses = addresses_.data() + addresses_.size();  // reserved: it does not move
    for (const Parameter &parameter : launch.parameters) {
      addresses_.push_back(&cells_[stores_.size()]);
      stores_.push_back({uint32_t(parameter.slot), parameter.kind, parameter.offset});
    }
    addresses_.insert(addresses_.end(), kHiddenPointers, &cells_.back());
    steps_.push_back(step);
  }
  if (driver_ != nullptr) recordings_ = std::make_unique<Recordings>(driver_, steps_.size(), slots_);
}

void Plan::run(uint64_t stream, const int64_t *slots) {
  if (steps_.empty()) return;
  std::lock_guard lock(busy_);
  CurrentContext current(*driver_, context_);
  if (recordings_->launch(reinterpret_cast<Stream>(stream), slots)) return;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step &step = steps_[i];
    const int64_t grid = step.grid.slot < 0 ? step.grid.constant : slots[step.grid.slot];
    if (grid == 0) continue;
    if (grid < 0 || grid > kLargestGrid) {
      fail(i, "is to run " + std::to_string(grid) + " programs, and a device runs 0 to " + std::to_string(kLargestGrid));
    }
    const Store *store = &stores_[step.first];
    int64_t *cell = &cells_[step.first];
    for (uint32_t k = 0; k < step.count; ++k) {
      const auto value = int64_t(uint64_t(slots[store[k].slot]) + uint64_t(store[k].offset));  // wraps, as addresses do
      if (store[k].kind == Kind::kInt32 && value != int32_t(value)) {
        fail(i, "takes parameter " + std::to_string(k) + " in 32 bits, and its value is " + std::to_string(value));
      }
      cell[k] = value;  // little-endian: the low four bytes come first
    }
    const Status status = driver_->launch(step.handle, uint32_t(grid), 1, 1, step.threads, 1, 1, step.shared,
                                          reinterpret_cast<Stream>(stream), step.addresses, nullptr);
    if (status != kSuccess) fail(i, "does not start: " + driver_->describe(status));
    if (recordings_->wanted()) {
      recordings_->add({step.handle, uint32_t(grid), step.threads, step.shared, step.addresses});
    }
  }
  if (recordings_->wanted()) recordings_->finish();
}

void Plan::fail(size_t step, const std::string &what) const {
  throw DriverError(launches_[step].function->title() + " " + what);
}

}  // namespace bascule
