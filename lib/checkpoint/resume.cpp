#include "checkpoint/resume.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/checkpoint_verify.hpp"

#include <map>
#include <memory>

namespace lockstep {

namespace {

// Checkpoints that proved damaged while they were loaded, each with what was found.
using Damaged = std::map<std::string, std::string>;

Found find(Communicator& ranks, const Path& run, const std::string& which, const std::string& metric,
           const Damaged& damaged) {
  const auto defect = [&](const Path& path) -> std::optional<std::string> {
    const auto known = damaged.find(path.string());
    return known != damaged.end() ? known->second : first_defect(path, VerifyLevel::sizes);
  };
  const std::string told = rank0_tells(ranks, "looking for a checkpoint", [&] {
    const Found found = find_checkpoint(run, which, metric, defect);
    if (!found.checkpoint && !found.rejected.empty()) {
      throw Error(ExitCode::input,
                  fmt::format("{} has checkpoints, but none is sound: {}", run.string(), join(found.rejected, "; ")),
                  "move them away to start anew, or name one to inspect");
    }
    Json result = {{"path", nullptr}, {"rejected", found.rejected}};
    if (found.checkpoint) {
      result["path"] = found.checkpoint->path.string();
      result["step"] = found.checkpoint->step;
    }
    return to_text(result);
  });
  const Json result = parse_json(told, "the answer of rank 0");
  Found found{{}, result.at("rejected").get<std::vector<std::string>>()};
  if (!result.at("path").is_null())
    found.checkpoint = CheckpointEntry{result.at("path").get<std::string>(), result.at("step").get<std::int64_t>()};
  return found;
}

}  // namespace

Found find_resume(Communicator& ranks, const Path& run, const std::string& which, const std::string& metric) {
  return find(ranks, run, which, metric, {});
}

Resumed resume(Communicator& ranks, const World& world, const Path& run, const std::string& which,
               const std::vector<Component>& components, const Accept& accept, const std::string& metric) {
  Damaged damaged;
  while (true) {
    const Found found = find(ranks, run, which, metric, damaged);
    if (!found.checkpoint) return {{}, found.rejected, {}};
    const std::string path = found.checkpoint->path.string();
    std::unique_ptr<CheckpointReader> reader;
    try {
      together(ranks, "opening " + path, [&] {
        reader = std::make_unique<CheckpointReader>(path);
        if (accept) accept(*reader);
      });
      return {found.checkpoint, found.rejected, load(ranks, world, *reader, components)};
    } catch (const AgreedError& error) {  // the same on all ranks, so all take the same next step
      if (which != "latest" || error.code() != ExitCode::input) throw;
      damaged[path] = error.what();
    }
  }
}

}  // namespace lockstep
