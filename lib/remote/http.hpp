// GET over HTTP, through a plug-in that is opened with the first client: lockstep-http.so, which links libcurl. What
// may pass (a lost connection, 429, 5xx) is tried again, for a while.
#pragma once

#include "base/files.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace lockstep {

/// One request, and who listens, in plain C. No callback may throw; one that returns false ends the request.
struct HttpCall {
  const char* url = nullptr;
  const char* bearer = nullptr;  // a token for the host of the URL, and for no other that it leads to; or null
  std::uint64_t from = 0;        // the first byte that is asked for
  void* listener = nullptr;
  bool (*header)(void* listener, const char* line, std::size_t bytes) = nullptr;  // of each answer on the way
  bool (*body)(void* listener, const char* bytes, std::size_t count) = nullptr;   // of the last
  bool (*alive)(void* listener) = nullptr;                                        // about once a second
};

struct HttpPlugin {
  static constexpr int version_here = 1;
  static constexpr const char* entry = "lockstep_http";  // const HttpPlugin* lockstep_http()

  int version = version_here;
  /// False if no whole answer came; why stands in `problem`, of `room` bytes, with a zero at the end.
  bool (*get)(const HttpCall* call, char* problem, std::size_t room) = nullptr;
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // of a file that came whole: empty

  std::string header(const std::string& name) const;  // empty if it is not there
};

class HttpClient {
 public:
  /// `bearer` may be empty. `alive` is called while the client works and waits; what it throws ends that.
  /// Throws Error(input) if this build lacks the plug-in.
  HttpClient(std::string bearer, std::function<void()> alive);

  /// The answer, whatever its status. Throws Error(storage) if none came, Error(input) for more than `most_bytes`.
  HttpAnswer get(const std::string& url, std::size_t most_bytes) const;

  /// Makes the file `path` the `bytes` bytes at the URL, from the bytes on that it has; status 200 then, else what was
  /// answered. Throws Error(storage), also if more or fewer bytes came, though tried again.
  HttpAnswer complete(const std::string& url, const Path& path, std::uint64_t bytes) const;

 private:
  struct Attempt;
  HttpAnswer persist(const std::string& url, const std::function<void(Attempt&)>& once) const;
  void run(Attempt& attempt, const std::string& url, std::uint64_t from) const;
  void wait(double seconds) const;

  const HttpPlugin& plugin_;
  std::string bearer_;
  std::function<void()> alive_;
};

}  // namespace lockstep
