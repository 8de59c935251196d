// Python's operators on values of a template.
#pragma once

#include "jinja/template_syntax.hpp"
#include "jinja/template_value.hpp"

namespace lockstep::jinja {

/// Throw TemplateFault for types that lack the operator and for integers beyond 64 bits.
Value binary(BinaryOperator kind, const Value& a, const Value& b, TemplateMemory& memory);
Value negative(const Value& value);
Value positive(const Value& value);
Value compared(Comparison comparison, const Value& a, const Value& b, TemplateMemory& memory);

/// Python's format % values: %s %r %d %i %u %f %e %g %x %o %c %%, with flags, width and precision.
Value formatted(std::string_view format, const Value& values, TemplateMemory& memory);

}  // namespace lockstep::jinja
