#include "exchange/plugin_family.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "exchange/hf_family.hpp"
#include "plugin/plugins.hpp"

#include <algorithm>
#include <string_view>

namespace lockstep {

namespace {

using Entry = PluginEntry<lockstep_family>;

const Entry& entry_of(std::size_t family) { return Plugins::opened().families().at(family); }

[[noreturn]] void refuse(const Entry& entry, const std::string& what, std::string_view problem) {
  fail(ExitCode::input, "the family {} of {} cannot translate {}: {}", entry.table->name, entry.plugin->file(), what,
       problem);
}

std::string_view model_type_of(const Json& document) {
  const auto found = document.find("model_type");
  return found == document.end() || !found->is_string() ? "" : std::string_view(found->get_ref<const std::string&>());
}

}  // namespace

std::optional<std::size_t> plugin_family_of(const Json& document) {
  if (!document.is_object()) return std::nullopt;
  const auto& families = Plugins::opened().families();
  const auto found =
      std::ranges::find_if(families, [&](const Entry& entry) { return entry.table->name == model_type_of(document); });
  if (found == families.end()) return std::nullopt;
  if (family_named(found->table->name))
    fail(ExitCode::input, "{}: the name {} belongs to a built-in family", found->plugin->file(), found->table->name);
  return static_cast<std::size_t>(found - families.begin());
}

Json as_built_in(std::size_t family, const std::string& text, const std::string& origin) {
  const Entry& entry = entry_of(family);
  const char* said = nullptr;
  if (const char* const problem = entry.table->config(entry.plugin->values(), text.c_str(), &said))
    refuse(entry, origin, problem);
  if (said == nullptr || first_invalid_utf8(said)) refuse(entry, origin, "it returned no text");
  Json document = parse_json(said, fmt::format("the configuration that the family {} of {} returned for {}",
                                               entry.table->name, entry.plugin->file(), origin));
  if (!document.is_object() || !family_named(model_type_of(document)))
    refuse(entry, origin, "the model_type that it returned is not a built-in family");
  return document;
}

std::string built_in_tensor(std::size_t family, const std::string& name, const std::string& origin) {
  const Entry& entry = entry_of(family);
  if (entry.table->tensor == nullptr) return name;
  const char* said = nullptr;
  const std::string what = fmt::format("the tensor {} of {}", name, origin);
  if (const char* const problem = entry.table->tensor(entry.plugin->values(), name.c_str(), &said))
    refuse(entry, what, problem);
  if (said == nullptr || first_invalid_utf8(said)) refuse(entry, what, "it returned no text");
  return said;
}

}  // namespace lockstep
