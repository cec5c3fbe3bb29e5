// `Plan` as a Python type. It is written against CPython itself: a call through its vectorcall slot builds no tuple and
// looks nothing up, which is what a launch of a few hundred nanoseconds can afford.
#pragma once

#include <nanobind/nanobind.h>

namespace bascule {

// Adds the type `Plan` to `module`. `error` is the Python type of DriverError.
void add_plan(nanobind::module_ &module, nanobind::handle error);

}  // namespace bascule
