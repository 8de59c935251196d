// What the server of warm starts (warm_start.cpp) and its clients (warm_client.cpp) say to each other over a socket of
// this machine: a header, with the standard streams and the working folder beside it, then arguments and variables,
// each ended by a zero byte; back come the process, and how it ended as waitpid(2) says it.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>

namespace warm_start {

constexpr const char* socket_variable = "LOCKSTEP_TEST_WARM_START";   // the socket's path
constexpr const char* program_variable = "LOCKSTEP_TEST_COLD_START";  // what a client becomes if nobody answers

struct Header {
  std::uint32_t bytes = 0;      // of all arguments and variables
  std::uint32_t arguments = 0;  // how many
  mode_t mask = 0;
};

}  // namespace warm_start
