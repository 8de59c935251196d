// A library that is preloaded into train-job and turns it into a server of warm starts. The server loads LibTorch once.
// For each client (warm_client.cpp) it forks a process, which takes the client's arguments, variables, folder and
// standard streams and enters main. Loading LibTorch took two thirds of the time of the tests of whole jobs.
#include "warm_start.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Main = int (*)(int, char**, char**);
Main program_main = nullptr;

struct Request {
  std::array<int, 4> files{};  // standard streams, working folder
  mode_t mask = 0;
  std::vector<std::string> arguments;
  std::vector<std::string> variables;
};

/// Whether the whole of it came.
bool receive_all(int connection, void* bytes, std::size_t count) {
  auto* at = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t got = recv(connection, at, count, 0);
    if (got <= 0) return false;
    at += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

bool receive(int connection, Request& request) {
  warm_start::Header header;
  iovec part = {&header, sizeof header};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof request.files)> control{};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (recvmsg(connection, &message, MSG_WAITALL) != static_cast<ssize_t>(sizeof header)) return false;
  const cmsghdr* first = CMSG_FIRSTHDR(&message);
  if (!first || first->cmsg_type != SCM_RIGHTS) return false;
  std::memcpy(request.files.data(), CMSG_DATA(first), sizeof request.files);
  request.mask = header.mask;
  std::string text(header.bytes, '\0');
  if (!receive_all(connection, text.data(), text.size())) return false;
  std::vector<std::string>* into = &request.arguments;
  for (std::size_t at = 0; at < text.size();) {
    const std::string word = text.c_str() + at;
    at += word.size() + 1;
    into->push_back(word);
    if (into->size() == header.arguments && into == &request.arguments) into = &request.variables;
  }
  return true;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> found;
  for (std::string& word : words) found.push_back(word.data());
  found.push_back(nullptr);
  return found;
}

/// Enters main with the client's arguments, variables, folder and streams.
[[noreturn]] void enter(Request& request) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (fchdir(request.files[3]) != 0) _exit(127);
  for (int stream = 0; stream < 3; ++stream) dup2(request.files[static_cast<std::size_t>(stream)], stream);
  for (const int file : request.files) close(file);
  umask(request.mask);
  setpgid(0, 0);
  static std::vector<char*> arguments, variables;
  arguments = pointers(request.arguments);
  variables = pointers(request.variables);
  environ = variables.data();
  std::exit(program_main(static_cast<int>(request.arguments.size()), arguments.data(), environ));
}

/// Serves one client, in a process of its own. Kills the job if the client ends first.
[[noreturn]] void attend(int connection) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGCHLD, SIG_DFL);
  static Request request;
  if (!receive(connection, request)) _exit(1);
  std::array<int, 2> life{};  // only the job holds the end for writing, so that poll sees its death
  if (pipe2(life.data(), O_CLOEXEC) != 0) _exit(1);
  const pid_t job = fork();
  if (job < 0) _exit(1);
  if (job == 0) {
    close(life[0]);
    close(connection);
    enter(request);
  }
  close(life[1]);
  for (const int file : request.files) close(file);
  send(connection, &job, sizeof job, MSG_NOSIGNAL);
  std::array<pollfd, 2> events = {pollfd{life[0], POLLIN, 0}, pollfd{connection, POLLIN, 0}};
  while (poll(events.data(), events.size(), -1) < 0) {
  }
  if (!events[0].revents) kill(job, SIGKILL);
  int status = 0;
  waitpid(job, &status, 0);
  send(connection, &status, sizeof status, MSG_NOSIGNAL);
  _exit(0);
}

/// Serves clients until the test ends, which closes the standard input.
int serve(int, char**, char**) {
  const char* path = std::getenv(warm_start::socket_variable);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  const int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(door, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(door, 128) != 0) return 1;
  std::signal(SIGCHLD, SIG_IGN);
  std::array<pollfd, 2> events = {pollfd{door, POLLIN, 0}, pollfd{STDIN_FILENO, POLLIN, 0}};
  while (true) {
    if (poll(events.data(), events.size(), -1) < 0) continue;
    if (events[1].revents) _exit(0);
    const int connection = accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    if (fork() == 0) {
      close(door);
      attend(connection);
    }
    close(connection);
  }
}

bool is_train_job() {
  std::array<char, PATH_MAX> path{};
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  return size > 0 && std::string(path.data(), static_cast<std::size_t>(size)).ends_with("/train-job");
}

}  // namespace

/// Replaces the C library's function, which calls main once all libraries are initialised.
extern "C" int __libc_start_main(Main main, int count, char** arguments, void (*init)(), void (*fini)(),
                                 void (*at_exit)(), void* stack) {
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  const auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  program_main = main;
  return start(is_train_job() && std::getenv(warm_start::socket_variable) ? serve : main, count, arguments, init, fini,
               at_exit, stack);
}
