#include "plan_object.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <structmember.h>

#include <exception>
#include <string>

#include "plan.h"

namespace nb = nanobind;

namespace bascule {
namespace {

constexpr Py_ssize_t kFewSlots = 64;  // so many need no allocation

PyObject *driver_error = nullptr;  // lives as long as the module

struct PlanObject {
  PyObject_HEAD
  vectorcallfunc call;
  Plan *plan;
};

Plan &plan_of(PyObject *self) { return *reinterpret_cast<PlanObject *>(self)->plan; }

// Turns the C++ exception in flight into a Python one.
void set_error() {
  try {
    throw;
  } catch (nb::python_error &error) {
    error.restore();
  } catch (const DriverError &error) {
    PyErr_SetString(driver_error, error.what());
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  }
}

// An integer of 64 bits; an address above 2^63 is taken as the same bits.
bool read_integer(PyObject *object, int64_t *value) {
  int overflow = 0;
  *value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow > 0) *value = int64_t(PyLong_AsUnsignedLongLong(object));
  if (overflow < 0) PyErr_SetString(PyExc_OverflowError, "an integer below -2^63");
  return *value != -1 || !PyErr_Occurred();
}

PyObject *plan_call(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
  Plan &plan = plan_of(self);
  const Py_ssize_t count = PyVectorcall_NARGS(flags) - 1;
  if (names != nullptr && PyTuple_Size(names) > 0) {
    PyErr_SetString(PyExc_TypeError, "a plan takes no keyword arguments");
    return nullptr;
  }
  if (count < Py_ssize_t(plan.slots())) {
    PyErr_Format(PyExc_TypeError, "the plan takes a stream and %zu slots, and got %zd arguments", plan.slots(), count + 1);
    return nullptr;
  }
  int64_t few[kFewSlots + 1];
  std::unique_ptr<int64_t[]> many;
  int64_t *values = few;
  if (count > kFewSlots) {
    many.reset(new int64_t[count + 1]);
    values = many.get();
  }
  for (Py_ssize_t i = 0; i <= count; ++i) {
    if (!read_integer(arguments[i], &values[i])) return nullptr;
  }
  // A launch waits where the device's queue is full, for work that may need the interpreter: nothing may hold it then.
  std::exception_ptr failure;
  PyThreadState *state = PyEval_SaveThread();
  try {
    plan.run(uint64_t(values[0]), values + 1);
  } catch (...) {
    failure = std::current_exception();
  }
  PyEval_RestoreThread(state);
  if (failure == nullptr) Py_RETURN_NONE;
  try {
    std::rethrow_exception(failure);
  } catch (...) {
    set_error();
  }
  return nullptr;
}

// ("slot", i, ..) of `size` entries
nb::tuple slot_entry(nb::handle entry, size_t size, const std::string &what) {
  if (!nb::isinstance<nb::tuple>(entry)) throw std::invalid_argument(what + " is no tuple");
  nb::tuple parts = nb::borrow<nb::tuple>(entry);
  std::string tag;
  if (parts.size() != size || !nb::isinstance<nb::str>(parts[0]) || nb::str(parts[0]).c_str() != std::string("slot")) {
    throw std::invalid_argument(what + (size == 2 ? " is neither an integer nor (\"slot\", i)"
                                                  : " is not (\"slot\", i, byte_offset, kind)"));
  }
  if (nb::cast<int64_t>(parts[1]) < 0) throw std::invalid_argument(what + " has a negative slot");
  return parts;
}

Kind kind_of(const std::string &name, const std::string &what) {
  if (name == "ptr") return Kind::kPointer;
  if (name == "i32") return Kind::kInt32;
  if (name == "i64") return Kind::kInt64;
  throw std::invalid_argument(what + " is of kind \"" + name + "\", which is none of ptr, i32, i64");
}

Launch read_launch(nb::handle entry) {
  nb::tuple parts = nb::cast<nb::tuple>(entry);
  if (parts.size() != 3) throw std::invalid_argument("a launch is (function, grid, parameters)");
  Launch launch;
  launch.function = nb::cast<std::shared_ptr<Function>>(parts[0]);
  if (launch.function == nullptr) throw nb::cast_error();  // None
  const std::string title = launch.function->title();
  nb::object grid = parts[1];
  if (nb::isinstance<nb::int_>(grid)) {
    launch.grid = {-1, nb::cast<int64_t>(grid)};
  } else {
    launch.grid = {nb::cast<int64_t>(slot_entry(grid, 2, title + ": its grid")[1]), 0};
  }
  for (nb::handle parameter : parts[2]) {
    const std::string what = title + ": parameter " + std::to_string(launch.parameters.size());
    nb::tuple fields = slot_entry(parameter, 4, what);
    launch.parameters.push_back({nb::cast<size_t>(fields[1]), nb::cast<int64_t>(fields[2]),
                                 kind_of(nb::cast<std::string>(fields[3]), what)});
  }
  return launch;
}

PyObject *plan_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
  static const char *keywords[] = {"launches", nullptr};
  PyObject *given = nullptr;
  if (!PyArg_ParseTupleAndKeywords(arguments, names, "O:Plan", const_cast<char **>(keywords), &given)) return nullptr;
  std::unique_ptr<Plan> plan;
  try {
    std::vector<Launch> launches;
    for (nb::handle entry : nb::iter(given)) launches.push_back(read_launch(entry));
    plan = std::make_unique<Plan>(std::move(launches));
  } catch (const nb::cast_error &) {
    PyErr_SetString(PyExc_TypeError, "a launch is (Function, grid, [(\"slot\", i, byte_offset, kind), ..])");
    return nullptr;
  } catch (...) {
    set_error();
    return nullptr;
  }
  PyObject *self = PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  auto *object = reinterpret_cast<PlanObject *>(self);
  object->call = plan_call;
  object->plan = plan.release();
  return self;
}

void plan_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  delete reinterpret_cast<PlanObject *>(self)->plan;
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject *plan_text(PyObject *self) {
  std::string names;
  for (const Launch &launch : plan_of(self).launches()) names += (names.empty() ? "" : ", ") + launch.function->name;
  return PyUnicode_FromFormat("<Plan of %zu slots: %s>", plan_of(self).slots(), names.c_str());
}

Py_ssize_t plan_length(PyObject *self) { return Py_ssize_t(plan_of(self).size()); }

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PlanObject, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

constexpr char kDoc[] =
    "Plan(launches)\n--\n\nA run of kernels with their parameters laid out. `plan(stream, *slots)` issues them in order.";

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char *>(kDoc)},
    {Py_tp_new, reinterpret_cast<void *>(plan_new)},
    {Py_tp_dealloc, reinterpret_cast<void *>(plan_free)},
    {Py_tp_repr, reinterpret_cast<void *>(plan_text)},
    {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
    {Py_tp_members, members},
    {Py_sq_length, reinterpret_cast<void *>(plan_length)},
    {0, nullptr},
};

PyType_Spec spec = {"bascule.runtime._native.Plan", sizeof(PlanObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE, slots};

}  // namespace

void add_plan(nb::module_ &module, nb::handle error) {
  driver_error = error.ptr();
  nb::object type = nb::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) nb::raise_python_error();
  module.attr("Plan") = type;
}

}  // namespace bascule
