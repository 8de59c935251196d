#include "comm/failure.hpp"

#include "base/json.hpp"
#include "base/words.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <set>

namespace lockstep {

namespace {

ExceptionTranslation translation_in_use = nullptr;

}  // namespace

void translate_exceptions(ExceptionTranslation translation) { translation_in_use = translation; }

Failure failure_of(const std::exception_ptr& exception, const Communicator& ranks) {
  Failure failure{.message = {}, .hint = {}, .rank = ranks.world_rank(), .host = host_name()};
  const auto take = [&](const Error& error) {
    failure.code = error.code();
    failure.message = error.what();
    failure.hint = error.hint();
  };
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    take(error);
  } catch (const std::bad_alloc&) {
    failure.code = ExitCode::resources;
    failure.message = "out of memory";
  } catch (const std::exception& error) {
    failure.message = error.what();
    if (translation_in_use != nullptr)
      if (const std::optional<Error> told = translation_in_use(error)) take(*told);
  } catch (...) {
    failure.message = "an exception of unknown type";
  }
  return failure;
}

std::string encode(const Failure& failure) {
  return to_text(Json{static_cast<int>(failure.code), failure.message, failure.hint, failure.rank, failure.host});
}

Failure decode_failure(const std::string& text) {
  const Json fields = parse_json(text, "failure of a rank");
  return {static_cast<ExitCode>(fields.at(0).get<int>()), fields.at(1).get<std::string>(),
          fields.at(2).get<std::string>(), fields.at(3).get<int>(), fields.at(4).get<std::string>()};
}

int severity(ExitCode code) {
  switch (code) {
    case ExitCode::done: return 0;
    case ExitCode::stopped: return 1;
    case ExitCode::verdict: return 2;
    case ExitCode::communication: return 3;
    case ExitCode::bug: return 100;
    case ExitCode::usage:
    case ExitCode::input:
    case ExitCode::storage:
    case ExitCode::resources:
    case ExitCode::numerics: break;
  }
  return 3 + static_cast<int>(code);
}

AgreedError explain(const std::vector<Failure>& failures, int size, std::string_view what) {
  const Failure& worst = *std::max_element(failures.begin(), failures.end(), [](const Failure& a, const Failure& b) {
    return severity(a.code) != severity(b.code) ? severity(a.code) < severity(b.code) : a.rank > b.rank;
  });
  std::vector<int> sharing;
  std::set<std::string> others;
  for (const Failure& failure : failures) {
    if (failure.message == worst.message && failure.code == worst.code) {
      sharing.push_back(failure.rank);
    } else {
      others.insert(failure.message);
    }
  }
  std::sort(sharing.begin(), sharing.end());
  std::string who;
  if (sharing.size() == 1 && size > 1) who = fmt::format("rank {} ({}): ", worst.rank, worst.host);
  if (sharing.size() > 1 && sharing.size() < static_cast<std::size_t>(size))
    who = fmt::format("ranks {}: ", rank_ranges(sharing));
  std::string message = who + (what.empty() ? "" : fmt::format("{}: ", what)) + worst.message;
  if (!others.empty()) message += fmt::format(" (and {} on other ranks)", counted(std::ssize(others), "other failure"));
  return {Error(worst.code, message, worst.hint), worst.rank};
}

}  // namespace lockstep
