#include "app/output.hpp"

#include "base/error.hpp"
#include "base/json.hpp"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace lockstep {

Output::Output(CommonOptions common, Settings settings, Log& log, int fd)
    : common_(std::move(common)), settings_(std::move(settings)), log_(log), fd_(fd) {}

void Output::print(std::string_view text) {
  while (!text.empty() && !reader_gone_) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      reader_gone_ = true;
    } else if (errno != EINTR) {
      fail_errno("write", "standard output");
    }
  }
}

void Output::close() {
  const int copy = ::dup(fd_);
  if (copy >= 0 && ::close(copy) != 0 && errno != EINTR)
    fail_errno("write", "standard output");  // a network file system tells only here
}

void Output::print_json(const Json& value) { print(to_text(value, 2) + "\n"); }

}  // namespace lockstep
