#include "plugin/plugins.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace lockstep {

namespace {

constexpr std::size_t most_entries = 1000;  // of a list whose end is missing

bool is_word(const char* name) {
  if (name == nullptr || *name < 'a' || *name > 'z') return false;
  return std::ranges::all_of(std::string_view(name),
                             [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

bool is_text(const char* text) { return text != nullptr && !first_invalid_utf8(text); }

bool is_suffix(const char* suffix) { return suffix != nullptr && *suffix == '.' && is_word(suffix + 1); }

/// The entries of a list that ends with one without a name.
template <class Entry>
std::vector<const Entry*> entries_of(const Entry* list, const std::string& file, std::string_view what) {
  std::vector<const Entry*> entries;
  for (const Entry* entry = list; entry != nullptr && entry->name != nullptr; ++entry) {
    if (!is_word(entry->name))
      fail(ExitCode::input, "{}: the name {} in its {} may have only lower-case letters, digits and _", file,
           to_text(Json(entry->name)), what);
    if (entries.size() == most_entries)
      fail(ExitCode::input, "{}: its list of {} has no end (an entry without a name)", file, what);
    for (const Entry* other : entries)
      if (std::string_view(other->name) == entry->name)
        fail(ExitCode::input, "{}: two of its {} are called {}", file, what, entry->name);
    entries.push_back(entry);
  }
  return entries;
}

void require_whole(const std::string& file, std::string_view what, const char* name, bool complete) {
  if (!complete) fail(ExitCode::input, "{}: the {} {} lacks a function or its version", file, what, name);
}

const lockstep_plugin* load(const std::string& file) {
  const Path path = absolute_path(file);
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Error(
        ExitCode::input, fmt::format("cannot load the plug-in {}: {}", file, ::dlerror()),
        "a plug-in is a shared object for this machine that includes lockstep_plugin.h: see lockstep-plugin(7)");
  const auto entry = reinterpret_cast<const lockstep_plugin* (*)()>(::dlsym(library, "lockstep_plugin"));
  if (entry == nullptr)
    throw Error(ExitCode::input, fmt::format("{} has no function lockstep_plugin", file),
                "lockstep-plugin(7) describes the functions of a plug-in");
  const lockstep_plugin* const table = entry();
  if (table == nullptr) fail(ExitCode::input, "{}: its function lockstep_plugin returns nothing", file);
  if (table->version != LOCKSTEP_PLUGIN_VERSION)
    throw Error(ExitCode::input,
                fmt::format("{} was compiled for version {} of the plug-in interface, but this program has version {}",
                            file, table->version, LOCKSTEP_PLUGIN_VERSION),
                "recompile it with the header lockstep_plugin.h of this program");
  if (!is_word(table->name)) fail(ExitCode::input, "{}: its name may have only lower-case letters, digits and _", file);
  if (!is_text(table->help)) fail(ExitCode::input, "{}: its table has no help text", file);
  return table;
}

template <class Entry>
void add(std::vector<PluginEntry<Entry>>& all, const std::vector<const Entry*>& entries, const Plugin& plugin,
         std::string_view what) {
  for (const Entry* entry : entries) {
    const auto other = std::ranges::find_if(
        all, [&](const PluginEntry<Entry>& each) { return std::string_view(each.table->name) == entry->name; });
    if (other != all.end())
      fail(ExitCode::input, "{} and {} both have a {} called {}", other->plugin->file(), plugin.file(), what,
           entry->name);
  }
  for (const Entry* entry : entries) all.push_back({entry, &plugin});
}

}  // namespace

Plugin::Plugin(const std::string& file) : file_(file) {
  if (kind_of(file) != FileKind::file)
    throw Error(ExitCode::input, fmt::format("there is no plug-in file {}", file),
                "a relative path starts at the working directory of each rank");
  hash_ = to_hex(hash128(read_file(Path(file))));
  table_ = load(file);
  for (const lockstep_option* option : entries_of(table_->options, file, "options")) {
    if (!is_text(option->help) || !is_text(option->built_in) || option->type < LOCKSTEP_INTEGER ||
        option->type > LOCKSTEP_BOOLEAN)
      fail(ExitCode::input, "{}: the option {} lacks a type, a help text or a value", file, option->name);
    options_.push_back(*option);
    values_.push_back(std::make_shared<Json>());
  }
  plain_.resize(options_.size() + 1);  // never without an address
}

void Plugin::set(std::size_t option, const Json& value) {
  *values_[option] = value;
  const Json& kept = *values_[option];
  lockstep_value& plain = plain_[option];
  switch (options_[option].type) {
    case LOCKSTEP_INTEGER: plain.integer = kept.get<std::int64_t>(); return;
    case LOCKSTEP_NUMBER: plain.number = kept.get<double>(); return;
    case LOCKSTEP_TEXT: plain.text = kept.get_ref<const std::string&>().c_str(); return;
    case LOCKSTEP_BOOLEAN: plain.integer = kept.get<bool>() ? 1 : 0; return;
  }
}

std::string Plugin::identity_of(const char* name, const char* version) const {
  Json deciding = Json::object();
  for (std::size_t i = 0; i < options_.size(); ++i)
    if (options_[i].fixed_on_resume != 0) deciding[options_[i].name] = *values_[i];
  return fmt::format("{} of {}, version {}, {}", name, table_->name, version, to_text(deciding));
}

Plugins& Plugins::opened() {
  static Plugins plugins;
  return plugins;
}

void Plugins::open(const std::string& file) {
  const auto same = [&](const std::unique_ptr<Plugin>& plugin) { return plugin->file() == file; };
  if (std::ranges::any_of(all_, same)) return;
  auto plugin = std::make_unique<Plugin>(file);
  const lockstep_plugin& table = plugin->table();
  for (const auto& other : all_)
    if (std::string_view(other->table().name) == table.name)
      fail(ExitCode::input, "{} and {} are both called {}", other->file(), file, table.name);
  const auto schedules = entries_of(table.schedules, file, "schedules");
  for (const lockstep_schedule* each : schedules) require_whole(file, "schedule", each->name, each->rate != nullptr);
  const auto optimizers = entries_of(table.optimizers, file, "optimizers");
  for (const lockstep_optimizer* each : optimizers) {
    require_whole(file, "optimizer", each->name, each->update_f32 != nullptr);
    const auto end = std::ranges::find(each->states, static_cast<const char*>(nullptr));
    if (end == std::end(each->states) || !std::all_of(each->states, end, is_word))
      fail(ExitCode::input, "{}: the optimizer {} must name at most {} states, and null after the last", file,
           each->name, LOCKSTEP_MOST_STATES);
  }
  const auto callbacks = entries_of(table.callbacks, file, "callbacks");
  for (const lockstep_callback* each : callbacks) {
    const bool keeps = each->state != LOCKSTEP_NO_STATE;
    require_whole(file, "callback", each->name,
                  each->make != nullptr && each->drop != nullptr && each->event != nullptr &&
                      (!keeps || (each->save != nullptr && each->load != nullptr)));
  }
  const auto recomputes = entries_of(table.recomputes, file, "recomputations");
  for (const lockstep_recompute* each : recomputes)
    require_whole(file, "recomputation", each->name, each->keeps != nullptr);
  const auto splitters = entries_of(table.splitters, file, "splitters");
  for (const lockstep_splitter* each : splitters) require_whole(file, "splitter", each->name, each->split != nullptr);
  const auto pipeline_schedules = entries_of(table.pipeline_schedules, file, "pipeline schedules");
  for (const lockstep_pipeline_schedule* each : pipeline_schedules) {
    require_whole(file, "pipeline schedule", each->name, each->order != nullptr);
    if (each->stages_per_rank < 1 || each->placement < LOCKSTEP_LOOPED || each->placement > LOCKSTEP_V)
      fail(ExitCode::input, "{}: the pipeline schedule {} has no stages or an unknown placement", file, each->name);
  }
  const auto losses = entries_of(table.losses, file, "losses");
  for (const lockstep_loss* each : losses) require_whole(file, "loss", each->name, each->rows_f32 != nullptr);
  const auto families = entries_of(table.families, file, "families");
  for (const lockstep_family* each : families) require_whole(file, "family", each->name, each->config != nullptr);
  const auto packings = entries_of(table.packings, file, "packings");
  for (const lockstep_packing* each : packings) {
    require_whole(file, "packing", each->name, each->place != nullptr && is_text(each->version));
    if (each->group < 1) fail(ExitCode::input, "{}: the packing {} has a group size below 1", file, each->name);
  }
  const auto readers = entries_of(table.readers, file, "document readers");
  for (const lockstep_reader* each : readers) {
    require_whole(file, "document reader", each->name,
                  is_text(each->version) && each->open != nullptr && each->next != nullptr && each->close != nullptr);
    if (!is_suffix(each->suffix) || each->records < LOCKSTEP_TEXTS || each->records > LOCKSTEP_JSON_OBJECTS)
      fail(ExitCode::input, "{}: the document reader {} has no suffix like \".warc\", or an unknown kind of records",
           file, each->name);
  }
  const auto tokenizers = entries_of(table.tokenizers, file, "tokenizers");
  for (const lockstep_tokenizer* each : tokenizers)
    require_whole(file, "tokenizer", each->name,
                  is_text(each->version) && each->make != nullptr && each->drop != nullptr &&
                      each->vocabulary != nullptr && each->end_of_text != nullptr && each->encode != nullptr &&
                      each->decode != nullptr);
  for (const lockstep_tokenizer* each : tokenizers)
    if (std::string_view(each->name) == "bytes" || std::string_view(each->name) == "chars")
      fail(ExitCode::input, "{}: the name {} is reserved", file, each->name);
  for (const lockstep_reader* each : readers)
    for (const auto& other : readers_)
      if (std::string_view(other.table->suffix) == each->suffix)
        fail(ExitCode::input, "{} and {} both read {}", other.plugin->file(), file, each->suffix);
  add(recomputes_, recomputes, *plugin, "recomputation");
  add(splitters_, splitters, *plugin, "splitter");
  add(pipeline_schedules_, pipeline_schedules, *plugin, "pipeline schedule");
  add(losses_, losses, *plugin, "loss");
  add(families_, families, *plugin, "family");
  add(packings_, packings, *plugin, "packing");
  add(readers_, readers, *plugin, "document reader");
  add(tokenizers_, tokenizers, *plugin, "tokenizer");
  add(schedules_, schedules, *plugin, "schedule");
  add(optimizers_, optimizers, *plugin, "optimizer");
  add(callbacks_, callbacks, *plugin, "callback");
  all_.push_back(std::move(plugin));
}

}  // namespace lockstep
