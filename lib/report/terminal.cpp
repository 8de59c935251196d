#include "report/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace lockstep {

namespace {

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_capable_terminal(int fd) {
  return ::isatty(fd) == 1 && environment("TERM") != "dumb" && !environment("TERM").empty();
}

}  // namespace

bool use_color(When color, int fd) {
  if (color != When::automatic) return color == When::always;
  return environment("NO_COLOR").empty() && is_capable_terminal(fd);
}

bool draw_in_place(When progress, int fd) {
  if (progress != When::automatic) return progress == When::always;
  return is_capable_terminal(fd);
}

int columns_of(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool takes_unicode() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = environment(name);
    if (!value.empty())
      return value.find("UTF-8") != std::string_view::npos || value.find("utf8") != std::string_view::npos;
  }
  return false;
}

}  // namespace lockstep
