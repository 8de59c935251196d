// The plug-ins that this process has opened, and the registries of their parts. The registries extend options such as
// the optimizer with names of plug-ins. The interface for authors of plug-ins: plugin/lockstep_plugin.h.
#pragma once

#include "base/json_fwd.hpp"
#include "plugin/lockstep_plugin.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class Plugin {
 public:
  /// Opens the shared object. Local. Throws Error(input) if it is not a plug-in of this interface version.
  explicit Plugin(const std::string& file);

  const std::string& file() const { return file_; }
  const std::string& content_hash() const { return hash_; }
  const lockstep_plugin& table() const { return *table_; }
  const std::vector<lockstep_option>& options() const { return options_; }
  /// Returns the value of an option by its index.
  const Json& value(std::size_t option) const { return *values_[option]; }
  /// Sets the value of an option; `value` has its type.
  void set(std::size_t option, const Json& value);
  /// Returns all values in the form that the plug-in reads. The address stays valid.
  const lockstep_value* values() const { return plain_.data(); }
  /// Returns a text that identifies a packing, reader or tokenizer of the plug-in by its version and the options that
  /// are fixed on resume: "letters of example, version 1, {"shift":3}".
  std::string identity_of(const char* name, const char* version) const;

 private:
  std::string file_, hash_;
  const lockstep_plugin* table_ = nullptr;
  std::vector<lockstep_option> options_;
  std::vector<std::shared_ptr<Json>> values_;
  std::vector<lockstep_value> plain_;
};

/// A part of a plug-in, in the registry of its kind. A registry has the order in which plug-ins were opened.
template <class Entry>
struct PluginEntry {
  const Entry* table;
  const Plugin* plugin;
};

class Plugins {
 public:
  /// Returns the plug-ins of this process.
  static Plugins& opened();

  /// Opens a file, unless it is open already. Local. Throws Error(input) as Plugin does, for incomplete parts, and for
  /// names that another plug-in has.
  void open(const std::string& file);

  const std::vector<std::unique_ptr<Plugin>>& all() const { return all_; }
  const std::vector<PluginEntry<lockstep_schedule>>& schedules() const { return schedules_; }
  const std::vector<PluginEntry<lockstep_optimizer>>& optimizers() const { return optimizers_; }
  const std::vector<PluginEntry<lockstep_callback>>& callbacks() const { return callbacks_; }
  const std::vector<PluginEntry<lockstep_recompute>>& recomputes() const { return recomputes_; }
  const std::vector<PluginEntry<lockstep_splitter>>& splitters() const { return splitters_; }
  const std::vector<PluginEntry<lockstep_pipeline_schedule>>& pipeline_schedules() const { return pipeline_schedules_; }
  const std::vector<PluginEntry<lockstep_loss>>& losses() const { return losses_; }
  const std::vector<PluginEntry<lockstep_family>>& families() const { return families_; }
  const std::vector<PluginEntry<lockstep_packing>>& packings() const { return packings_; }
  const std::vector<PluginEntry<lockstep_reader>>& readers() const { return readers_; }
  const std::vector<PluginEntry<lockstep_tokenizer>>& tokenizers() const { return tokenizers_; }

 private:
  std::vector<std::unique_ptr<Plugin>> all_;
  std::vector<PluginEntry<lockstep_schedule>> schedules_;
  std::vector<PluginEntry<lockstep_optimizer>> optimizers_;
  std::vector<PluginEntry<lockstep_callback>> callbacks_;
  std::vector<PluginEntry<lockstep_recompute>> recomputes_;
  std::vector<PluginEntry<lockstep_splitter>> splitters_;
  std::vector<PluginEntry<lockstep_pipeline_schedule>> pipeline_schedules_;
  std::vector<PluginEntry<lockstep_loss>> losses_;
  std::vector<PluginEntry<lockstep_family>> families_;
  std::vector<PluginEntry<lockstep_packing>> packings_;
  std::vector<PluginEntry<lockstep_reader>> readers_;
  std::vector<PluginEntry<lockstep_tokenizer>> tokenizers_;
};

/// Enumerators from this number on stand for parts of plug-ins, in the order of their registry.
inline constexpr int first_plugin_choice = 1000;
template <class E>
constexpr E plugin_choice(std::size_t index) {
  return static_cast<E>(first_plugin_choice + static_cast<int>(index));
}
/// Returns the index of a plug-in's part in its registry; nothing for our own enumerators.
template <class E>
constexpr std::optional<std::size_t> plugin_index(E choice) {
  const int number = static_cast<int>(choice);
  if (number < first_plugin_choice) return std::nullopt;
  return static_cast<std::size_t>(number - first_plugin_choice);
}

}  // namespace lockstep
