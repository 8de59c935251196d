// Filters and tests of templates, numbered by their place in the lists of names.
#pragma once

#include "jinja/template_access.hpp"

#include <string_view>

namespace lockstep::jinja {

/// The number of a filter or test; negative if it is not supported.
int filter_index(std::string_view name);
int test_index(std::string_view name);
/// Whether Jinja has a filter or test of this name that is not supported here.
bool is_unsupported_builtin(std::string_view name);

/// Throw TemplateFault.
Value apply_filter(int index, const Value& value, const CallArguments& arguments, TemplateMemory& memory);
bool apply_test(int index, const Value& value, const CallArguments& arguments, TemplateMemory& memory);

// Filters over the items of a value, in jinja/template_item_filters.cpp.
Value map_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
enum class SelectMode : std::uint8_t { select, reject, select_by_attribute, reject_by_attribute };
Value select_items(SelectMode selecting, const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value unique_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value sorted_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value sorted_pairs(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value grouped_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value sum_of_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value joined_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value batched_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
enum class Extreme : std::uint8_t { least, greatest };
Value extreme_item(Extreme extreme, const Value& value, const CallArguments& arguments, TemplateMemory& memory);
/// A generator over the items of a list.
Value generator_over(const Value& list, TemplateMemory& memory);

}  // namespace lockstep::jinja
