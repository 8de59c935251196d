#include "program/memory_fit.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <map>
#include <string_view>

namespace lockstep {

namespace {

/// What shares one limit.
struct Sharers {
  std::string host;
  MemoryLimit limit;                           // with the least that any of them sees available
  std::map<std::int64_t, std::int64_t> ranks;  // how many, by what each needs

  std::int64_t needed() const {
    std::int64_t sum = 0;
    for (const auto& [bytes, count] : ranks) sum += bytes * count;
    return sum;
  }
  std::int64_t count() const {
    std::int64_t sum = 0;
    for (const auto& [bytes, count] : ranks) sum += count;
    return sum;
  }
};

std::string explain(const Sharers& sharers, MemoryCompared compared) {
  std::vector<std::string> terms;
  for (const auto& [bytes, count] : sharers.ranks)
    terms.insert(terms.begin(), count == 1 ? human_bytes(bytes) : fmt::format("{} × {}", count, human_bytes(bytes)));
  const std::string sum = join(terms, " + ");
  const std::string total = human_bytes(sharers.needed());
  const MemoryLimit& limit = sharers.limit;
  const std::string bytes = sum == total ? total : fmt::format("{} = {}", sum, total);
  return fmt::format(
      "{}, and {}{}",
      sharers.count() == 1 ? fmt::format("{}: its rank needs {} of memory", sharers.host, bytes)
                           : fmt::format("{}: its {} ranks need {} of memory", sharers.host, sharers.count(), bytes),
      compared == MemoryCompared::total
          ? fmt::format("there are {}", human_bytes(limit.total_bytes))
          : fmt::format("{} of {} are available", human_bytes(limit.available_bytes), human_bytes(limit.total_bytes)),
      limit.group.empty() ? "" : fmt::format(" in its control group {}", limit.group));
}

}  // namespace

std::string RankMemory::encode() const {
  Json json{{"host", host}, {"bytes", bytes}, {"limits", Json::array()}};
  for (const MemoryLimit& limit : limits)
    json["limits"].push_back({limit.identity, limit.group, limit.total_bytes, limit.available_bytes});
  return to_text(json);
}

RankMemory RankMemory::decode(const std::string& text) {
  const Json json = parse_json(text, "the memory of a rank");
  RankMemory rank{.host = json.at("host"), .bytes = json.at("bytes"), .limits = {}};
  for (const Json& limit : json.at("limits")) rank.limits.push_back({limit[0], limit[1], limit[2], limit[3]});
  return rank;
}

std::optional<std::string> memory_shortage(const std::vector<RankMemory>& ranks, MemoryCompared compared) {
  const auto room = [&](const MemoryLimit& limit) {
    return compared == MemoryCompared::total ? limit.total_bytes : limit.available_bytes;
  };
  std::map<std::string, Sharers> shared;
  for (const RankMemory& rank : ranks) {
    for (const MemoryLimit& limit : rank.limits) {
      Sharers& sharers = shared.try_emplace(limit.identity, Sharers{rank.host, limit, {}}).first->second;
      if (room(limit) < room(sharers.limit)) sharers.limit = limit;
      ++sharers.ranks[rank.bytes];
    }
  }
  const Sharers* worst = nullptr;
  std::int64_t most = 0;
  for (const auto& [identity, sharers] : shared) {
    const std::int64_t missing = sharers.needed() - room(sharers.limit);
    if (missing <= most) continue;
    most = missing;
    worst = &sharers;
  }
  return worst == nullptr ? std::nullopt : std::optional(explain(*worst, compared));
}

namespace {

std::string_view smaller(ProgramPhase phase) {
  switch (phase) {
    case ProgramPhase::training: return "a smaller train.micro_batch, --train.recompute block";
    case ProgramPhase::evaluation: return "a smaller eval.micro_batch";
    case ProgramPhase::prompt:
    case ProgramPhase::token: return "a smaller sample.batch or sample.max_tokens, shorter prompts";
  }
  fail(ExitCode::bug, "unknown ProgramPhase {}", static_cast<int>(phase));
}

}  // namespace

std::string less_machine_memory(std::optional<ProgramPhase> peak) {
  return peak ? fmt::format("{} or fewer ranks on a machine", smaller(*peak))
              : "fewer ranks on a machine, or ranks on more machines that share the weights";
}

std::string less_device_memory(std::optional<ProgramPhase> peak) {
  return peak ? fmt::format("{}, train.offload, or more ranks that share the weights", smaller(*peak))
              : "train.offload or more ranks that share the weights";
}

}  // namespace lockstep
