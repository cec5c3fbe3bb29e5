// A launch plan: a run of kernels, in order, whose parameters are laid out once.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cubin.h"
#include "run_graph.h"

namespace bascule {

enum class Kind { kPointer, kInt32, kInt64 };

// A parameter's value is slots[slot] + offset.
struct Parameter {
  size_t slot;
  int64_t offset;  // bytes for a pointer
  Kind kind;
};

// The number of programs: slots[slot], or the constant where `slot` is negative.
struct Grid {
  int64_t slot;
  int64_t constant;
};

struct Launch {
  std::shared_ptr<const Function> function;
  Grid grid;
  std::vector<Parameter> parameters;
};

class Plan {
 public:
  // Throws DriverError where a kernel takes other parameters than it is given, as far as the driver can tell.
  explicit Plan(std::vector<Launch> launches);

  // How many slots a call must give at least.
  size_t slots() const { return slots_; }
  size_t size() const { return steps_.size(); }
  const std::vector<Launch> &launches() const { return launches_; }

  // Issues the launches on `stream`, in order; a grid of 0 is skipped. May be called by several threads at a time. From the third call on
  // all may be issued as one graph.
  // Throws DriverError that names the kernel: nothing has been launched where it is what the kernel is given, else nothing that comes after it.
  void run(uint64_t stream, const int64_t *slots);

 private:
  struct Store {
    uint32_t slot;
    Kind kind;
    int64_t offset;
  };
  struct Step {
    Grid grid;
    uint32_t first, count;  // of stores_ and cells_
    uint32_t map;           // the first of maps_; the function says how many
  };
  static constexpr int64_t kNowhere = -1;
  struct Map {
    EncodedMap encoded;
    int64_t address = kNowhere;  // that it was encoded for
    std::vector<uint64_t> extents;
  };

  // Gives a kernel the values that `slots` say.
  void set(size_t step, const int64_t *slots);
  // Encodes its tensor maps for the addresses and sizes that it has now.
  void encode(size_t step);
  [[noreturn]] void fail(size_t step, const std::string &what) const;
  // Whether kernels of this call may be started early. Recorded that way, replays were slower (ResNet-50's step: 0.4 %).
  bool overlaps(Stream stream) const;

  std::vector<Launch> launches_;
  DriverPtr driver_;
  Context context_ = nullptr;
  size_t slots_ = 0;
  bool early_ = false;  // some kernel may be started early
  std::vector<Step> steps_;
  std::vector<KernelLaunch> kernels_;  // one a step, as the last call set it
  std::vector<Store> stores_;
  std::vector<int64_t> cells_;     // the parameters' values, 8 bytes each, whatever their width
  std::vector<Map> maps_;
  std::vector<void *> addresses_;  // of the cells and maps: what the driver takes, a run of them a launch
  std::unique_ptr<RunGraph> graph_;
  std::mutex busy_;                // one call at a time has the cells and the graph
};

}  // namespace bascule
