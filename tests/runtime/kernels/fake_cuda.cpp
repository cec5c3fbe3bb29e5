// A libcuda for tests: it loads modules that are lists of kernels, records what is launched, and fails on demand.
//
// An image is an ELF magic number, padding to 64 bytes, and a text "name:8,8,4,8,8;other:8": kernels and their parameters'
// sizes in bytes. There are two devices, 0 and 1.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Kernel {
  std::string name;
  std::vector<size_t> sizes;
  int dynamic_limit = 48 * 1024;
};
struct Library {
  std::map<std::string, Kernel> kernels;
};

std::mutex guard;
int version = 13000, devices = 2, shared_limit = 232448, threads_limit = 1024;
std::map<std::string, std::pair<int, int>> failures;  // function -> (status, successes before it)
std::vector<std::string> log_lines;
bool recording = true;
void (*on_launch)() = nullptr;
long live_modules = 0, launches = 0, pushed = 0, popped = 0, live_graphs = 0, graph_launches = 0,
     parameters_set = 0;
int capturing = 0;
std::string printed;
int contexts[2];
thread_local std::vector<void *> current;

int status_of(const char *function) {
  std::lock_guard lock(guard);
  auto found = failures.find(function);
  if (found == failures.end()) return 0;
  if (found->second.second > 0) {
    --found->second.second;
    return 0;
  }
  return found->second.first;
}

}  // namespace

#define MAY_FAIL                                          \
  do {                                                    \
    if (int status = status_of(__func__)) return status; \
  } while (0)

// What tests set and read.
EXPORT void fake_reset() {
  std::lock_guard lock(guard);
  version = 13000, devices = 2, shared_limit = 232448, threads_limit = 1024;
  failures.clear();
  log_lines.clear();
  recording = true;
  launches = pushed = popped = graph_launches = parameters_set = 0;
  capturing = 0;
  current.clear();
}
EXPORT void fake_fail(const char *function, int status, int after) {
  std::lock_guard lock(guard);
  failures[function] = {status, after};
}
EXPORT void fake_version(int value) { version = value; }
EXPORT void fake_devices(int value) { devices = value; }
EXPORT void fake_shared_limit(int value) { shared_limit = value; }
EXPORT void fake_threads_limit(int value) { threads_limit = value; }
EXPORT void fake_recording(int value) { recording = value != 0; }
EXPORT void fake_on_launch(void (*function)()) { on_launch = function; }
EXPORT void fake_use_context(int ordinal) { current.assign(1, &contexts[ordinal]); }
EXPORT long fake_live_modules() { return live_modules; }
EXPORT long fake_launches() { return launches; }
EXPORT void fake_capturing(int value) { capturing = value; }
EXPORT long fake_live_graphs() { return live_graphs; }
EXPORT long fake_graph_launches() { return graph_launches; }
EXPORT long fake_parameters_set() { return parameters_set; }
EXPORT long fake_balance() { return pushed - popped; }
EXPORT const char *fake_log() {
  std::lock_guard lock(guard);
  printed.clear();
  for (const std::string &line : log_lines) printed += line + "\n";
  return printed.c_str();
}

EXPORT int cuDriverGetVersion(int *value) {
  *value = version;
  return 0;
}
EXPORT int cuInit(unsigned) {
  MAY_FAIL;
  return 0;
}
EXPORT int cuGetErrorName(int status, const char **text) {
  static const std::map<int, const char *> names = {
      {1, "CUDA_ERROR_INVALID_VALUE"},       {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {100, "CUDA_ERROR_NO_DEVICE"},
      {101, "CUDA_ERROR_INVALID_DEVICE"},    {500, "CUDA_ERROR_NOT_FOUND"},   {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}};
  auto found = names.find(status);
  *text = found == names.end() ? nullptr : found->second;
  return *text ? 0 : 1;
}
EXPORT int cuGetErrorString(int status, const char **text) {
  *text = status == 2 ? "out of memory" : status == 700 ? "an illegal memory access was encountered" : nullptr;
  return *text ? 0 : 1;
}
EXPORT int cuDeviceGetCount(int *count) {
  *count = devices;
  return 0;
}
EXPORT int cuDeviceGet(int *device, int ordinal) {
  if (ordinal < 0 || ordinal >= devices) return 101;
  *device = ordinal;
  return 0;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int) {
  if (attribute != 97) return 1;
  *value = shared_limit;
  return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
  MAY_FAIL;
  *context = &contexts[device];
  return 0;
}
EXPORT int cuCtxGetCurrent(void **context) {
  MAY_FAIL;
  *context = current.empty() ? nullptr : current.back();
  return 0;
}
EXPORT int cuCtxPushCurrent_v2(void *context) {
  current.push_back(context);
  std::lock_guard lock(guard);
  ++pushed;
  return 0;
}
EXPORT int cuCtxPopCurrent_v2(void **context) {
  *context = current.back();
  current.pop_back();
  std::lock_guard lock(guard);
  ++popped;
  return 0;
}
EXPORT int cuThreadExchangeStreamCaptureMode(int *mode) {
  thread_local int now = 0;
  std::swap(now, *mode);
  return 0;
}
EXPORT int cuModuleLoadData(void **module, const void *image) {
  MAY_FAIL;
  if (current.empty()) return 201;
  auto *library = new Library;
  std::istringstream kernels(static_cast<const char *>(image) + 64);
  for (std::string entry; std::getline(kernels, entry, ';');) {
    Kernel kernel;
    kernel.name = entry.substr(0, entry.find(':'));
    std::istringstream sizes(entry.substr(entry.find(':') + 1));
    for (std::string size; std::getline(sizes, size, ',');) kernel.sizes.push_back(std::stoul(size));
    library->kernels[kernel.name] = kernel;
  }
  *module = library;
  std::lock_guard lock(guard);
  ++live_modules;
  return 0;
}
EXPORT int cuModuleUnload(void *module) {
  delete static_cast<Library *>(module);
  std::lock_guard lock(guard);
  --live_modules;
  return 0;
}
EXPORT int cuModuleGetFunction(void **function, void *module, const char *name) {
  auto &kernels = static_cast<Library *>(module)->kernels;
  auto found = kernels.find(name);
  if (found == kernels.end()) return 500;
  *function = &found->second;
  return 0;
}
EXPORT int cuFuncGetAttribute(int *value, int attribute, void *) {
  const std::map<int, int> values = {{0, threads_limit}, {1, 16}, {3, 40}, {4, 32}};
  *value = values.at(attribute);
  return 0;
}
EXPORT int cuFuncSetAttribute(void *function, int attribute, int value) {
  if (attribute != 8 || value > shared_limit) return 1;
  static_cast<Kernel *>(function)->dynamic_limit = value;
  return 0;
}
EXPORT int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *size) {
  const auto &sizes = static_cast<Kernel *>(function)->sizes;
  if (index >= sizes.size()) return 1;
  *offset = 0;
  for (size_t i = 0; i < index; ++i) *offset += sizes[i];
  *size = sizes[index];
  return 0;
}
EXPORT int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y,
                          unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra) {
  if (!recording) return 0;
  if (on_launch != nullptr) on_launch();
  MAY_FAIL;
  const auto &kernel = *static_cast<Kernel *>(function);
  if (x == 0 || y != 1 || z != 1 || block_y != 1 || block_z != 1 || extra != nullptr) return 1;
  if (int(shared) > kernel.dynamic_limit) return 1;
  std::ostringstream line;
  line << kernel.name << " grid " << x << " block " << block_x << " shared " << shared << " stream "
       << reinterpret_cast<uintptr_t>(stream) << " context " << (static_cast<int *>(current.back()) - contexts) << " :";
  for (size_t i = 0; i < kernel.sizes.size(); ++i) {
    uint64_t value = 0;  // of a tensor map its first bytes
    std::memcpy(&value, parameters[i], std::min(kernel.sizes[i], sizeof(value)));
    line << " " << std::hex << value << std::dec;
  }
  std::lock_guard lock(guard);
  ++launches;
  log_lines.push_back(line.str());
  return 0;
}

// A tensor map is its address; the rest of it is in the log.
EXPORT int cuTensorMapEncodeTiled(void *map, int element, uint32_t rank, void *address, const uint64_t *sizes, const uint64_t *strides,
                                  const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
  MAY_FAIL;
  const auto number = reinterpret_cast<uintptr_t>(address);
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || number % 16 != 0 || current.empty()) return 1;
  std::memset(map, 0, 128);
  std::memcpy(map, &number, sizeof(number));
  std::ostringstream line;
  const auto list = [&line](const char *name, const auto *values, uint32_t count) {
    line << " " << name;
    for (uint32_t i = 0; i < count; ++i) line << " " << values[i];
  };
  line << "map " << std::hex << number << std::dec << " element " << element;
  list("sizes", sizes, rank);
  list("strides", strides, rank - 1);
  list("box", box, rank);
  list("steps", steps, rank);
  line << " interleave " << interleave << " swizzle " << swizzle << " promotion " << promotion << " fill " << fill;
  std::lock_guard lock(guard);
  log_lines.push_back(line.str());
  return 0;
}

// Launches that may start early are told with a word more.
struct LaunchAttribute {
  int which;
  char padding[4];
  char value[64];
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void *stream;
  const LaunchAttribute *attributes;
  unsigned count;
};
EXPORT int cuLaunchKernelEx(const LaunchConfig *config, void *function, void **parameters, void **extra) {
  const LaunchAttribute *asked = config->attributes;
  if (config->count != 1 || asked->which != 6 || *reinterpret_cast<const int *>(asked->value) != 1) return 1;
  const unsigned *grid = config->grid, *block = config->block;
  int status = cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], config->shared,
                              config->stream, parameters, extra);
  std::lock_guard lock(guard);
  if (status == 0 && recording) log_lines.back() += " early";
  return status;
}

// Graphs: chains of kernels, which are launched as `cuLaunchKernel` launches them.
namespace {

struct NodeParameters {
  void *function;
  unsigned grid[3], block[3], shared;
  void **parameters, **extra;
  void *kernel, *context;
};
struct Node {
  NodeParameters what;
  std::vector<std::vector<char>> values;
  Node *original;  // of the graph that was instantiated

  void set(const NodeParameters &parameters) {  // copied here and now
    what = parameters;
    values.clear();
    const auto &kernel = *static_cast<Kernel *>(what.function);
    for (size_t i = 0; i < kernel.sizes.size(); ++i) {
      const auto *bytes = static_cast<const char *>(what.parameters[i]);
      values.emplace_back(bytes, bytes + kernel.sizes[i]);
    }
  }
};
struct Graph {
  std::vector<Node *> nodes;
};

}  // namespace

EXPORT int cuStreamIsCapturing(void *, int *status) {
  *status = capturing;
  return 0;
}
EXPORT int cuGraphCreate(void **graph, unsigned) {
  MAY_FAIL;
  *graph = new Graph;
  std::lock_guard lock(guard);
  ++live_graphs;
  return 0;
}
EXPORT int cuGraphDestroy(void *graph) {
  delete static_cast<Graph *>(graph);
  std::lock_guard lock(guard);
  --live_graphs;
  return 0;
}
EXPORT int cuGraphAddKernelNode_v2(void **node, void *graph, void *const *after, size_t count, const NodeParameters *what) {
  MAY_FAIL;
  auto &nodes = static_cast<Graph *>(graph)->nodes;
  if (count != (nodes.empty() ? 0 : 1) || (count == 1 && after[0] != nodes.back())) return 1;  // not one chain
  auto *made = new Node{};
  made->set(*what);
  nodes.push_back(made);
  *node = made;
  return 0;
}
EXPORT int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long) {
  MAY_FAIL;
  auto *made = new Graph;
  for (Node *node : static_cast<Graph *>(graph)->nodes) made->nodes.push_back(new Node{node->what, node->values, node});
  *exec = made;
  std::lock_guard lock(guard);
  ++live_graphs;
  return 0;
}
EXPORT int cuGraphExecKernelNodeSetParams_v2(void *exec, void *node, const NodeParameters *what) {
  MAY_FAIL;
  for (Node *own : static_cast<Graph *>(exec)->nodes) {
    if (own->original != node) continue;
    if (own->what.function != what->function || what->grid[0] == 0) return 1;
    own->set(*what);
    std::lock_guard lock(guard);
    ++parameters_set;
    return 0;
  }
  return 1;
}
EXPORT int cuGraphExecDestroy(void *exec) { return cuGraphDestroy(exec); }
EXPORT int cuGraphLaunch(void *exec, void *stream) {
  MAY_FAIL;
  for (Node *node : static_cast<Graph *>(exec)->nodes) {
    std::vector<void *> parameters;
    for (std::vector<char> &value : node->values) parameters.push_back(value.data());
    const NodeParameters &w = node->what;
    if (int status = cuLaunchKernel(w.function, w.grid[0], w.grid[1], w.grid[2], w.block[0], w.block[1], w.block[2],
                                    w.shared, stream, parameters.data(), nullptr)) {
      return status;
    }
  }
  std::lock_guard lock(guard);
  ++graph_launches;
  return 0;
}
