// The part of the CUDA driver API that a launcher needs, declared here so that no toolkit is needed to build.
// Names, values and calling conventions are those of the driver's stable ABI (CUDA 12 and newer).
#pragma once

#include <cstddef>
#include <cstdint>

namespace bascule {

using Status = int;  // CUresult
using Device = int;  // CUdevice
using Context = struct ContextHandle *;
using Module = struct ModuleHandle *;
using FunctionHandle = struct KernelHandle *;
using Stream = struct StreamHandle *;
using Graph = struct GraphHandle *;
using GraphExec = struct GraphExecHandle *;
using GraphNode = struct GraphNodeHandle *;

struct KernelNode {  // CUDA_KERNEL_NODE_PARAMS_v2
  FunctionHandle function;
  unsigned grid[3], block[3], shared;
  void **parameters, **extra;
  void *kernel, *context;  // null: `function` says both
};

struct LaunchAttribute {  // CUlaunchAttribute
  int which;
  union {
    alignas(8) unsigned char bytes[64];
    int number;
  } value;
};

struct LaunchConfig {  // CUlaunchConfig
  unsigned grid[3], block[3], shared;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned count;
};

// The kernel may start while the one before it on its stream ends, and waits itself for its memory (CUDA 11.8; compute capability 9.0).
constexpr int kProgrammaticStreamSerialization = 6;

enum StatusCode : Status {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kStubLibrary = 34,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kNoBinaryForGpu = 209,
  kNotFound = 500,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kAssert = 710,
  kHardwareStackError = 714,
  kLaunchFailed = 719,
  kSystemDriverMismatch = 803,
  kCompatNotSupported = 804,
};

enum FunctionAttribute : int {
  kMaxThreadsPerBlock = 0,
  kStaticSharedBytes = 1,
  kLocalBytes = 3,
  kRegisters = 4,
  kMaxDynamicSharedBytes = 8,
};

enum DeviceAttribute : int {
  kMaxSharedBytesPerBlockOptIn = 97,
};

enum CaptureMode : int { kCaptureRelaxed = 2 };

// What the hardware copies boxes of (CUtensorMap): opaque, and aligned.
struct alignas(64) EncodedMap {
  unsigned char bytes[128];
};

// Of cuTensorMapEncodeTiled
constexpr int kNoInterleave = 0, kPromoteToLines = 2, kFillZeros = 0;

// X(field, exported name, parameters)
#define BASCULE_DRIVER_FUNCTIONS(X)                                                                          \
  X(init, cuInit, (unsigned flags))                                                                          \
  X(driver_version, cuDriverGetVersion, (int *version))                                                      \
  X(error_name, cuGetErrorName, (Status status, const char **text))                                          \
  X(error_text, cuGetErrorString, (Status status, const char **text))                                        \
  X(device_count, cuDeviceGetCount, (int *count))                                                            \
  X(device, cuDeviceGet, (Device * device, int ordinal))                                                     \
  X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, Device device))                      \
  X(retain_primary, cuDevicePrimaryCtxRetain, (Context * context, Device device))                            \
  X(current_context, cuCtxGetCurrent, (Context * context))                                                   \
  X(push_context, cuCtxPushCurrent_v2, (Context context))                                                    \
  X(pop_context, cuCtxPopCurrent_v2, (Context * context))                                                    \
  X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                                   \
  X(load_module, cuModuleLoadData, (Module * module, const void *image))                                     \
  X(unload_module, cuModuleUnload, (Module module))                                                          \
  X(find_function, cuModuleGetFunction, (FunctionHandle * function, Module module, const char *name))        \
  X(function_attribute, cuFuncGetAttribute, (int *value, int attribute, FunctionHandle function))            \
  X(set_function_attribute, cuFuncSetAttribute, (FunctionHandle function, int attribute, int value))         \
  X(launch, cuLaunchKernel,                                                                                  \
    (FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,           \
     unsigned block_y, unsigned block_z, unsigned shared, Stream stream, void **parameters, void **extra))

// Missing in older drivers.
#define BASCULE_OPTIONAL_DRIVER_FUNCTIONS(X)                                                                    \
  X(parameter_info, cuFuncGetParamInfo, (FunctionHandle function, size_t index, size_t *offset, size_t *size)) \
  X(launch_with, cuLaunchKernelEx,                                                                             \
    (const LaunchConfig *config, FunctionHandle function, void **parameters, void **extra))                     \
  X(encode_map, cuTensorMapEncodeTiled,                                                                        \
    (EncodedMap * map, int element, uint32_t rank, void *address, const uint64_t *sizes, const uint64_t *strides, \
     const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill))         \
  X(is_capturing, cuStreamIsCapturing, (Stream stream, int *status))                                           \
  X(create_graph, cuGraphCreate, (Graph * graph, unsigned flags))                                              \
  X(destroy_graph, cuGraphDestroy, (Graph graph))                                                              \
  X(add_kernel, cuGraphAddKernelNode_v2,                                                                       \
    (GraphNode * node, Graph graph, const GraphNode *after, size_t count, const KernelNode *kernel))           \
  X(instantiate, cuGraphInstantiateWithFlags, (GraphExec * exec, Graph graph, unsigned long long flags))       \
  X(set_kernel, cuGraphExecKernelNodeSetParams_v2, (GraphExec exec, GraphNode node, const KernelNode *kernel))  \
  X(destroy_exec, cuGraphExecDestroy, (GraphExec exec))                                                        \
  X(launch_graph, cuGraphLaunch, (GraphExec exec, Stream stream))

}  // namespace bascule
