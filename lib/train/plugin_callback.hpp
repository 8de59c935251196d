// A callback of a plug-in. The interface: plugin/lockstep_plugin.h.
#pragma once

#include "base/random.hpp"
#include "plugin/plugins.hpp"
#include "train/callbacks.hpp"

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace lockstep {

/// Returns its components in a checkpoint, without values. Pure.
std::vector<Component> declared_components(const lockstep_callback& callback);

class PluginCallback final : public Callback {
 public:
  /// Makes the callback. Local. Throws Error(input) if the plug-in cannot.
  PluginCallback(const PluginEntry<lockstep_callback>& entry, std::uint64_t seed, Rank rank, int ranks);
  ~PluginCallback() override;
  PluginCallback(const PluginCallback&) = delete;
  PluginCallback& operator=(const PluginCallback&) = delete;

  std::string name() const override { return entry_.table->name; }
  bool listens() const override { return true; }
  CallbackRequests on(lockstep_event event, const lockstep_facts& facts, RunJournal& journal) override;
  std::vector<Component> components() override;

 private:
  /// Draws is the state of a random generator that restarts when a run continues on other ranks.
  struct Draws {
    std::int64_t worlds = 0;  // earlier sets of ranks
    std::int64_t drawn = 0;
  };
  static PluginCallback& of(const lockstep_host* host) { return *static_cast<PluginCallback*>(host->self); }
  std::uint64_t draw();
  void require(const char* failure, const char* what) const;
  /// Returns the text that the plug-in saves. If saving fails, returns the previous text; the next event reports the
  /// failure.
  const std::string& saved_text();

  PluginEntry<lockstep_callback> entry_;
  lockstep_host host_;
  void* self_ = nullptr;
  CallbackRequests asks_;
  std::vector<std::string> notes_;
  Draws draws_;
  std::string text_;            // last saved or loaded text
  std::exception_ptr failure_;  // of a save
};

}  // namespace lockstep
