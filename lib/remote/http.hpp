// HTTP GET through a plug-in, lockstep-http.so, which links libcurl and is opened with the first client. Temporary
// failures (a lost connection, status 408, 429 or 5xx) are retried a few times.
#pragma once

#include "base/files.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace lockstep {

/// One request and its callbacks, in plain C. Callbacks must not throw; a callback that returns false ends the request.
struct HttpCall {
  const char* url = nullptr;
  const char* bearer = nullptr;  // token for the URL's host, not sent after a redirect to another; or null
  std::uint64_t from = 0;        // first requested byte
  void* listener = nullptr;
  bool (*header)(void* listener, const char* line, std::size_t bytes) = nullptr;  // of each answer, redirects included
  bool (*body)(void* listener, const char* bytes, std::size_t count) = nullptr;   // of the last answer
  bool (*alive)(void* listener) = nullptr;                                        // about once a second
};

struct HttpPlugin {
  static constexpr int version_here = 1;
  static constexpr const char* entry = "lockstep_http";  // const HttpPlugin* lockstep_http()

  int version = version_here;
  /// Returns false if no complete answer came. The reason is then in `problem`, which has `room` bytes and ends with a
  /// zero.
  bool (*get)(const HttpCall* call, char* problem, std::size_t room) = nullptr;
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // empty if a file was received completely

  std::string header(const std::string& name) const;  // empty if missing
};

class HttpClient {
 public:
  /// `bearer` may be empty. `alive` is called during work and waiting; its exceptions end the request. Throws
  /// Error(input) if this build lacks the plug-in.
  HttpClient(std::string bearer, std::function<void()> alive);

  /// Returns the answer with any status. Throws Error(storage) if none came, and Error(input) if it exceeds
  /// `most_bytes`.
  HttpAnswer get(const std::string& url, std::size_t most_bytes) const;

  /// Downloads a file of `bytes` bytes to `path`; bytes that are already there are not fetched again. Returns status
  /// 200, or the answer of the server. Throws Error(storage), also if the number of bytes is still wrong after retries.
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
