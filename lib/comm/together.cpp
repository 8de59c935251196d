#include "comm/together.hpp"

#include "comm/failure.hpp"
#include "comm/local_work.hpp"

#include <algorithm>
#include <optional>

namespace lockstep {

namespace {

std::optional<Failure> attempt(const Communicator& ranks, const std::function<void()>& work) {
  try {
    const LocalWork local;
    work();
    return std::nullopt;
  } catch (...) {
    return failure_of(std::current_exception(), ranks);
  }
}

std::string shortened(const std::string& value) {
  constexpr std::size_t limit = 80;
  return value.size() <= limit ? value : fmt::format("{}… ({} bytes)", value.substr(0, limit), value.size());
}

}  // namespace

void together(Communicator& ranks, std::string_view what, const std::function<void()>& work) {
  const std::optional<Failure> mine = attempt(ranks, work);
  const std::int64_t failed = ranks.all_reduce(std::int64_t{mine ? 1 : 0}, Reduce::sum);
  if (failed == 0) return;
  std::vector<Failure> failures;
  for (const std::string& text : ranks.all_gather(mine ? encode(*mine) : std::string())) {
    if (!text.empty()) failures.push_back(decode_failure(text));
  }
  throw explain(failures, ranks.size(), what);
}

std::string run_on_rank0(Communicator& ranks, std::string_view what, const std::function<std::string()>& work) {
  std::string told;  // 'y' and the text, or 'n' and the failure
  if (ranks.rank() == 0) {
    const std::optional<Failure> failure = attempt(ranks, [&] { told = "y" + work(); });
    if (failure) told = "n" + encode(*failure);
  }
  told = ranks.broadcast(told, 0);
  if (told.front() == 'n') throw explain({decode_failure(told.substr(1))}, ranks.size(), what);
  return told.substr(1);
}

void agree_equal(Communicator& ranks, std::string_view what, std::string_view value) {
  const std::string first = ranks.broadcast(std::string(value), 0);
  const std::int64_t equal = ranks.all_reduce(std::int64_t{first == value ? 1 : 0}, Reduce::sum);
  if (equal == ranks.size()) return;
  const std::vector<std::string> values = ranks.all_gather(shortened(std::string(value)));
  const std::vector<std::string> flags = ranks.all_gather(first == value ? "" : std::to_string(ranks.world_rank()));
  const auto different =
      std::find_if(flags.begin(), flags.end(), [](const std::string& flag) { return !flag.empty(); });
  const int owner = std::stoi(*different);
  const std::string& other = values[static_cast<std::size_t>(different - flags.begin())];
  throw AgreedError(
      Error(ExitCode::usage,
            fmt::format("{} differs between ranks: '{}' on rank {}, '{}' on the first", what, other, owner, values[0]),
            "start every rank with the same program, configuration and files"),
      owner);
}

}  // namespace lockstep
