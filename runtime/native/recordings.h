// Runs that come again with the same addresses and numbers, as graphs of the driver's: one call launches all of a run.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "driver.h"

namespace bascule {

// A kernel with the values of its parameters.
struct KernelLaunch {
  FunctionHandle handle;
  uint32_t programs, threads, shared;
  void **parameters;
};

// The recordings of one plan, by its slots. One thread at a time, in the plan's context.
//
// A launch takes the host 2 to 3 us, and a graph of 100 kernels about 1 us; making it takes 4 us a kernel. So a run is recorded when it
// has come `kCalls` times with the same slots, and a plan whose slots change all the time makes at most `kMost` recordings.
class Recordings {
 public:
  static constexpr size_t kLeast = 4;  // kernels of a run that is worth it

  Recordings(DriverPtr driver, size_t kernels, size_t slots);
  ~Recordings();
  Recordings(const Recordings &) = delete;
  Recordings &operator=(const Recordings &) = delete;

  // Whether the run with these slots was recorded, and is launched on `stream`.
  bool launch(Stream stream, const int64_t *slots);

  // Whether the run that is being issued is to be recorded: `add` all its kernels, then `finish`.
  bool wanted() const { return wanted_; }
  void add(const KernelLaunch &launch);
  void finish();

 private:
  struct Run {
    std::vector<int64_t> slots;
    int calls = 0;
    uint64_t used = 0;
    GraphExec exec = nullptr;
  };

  Run &run_of(const int64_t *slots);
  void give_up();

  DriverPtr driver_;
  size_t slots_;
  bool usable_, wanted_ = false;
  std::array<Run, 2> runs_;
  Run *current_ = nullptr;
  Graph graph_ = nullptr;
  GraphNode last_ = nullptr;
  uint64_t clock_ = 0;
  int made_ = 0;
  int process_;
};

}  // namespace bascule
