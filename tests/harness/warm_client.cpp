// Takes the place of train-job in tests. It asks the server of warm starts (warm_start.cpp) for the job, passes signals
// to it and ends with its status. If no server answers, it executes train-job.
#include "warm_start.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

volatile pid_t job = 0;
void pass_on(int signal) {
  if (job > 0) kill(job, signal);
}

int connect_to(const char* path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return connection;
  close(connection);
  return -1;
}

bool request(int connection, int count, char** arguments) {
  std::string text;
  for (int at = 0; at < count; ++at) text.append(arguments[at]).push_back('\0');
  for (char** variable = environ; *variable; ++variable) text.append(*variable).push_back('\0');
  const mode_t mask = umask(0);
  umask(mask);
  warm_start::Header header = {
      .bytes = static_cast<std::uint32_t>(text.size()), .arguments = static_cast<std::uint32_t>(count), .mask = mask};
  const std::array<int, 4> files = {0, 1, 2, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof files)> control{};
  iovec part = {&header, sizeof header};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* first = CMSG_FIRSTHDR(&message);
  first->cmsg_level = SOL_SOCKET;
  first->cmsg_type = SCM_RIGHTS;
  first->cmsg_len = CMSG_LEN(sizeof files);
  std::memcpy(CMSG_DATA(first), files.data(), sizeof files);
  if (sendmsg(connection, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof header)) return false;
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t sent = send(connection, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive(int connection, int& word) {
  ssize_t got;
  do got = recv(connection, &word, sizeof word, MSG_WAITALL);
  while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof word);
}

}  // namespace

int main(int count, char** arguments) {
  const char* path = std::getenv(warm_start::socket_variable);
  const char* program = std::getenv(warm_start::program_variable);
  const int connection = path ? connect_to(path) : -1;
  if (connection < 0) {
    if (program) execv(program, arguments);
    return 127;
  }
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  int started = 0, status = 0;
  if (!request(connection, count, arguments) || !receive(connection, started)) return 127;
  job = started;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction action = {};
    action.sa_handler = pass_on;
    sigaction(signal, &action, nullptr);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  // The streams are the job's alone: who reads them sees their end when it ends.
  for (int stream = 0; stream < 3; ++stream) close(stream);
  if (!receive(connection, status)) return 127;
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  std::signal(WTERMSIG(status), SIG_DFL);
  raise(WTERMSIG(status));
  return 128 + WTERMSIG(status);
}
