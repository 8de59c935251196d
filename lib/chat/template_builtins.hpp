// Filters and tests that a template can name, as positions in lists of their names.
#pragma once

#include "chat/template_access.hpp"

#include <string_view>

namespace lockstep::jinja {

/// Negative if it is none that is understood.
int filter_index(std::string_view name);
int test_index(std::string_view name);
/// Whether Jinja has a filter or test of this name that is not understood here.
bool is_unknown_but_there(std::string_view name);

/// Throws TemplateFault.
Value apply_filter(int index, const Value& value, const CallArguments& arguments, TemplateMemory& memory);
bool apply_test(int index, const Value& value, const CallArguments& arguments, TemplateMemory& memory);

// Filters over the items of a value, in chat/template_item_filters.cpp.
Value map_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
enum class Selecting : std::uint8_t { select, reject, select_by_attribute, reject_by_attribute };
Value select_items(Selecting selecting, const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value unique_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value sorted_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value sorted_pairs(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value grouped_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value sum_of_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value joined_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
Value batched_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory);
enum class Extreme : std::uint8_t { least, greatest };
Value extreme_item(Extreme extreme, const Value& value, const CallArguments& arguments, TemplateMemory& memory);
/// Items as what is gone through once.
Value generator_over(const Value& list, TemplateMemory& memory);

}  // namespace lockstep::jinja
