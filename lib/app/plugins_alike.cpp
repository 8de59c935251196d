#include "app/plugins_alike.hpp"

#include "comm/together.hpp"
#include "plugin/plugins.hpp"

#include <fmt/format.h>

#include <string>

namespace lockstep {

void agree_on_plugins(Communicator& world) {
  std::string contents;
  for (const auto& plugin : Plugins::opened().all())
    contents += fmt::format("{} of content {} ", plugin->table().name, plugin->content_hash());
  agree_equal(world, "the plug-ins", contents);
}

}  // namespace lockstep
