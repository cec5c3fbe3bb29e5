// The launches of a plan as a graph of the driver's: one call issues all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "driver.h"

namespace bascule {

// A kernel with the values of its parameters.
struct KernelLaunch {
  FunctionHandle handle;
  uint32_t programs, threads, shared;
  void **parameters;
  bool early;    // see Function
  bool changed;  // whether the graph, if there is one, has other programs or values
};

// The graph of one plan. One thread at a time, in the plan's context.
//
// On the H200's machine a launch by itself takes the host 3.4 us; in a graph of 100 kernels it takes 0.03 us, and 0.23 us if its parameters
// have to be set first (benchmarks/launch_overhead.py). Making the graph takes 4 us a kernel, so it waits until the plan has run `kCalls` times.
class RunGraph {
 public:
  static constexpr size_t kLeast = 4;  // kernels that are worth it

  RunGraph(DriverPtr driver, size_t kernels);
  ~RunGraph();
  RunGraph(const RunGraph &) = delete;
  RunGraph &operator=(const RunGraph &) = delete;

  // Whether the kernels are launched on `stream`, the way they are now; if not, they are to be launched one by one.
  bool launch(Stream stream, std::vector<KernelLaunch> &kernels);

 private:
  bool make(std::vector<KernelLaunch> &kernels);
  bool update(std::vector<KernelLaunch> &kernels);
  void give_up();

  DriverPtr driver_;
  bool usable_;
  int calls_ = 0;  // up to kCalls
  Stream stream_ = nullptr;  // of the last call
  Graph graph_ = nullptr;    // lives as long as nodes are named
  std::vector<GraphNode> nodes_;
  GraphExec exec_ = nullptr;
  int process_;
};

}  // namespace bascule
