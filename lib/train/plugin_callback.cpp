#include "train/plugin_callback.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

constexpr const char* text_key = "text";
constexpr const char* worlds_key = "worlds";
constexpr const char* drawn_key = "drawn";

std::string state_key(const lockstep_callback& callback) { return fmt::format("callback_{}", callback.name); }
std::string draws_key(const lockstep_callback& callback) { return fmt::format("callback_{}_draws", callback.name); }

bool is_utf8(const std::string& text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

std::int64_t integer(const StateTree& state, const char* name) {
  return integer_from<std::int64_t>(state.value(name), name);
}

}  // namespace

std::vector<Component> declared_components(const lockstep_callback& callback) {
  std::vector<Component> components;
  if (callback.state != LOCKSTEP_NO_STATE) {
    Component state{.key = state_key(callback), .pattern = Pattern::global, .collect = {}};
    state.required = false;  // a run may get a callback as it goes on
    if (callback.state == LOCKSTEP_STATE_OF_RANK) {
      state.pattern = Pattern::per_rank;
      state.remap_policy = Remap::drop;
      state.dropped = fmt::format("the callback {} starts afresh", callback.name);
    }
    components.push_back(std::move(state));
  }
  if (callback.draws != 0) {
    Component draws{.key = draws_key(callback), .pattern = Pattern::per_rank, .collect = {}};
    draws.required = false;
    draws.remap_policy = Remap::redistribute;
    components.push_back(std::move(draws));
  }
  return components;
}

PluginCallback::PluginCallback(const PluginEntry<lockstep_callback>& entry, std::uint64_t seed, Rank rank, int ranks)
    : entry_(entry),
      host_{.self = this,
            .rank = rank,
            .ranks = ranks,
            .seed = seed,
            .options = entry.plugin->values(),
            .ask =
                [](const lockstep_host* host, unsigned requests) {
                  constexpr std::array<std::pair<unsigned, Request>, 3> meant{{{LOCKSTEP_LOG, Request::log},
                                                                               {LOCKSTEP_EVALUATE, Request::evaluate},
                                                                               {LOCKSTEP_SAVE, Request::save}}};
                  CallbackRequests& asks = of(host).asks_;
                  for (const auto& [bit, request] : meant)
                    if ((requests & bit) != 0) asks.requests = asks.requests | request;
                  asks.stop = asks.stop || (requests & LOCKSTEP_STOP) != 0;
                },
            .note = [](const lockstep_host* host, const char* text) { of(host).notes_.emplace_back(text); },
            .draw = nullptr} {
  if (entry.table->draws != 0) host_.draw = [](const lockstep_host* host) { return of(host).draw(); };
  require(entry_.table->make(&host_, &self_), "cannot be made");
}

PluginCallback::~PluginCallback() { entry_.table->drop(self_); }

void PluginCallback::require(const char* failure, const char* what) const {
  if (failure != nullptr)
    fail(ExitCode::input, "the callback {} of {} {}: {}", entry_.table->name, entry_.plugin->file(), what, failure);
}

std::uint64_t PluginCallback::draw() {
  const RandomStream stream(host_.seed, fmt::format("callback {} of rank {} of {}, world {}", entry_.table->name,
                                                    host_.rank, host_.ranks, draws_.worlds));
  return stream.bits(static_cast<std::uint64_t>(draws_.drawn++));
}

CallbackRequests PluginCallback::on(lockstep_event event, const lockstep_facts& facts, RunJournal& journal) {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  const char* const failure = entry_.table->event(self_, event, &facts);
  for (const std::string& note : std::exchange(notes_, {}))
    if (host_.rank == 0)
      journal.tell(
          {.step = facts.step, .name = "callback_note", .message = fmt::format("{}: {}", entry_.table->name, note)});
  require(failure, "fails");
  return std::exchange(asks_, {});
}

const std::string& PluginCallback::saved_text() {
  try {
    const char* text = nullptr;
    require(entry_.table->save(self_, &text), "cannot save its state");
    std::string saved = text == nullptr ? "" : text;
    require(is_utf8(saved) ? nullptr : "it is not UTF-8", "cannot save its state");
    text_ = std::move(saved);
  } catch (...) {
    failure_ = std::current_exception();
  }
  return text_;
}

std::vector<Component> PluginCallback::components() {
  std::vector<Component> components = declared_components(*entry_.table);
  for (Component& component : components) {
    if (component.key == state_key(*entry_.table)) {
      component.collect = [this] {
        StateTree state;
        state.set(text_key, saved_text());
        return state;
      };
      component.restore = [this](const StateTree& state) {
        text_ = state.value(text_key).get<std::string>();
        require(entry_.table->load(self_, text_.c_str()), "cannot load its state");
      };
    } else {
      component.collect = [this] {
        StateTree state;
        state.set(worlds_key, draws_.worlds);
        state.set(drawn_key, draws_.drawn);
        return state;
      };
      component.restore = [this](const StateTree& state) {
        draws_ = {integer(state, worlds_key), integer(state, drawn_key)};
      };
      component.remap = [this](const std::vector<StoredCell>& cells) {
        draws_ = {};
        for (const StoredCell& cell : cells)
          draws_.worlds = std::max(draws_.worlds, integer(cell.values, worlds_key) + 1);
      };
    }
  }
  return components;
}

}  // namespace lockstep
