#include "app/agreed_start.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "comm/together.hpp"
#include "plugin/plugins.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace lockstep {

namespace {

std::vector<std::string> lines_of(const Settings& settings) {
  std::vector<std::string> lines;
  for (const Setting& setting : settings)
    if (setting.path != "checkpoint.local_dir")
      lines.push_back(fmt::format("{}: {}", setting.path, to_text(*setting.value)));
  return lines;
}

}  // namespace

void agree_on_start(Communicator& world, const Settings& settings) {
  std::string contents;
  for (const auto& plugin : Plugins::opened().all())
    contents += fmt::format("{} of content {} ", plugin->table().name, plugin->content_hash());
  agree_equal(world, "the plug-ins", contents);
  const std::vector<std::string> mine = lines_of(settings);
  const std::vector<std::string> first = split(world.broadcast(join(mine, "\n"), 0), '\n');
  together(world, "", [&] {
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (i >= first.size() || mine[i] != first[i])
        throw Error(ExitCode::usage,
                    fmt::format("the configuration differs from that of rank 0: {} here, {} there", mine[i],
                                i < first.size() ? first[i] : "nothing"),
                    "start all ranks with the same configuration files and the same environment variables");
  });
}

}  // namespace lockstep
