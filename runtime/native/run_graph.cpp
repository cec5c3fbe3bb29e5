#include "run_graph.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cubin.h"

namespace bascule {
namespace {

constexpr int kCalls = 3;

bool blocking() {  // every launch is waited for, so that an error is told of its kernel
  const char *value = std::getenv("CUDA_LAUNCH_BLOCKING");
  return value != nullptr && *value != '\0' && *value != '0';
}

KernelNode node_of(const KernelLaunch &launch) {
  KernelNode node{};
  node.function = launch.handle;
  node.grid[0] = launch.programs;
  node.block[0] = launch.threads;
  node.grid[1] = node.grid[2] = node.block[1] = node.block[2] = 1;
  node.shared = launch.shared;
  node.parameters = launch.parameters;
  return node;
}

}  // namespace

RunGraph::RunGraph(DriverPtr driver, size_t kernels) : driver_(std::move(driver)), process_(getpid()) {
  usable_ = kernels >= kLeast && driver_->has_graphs() && !blocking();
}

RunGraph::~RunGraph() {
  if (getpid() == process_) give_up();  // a forked child cannot use its parent's contexts
}

bool RunGraph::launch(Stream stream, std::vector<KernelLaunch> &kernels) {
  // Launches of one graph wait for each other: plans that several streams run at a time are launched kernel by kernel.
  const bool moved = stream != stream_;
  stream_ = stream;
  calls_ = std::min(calls_ + 1, kCalls);
  if (!usable_ || moved || calls_ < kCalls) return false;
  if (std::any_of(kernels.begin(), kernels.end(), [](const KernelLaunch &kernel) { return kernel.programs == 0; })) return false;
  int capturing = 0;  // a graph cannot be launched into another's recording; nor is one made meanwhile
  if (driver_->is_capturing(stream, &capturing) != kSuccess || capturing != 0) return false;
  const bool ready = exec_ == nullptr ? make(kernels) : update(kernels);
  if (ready && driver_->launch_graph(exec_, stream) == kSuccess) return true;
  give_up();  // launched one by one, the kernel that fails is named
  return false;
}

bool RunGraph::make(std::vector<KernelLaunch> &kernels) {
  RelaxedCapture relaxed(*driver_);
  if (driver_->create_graph(&graph_, 0) != kSuccess) {
    graph_ = nullptr;
    return false;
  }
  for (KernelLaunch &kernel : kernels) {
    const KernelNode node = node_of(kernel);
    GraphNode added = nullptr;
    const GraphNode *last = nodes_.empty() ? nullptr : &nodes_.back();
    if (driver_->add_kernel(&added, graph_, last, last ? 1 : 0, &node) != kSuccess) return false;
    nodes_.push_back(added);
    kernel.changed = false;
  }
  if (driver_->instantiate(&exec_, graph_, 0) == kSuccess) return true;
  exec_ = nullptr;
  return false;
}

bool RunGraph::update(std::vector<KernelLaunch> &kernels) {
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!kernels[i].changed) continue;
    const KernelNode node = node_of(kernels[i]);
    if (driver_->set_kernel(exec_, nodes_[i], &node) != kSuccess) return false;
    kernels[i].changed = false;
  }
  return true;
}

void RunGraph::give_up() {
  usable_ = false;
  if (exec_ != nullptr) driver_->destroy_exec(exec_);  // one that still runs is freed when it has
  if (graph_ != nullptr) driver_->destroy_graph(graph_);
  exec_ = nullptr;
  graph_ = nullptr;
  nodes_.clear();
}

}  // namespace bascule
