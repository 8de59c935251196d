// A callback that a plug-in brings: plugin/lockstep_plugin.h.
#pragma once

#include "base/random.hpp"
#include "plugin/plugins.hpp"
#include "train/callbacks.hpp"

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace lockstep {

/// What a checkpoint keeps of it, without the values. Pure.
std::vector<Component> declared_components(const lockstep_callback& callback);

class PluginCallback final : public Callback {
 public:
  /// Local. Throws Error(input) where the plug-in makes none.
  PluginCallback(const PluginEntry<lockstep_callback>& entry, std::uint64_t seed, Rank rank, int ranks);
  ~PluginCallback() override;
  PluginCallback(const PluginCallback&) = delete;
  PluginCallback& operator=(const PluginCallback&) = delete;

  std::string name() const override { return entry_.table->name; }
  bool listens() const override { return true; }
  CallbackAsks on(lockstep_event event, const lockstep_facts& facts, RunJournal& journal) override;
  std::vector<Component> components() override;

 private:
  /// Of a generator that begins anew on other ranks.
  struct Draws {
    std::int64_t worlds = 0;  // that it has been on before
    std::int64_t drawn = 0;
  };
  static PluginCallback& of(const lockstep_host* host) { return *static_cast<PluginCallback*>(host->self); }
  std::uint64_t draw();
  void require(const char* failure, const char* what) const;
  /// What the plug-in saves; what it saved before where it fails, of which the next event tells.
  const std::string& saved_text();

  PluginEntry<lockstep_callback> entry_;
  lockstep_host host_;
  void* self_ = nullptr;
  CallbackAsks asks_;
  std::vector<std::string> notes_;
  Draws draws_;
  std::string text_;            // as it was saved or loaded last
  std::exception_ptr failure_;  // of a save
};

}  // namespace lockstep
