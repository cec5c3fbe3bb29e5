// bascule.runtime._native: see runtime/_native.pyi for what it offers.

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cubin.h"
#include "plan_object.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace bascule;

// A number, or a list of terms: lists of a factor and the parameters that it is multiplied by.
static Sum sum(nb::handle number) {
  if (nb::isinstance<nb::int_>(number)) return {{nb::cast<int64_t>(number), {}}};
  Sum terms;
  for (nb::handle term : number) {
    const auto numbers = nb::cast<std::vector<int64_t>>(term);
    if (numbers.empty()) throw nb::value_error("a term without a factor");
    terms.push_back({numbers[0], {numbers.begin() + 1, numbers.end()}});
  }
  return terms;
}

// A dictionary with a number or numbers for each field.
static TensorMap tensor_map(nb::handle map) {
  std::vector<Sum> sizes, strides;
  for (nb::handle size : map["sizes"]) sizes.push_back(sum(size));
  for (nb::handle stride : map["strides"]) strides.push_back(sum(stride));
  bool changes = false;
  for (const auto *sums : {&sizes, &strides}) {
    for (const Sum &each : *sums) {
      for (const Term &term : each) changes |= !term.parameters.empty();
    }
  }
  return {nb::cast<size_t>(map["parameter"]),
          nb::cast<int64_t>(map["offset"]),
          nb::cast<int>(map["element"]),
          nb::cast<int>(map["swizzle"]),
          std::move(sizes),
          std::move(strides),
          nb::cast<std::vector<uint32_t>>(map["box"]),
          changes};
}

NB_MODULE(_native, module) {
  // Dynamo keeps compiled graphs until the process ends, kernels with them: no leaks, and no lines a user should read at every exit.
  nb::set_leak_warnings(false);

  auto error = nb::exception<DriverError>(module, "DriverError", PyExc_RuntimeError);
  nb::exception<KernelError>(module, "KernelError", error);

  module.def("open_driver", &open_driver, "path"_a = "libcuda.so.1",
             "Opens the CUDA driver at `path`, for the cubins loaded from now on.");

  nb::class_<Function>(module, "Function", "A kernel that can be launched.")
      .def_ro("name", &Function::name)
      .def_ro("location", &Function::location)
      .def_ro("warps", &Function::warps)
      .def_ro("shared", &Function::shared)
      .def_ro("early", &Function::early)
      .def_ro("registers", &Function::registers)
      .def_ro("local_bytes", &Function::local_bytes)
      .def("__repr__", [](const Function &self) { return "<" + self.title() + ">"; });

  nb::class_<Cubin>(module, "Cubin", "Machine code, loaded in the primary context of a device.")
      .def(
          "__init__",
          [](Cubin *self, nb::bytes data, int device) {
            DriverPtr driver = current_driver();
            nb::gil_scoped_release other_threads_compile;
            new (self) Cubin(std::move(driver), data.c_str(), data.size(), device);
          },
          "data"_a, "device"_a)
      .def_ro("device", &Cubin::ordinal)
      .def(
          "function",
          [](std::shared_ptr<Cubin> self, std::string name, int warps, int shared, std::string location, bool early,
             nb::sequence maps) {
            std::vector<TensorMap> read;
            for (nb::handle map : maps) read.push_back(tensor_map(map));
            return std::make_shared<Function>(std::move(self), std::move(name), warps, shared, std::move(location), early,
                                              std::move(read));
          },
          "name"_a, "warps"_a, "shared"_a, "location"_a, "early"_a = false, "maps"_a = nb::tuple(),
          "The kernel `name`, with `warps` warps and `shared` bytes of dynamic shared memory a program.");

  add_plan(module, error);
}
