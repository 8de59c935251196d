#include "remote/http.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/plugin.hpp"
#include "base/text.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <exception>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

namespace lockstep {

namespace {

constexpr int most_attempts = 6;  // in a row that bring nothing
constexpr double first_wait_s = 0.25;
constexpr double longest_wait_s = 60;  // that a server may ask for
constexpr std::size_t most_explanation = std::size_t{1} << 16;

const HttpPlugin& plugin() {
  static const auto* const opened = static_cast<const HttpPlugin*>(
      open_plugin("remote", "lockstep-http.so", HttpPlugin::entry, HttpPlugin::version_here));
  if (opened == nullptr)
    throw Error(ExitCode::input, "this build cannot download: it was built without libcurl",
                "install libcurl (Debian: libcurl4-openssl-dev) and rebuild, or copy the files to this machine");
  return *opened;
}

// As messages show it: without a password, or what a question mark introduces.
std::string shown(const std::string& url) {
  std::string text = url.substr(0, url.find('?'));
  const std::size_t host = text.find("://") + 3;
  const std::size_t at = text.find('@', host);
  if (at != std::string::npos && at < text.find('/', host)) text.erase(host, at + 1 - host);
  return text;
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::string HttpAnswer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

/// One try, as the plug-in tells of it.
struct HttpClient::Attempt {
  HttpAnswer answer;
  std::function<void(std::string_view)> take;  // the body
  const std::function<void()>* alive = nullptr;
  std::string problem;        // why no whole answer came
  std::exception_ptr thrown;  // by a callback
  bool progress = false;

  bool may_pass() const {
    return !problem.empty() || answer.status == 408 || answer.status == 429 || answer.status >= 500;
  }

  bool guarded(const std::function<void()>& work) {
    try {
      work();
      return true;
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  }

  void hear(std::string_view line) {
    line = trim(line);
    if (line.starts_with("HTTP/")) {  // an answer begins, maybe behind one that led here
      answer = {};
      const auto parts = split(std::string(line), ' ');
      answer.status = static_cast<int>(parts.size() < 2 ? 0 : number_in(parts[1]).value_or(0));
      return;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    answer.headers[lower_ascii(line.substr(0, colon))] = trim(line.substr(colon + 1));
  }
};

HttpClient::HttpClient(std::string bearer, std::function<void()> alive)
    : plugin_(plugin()), bearer_(std::move(bearer)), alive_(std::move(alive)) {}

void HttpClient::run(Attempt& attempt, const std::string& url, std::uint64_t from) const {
  attempt.alive = &alive_;
  HttpCall call;
  call.url = url.c_str();
  call.bearer = bearer_.empty() ? nullptr : bearer_.c_str();
  call.from = from;
  call.listener = &attempt;
  call.header = [](void* listener, const char* line, std::size_t bytes) {
    Attempt& heard = *static_cast<Attempt*>(listener);
    return heard.guarded([&] { heard.hear({line, bytes}); });
  };
  call.body = [](void* listener, const char* bytes, std::size_t count) {
    Attempt& heard = *static_cast<Attempt*>(listener);
    return heard.guarded([&] { heard.take({bytes, count}); });
  };
  call.alive = [](void* listener) {
    Attempt& heard = *static_cast<Attempt*>(listener);
    return heard.guarded(*heard.alive);
  };
  std::array<char, 512> problem{};
  if (!plugin_.get(&call, problem.data(), problem.size())) attempt.problem = problem.data();
  if (attempt.thrown) std::rethrow_exception(attempt.thrown);
}

void HttpClient::wait(double seconds) const {
  constexpr double slice_s = 0.1;
  for (const double end = monotonic_seconds() + seconds; monotonic_seconds() < end;) {
    alive_();
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(slice_s, seconds)));
  }
}

HttpAnswer HttpClient::persist(const std::string& url, const std::function<void(Attempt&)>& once) const {
  double pause_s = first_wait_s;
  for (int failed = 0;;) {
    alive_();
    Attempt attempt;
    once(attempt);
    if (!attempt.may_pass()) return std::move(attempt.answer);
    if (attempt.progress) {
      failed = 0;
      pause_s = first_wait_s;
    }
    if (++failed == most_attempts) {
      if (attempt.problem.empty()) return std::move(attempt.answer);
      throw Error(ExitCode::storage,
                  fmt::format("cannot read {}: {} (tried {} times)", shown(url), attempt.problem, most_attempts));
    }
    const auto asked_s = number_in(attempt.answer.header("retry-after"));
    wait(asked_s ? std::min(static_cast<double>(*asked_s), longest_wait_s) : pause_s);
    pause_s *= 2;
  }
}

HttpAnswer HttpClient::get(const std::string& url, std::size_t most_bytes) const {
  return persist(url, [&](Attempt& attempt) {
    attempt.take = [&](std::string_view bytes) {
      attempt.answer.body += bytes;
      if (attempt.answer.body.size() > most_bytes)
        fail(ExitCode::input, "{} is larger than {}", shown(url), human_bytes(most_bytes));
    };
    run(attempt, url, 0);
  });
}

HttpAnswer HttpClient::complete(const std::string& url, const Path& path, std::uint64_t bytes) const {
  FileDescriptor file = open_file(path, O_RDWR | O_CREAT | O_CLOEXEC);
  std::uint64_t have = length_of(path).value_or(0);
  const auto keep = [&](std::uint64_t length) {
    if (::ftruncate(file.get(), static_cast<off_t>(length)) != 0) fail_errno("shorten", path);
    have = length;
  };
  if (have > bytes) keep(0);
  HttpAnswer answer;
  answer.status = 200;
  if (have < bytes || bytes == 0) {
    answer = persist(url, [&](Attempt& attempt) {
      const std::uint64_t from = have;
      bool begun = false;
      attempt.take = [&](std::string_view got) {
        HttpAnswer& told = attempt.answer;
        if (told.status != 200 && told.status != 206) {
          told.body += got.substr(0, most_explanation - std::min(most_explanation, told.body.size()));
          return;
        }
        if (!std::exchange(begun, true)) {
          const bool goes_on =
              told.status == 206 && told.header("content-range").starts_with(fmt::format("bytes {}-", from));
          if (told.status == 206 && !goes_on)
            fail(ExitCode::storage, "{}: the server sent another range than requested ({})", shown(url),
                 told.header("content-range"));
          if (!goes_on) keep(0);
        }
        if (have + got.size() > bytes) {
          keep(0);
          fail(ExitCode::storage, "{}: the server sent more than the {} bytes of the list of files", shown(url), bytes);
        }
        write_at(file, std::as_bytes(std::span(got)), have, path);
        have += got.size();
      };
      run(attempt, url, from);
      attempt.progress = have > from;
      const bool succeeded = attempt.answer.status == 200 || attempt.answer.status == 206;
      if (attempt.problem.empty() && succeeded && have < bytes)
        attempt.problem = fmt::format("received {} of {} bytes", have, bytes);
      if (attempt.answer.status == 206 && have == bytes) attempt.answer.status = 200;
    });
  }
  if (answer.status == 200) sync_file(file, path);
  file.close(path);
  return answer;
}

}  // namespace lockstep
