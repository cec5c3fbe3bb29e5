#include "recordings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cubin.h"

namespace bascule {
namespace {

constexpr int kCalls = 3;  // with the same slots, of which the last is recorded
constexpr int kMost = 16;  // recordings that a plan makes

bool blocking() {  // every launch is waited for, so that an error is told of its kernel
  const char *value = std::getenv("CUDA_LAUNCH_BLOCKING");
  return value != nullptr && *value != '\0' && *value != '0';
}

}  // namespace

Recordings::Recordings(DriverPtr driver, size_t kernels, size_t slots)
    : driver_(std::move(driver)), slots_(slots), process_(getpid()) {
  usable_ = kernels >= kLeast && driver_->has_graphs() && !blocking();
}

Recordings::~Recordings() {
  if (getpid() != process_) return;  // a forked child cannot use its parent's contexts
  if (graph_ != nullptr) driver_->destroy_graph(graph_);
  for (Run &run : runs_) {
    if (run.exec != nullptr) driver_->destroy_exec(run.exec);
  }
}

bool Recordings::launch(Stream stream, const int64_t *slots) {
  if (graph_ != nullptr) driver_->destroy_graph(graph_);  // of a run that ended with an error
  graph_ = nullptr;
  wanted_ = false;
  if (!usable_) return false;
  Run &run = run_of(slots);
  run.used = ++clock_;
  if (run.exec == nullptr && ++run.calls < kCalls) return false;
  int capturing = 0;  // a graph cannot be launched into another's recording; nor is one made meanwhile
  if (driver_->is_capturing(stream, &capturing) != kSuccess || capturing != 0) return false;
  if (run.exec != nullptr) {
    if (driver_->launch_graph(run.exec, stream) == kSuccess) return true;
    give_up();  // launched one by one, the kernel that fails is named
    return false;
  }
  if (made_++ >= kMost || driver_->create_graph(&graph_, 0) != kSuccess) {
    give_up();
    return false;
  }
  last_ = nullptr;
  current_ = &run;
  wanted_ = true;
  return false;
}

void Recordings::add(const KernelLaunch &launch) {
  KernelNode node{};
  node.function = launch.handle;
  node.grid[0] = launch.programs;
  node.block[0] = launch.threads;
  node.grid[1] = node.grid[2] = node.block[1] = node.block[2] = 1;
  node.shared = launch.shared;
  node.parameters = launch.parameters;
  GraphNode added = nullptr;
  if (driver_->add_kernel(&added, graph_, last_ ? &last_ : nullptr, last_ ? 1 : 0, &node) != kSuccess) {
    give_up();
    return;
  }
  last_ = added;
}

void Recordings::finish() {
  wanted_ = false;
  RelaxedCapture relaxed(*driver_);
  if (driver_->instantiate(&current_->exec, graph_, 0) != kSuccess) {
    current_->exec = nullptr;
    give_up();
    return;
  }
  driver_->destroy_graph(graph_);
  graph_ = nullptr;
}

Recordings::Run &Recordings::run_of(const int64_t *slots) {
  auto found = std::find_if(runs_.begin(), runs_.end(), [&](const Run &run) {
    return run.slots.size() == slots_ && std::equal(run.slots.begin(), run.slots.end(), slots);
  });
  if (found != runs_.end() && found->used != 0) return *found;
  Run &oldest = *std::min_element(runs_.begin(), runs_.end(), [](const Run &a, const Run &b) { return a.used < b.used; });
  if (oldest.exec != nullptr) driver_->destroy_exec(oldest.exec);  // one that still runs is freed when it has
  oldest = Run{std::vector<int64_t>(slots, slots + slots_), 0, 0, nullptr};
  return oldest;
}

void Recordings::give_up() {
  usable_ = wanted_ = false;
  if (graph_ != nullptr) driver_->destroy_graph(graph_);
  graph_ = nullptr;
}

}  // namespace bascule
