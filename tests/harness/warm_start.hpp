// The protocol of warm starts, over a Unix socket. A client (warm_client.cpp) sends a header with the descriptors of
// its standard streams and its working folder, then the arguments and the variables, each ended by a zero byte. The
// server (warm_start.cpp) answers with the process number of the job, and at its end with the status of waitpid(2).
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>

namespace warm_start {

constexpr const char* socket_variable = "LOCKSTEP_TEST_WARM_START";  // the socket's path
constexpr const char* program_variable =
    "LOCKSTEP_TEST_COLD_START";  // the program that a client starts if no server answers

struct Header {
  std::uint32_t bytes = 0;      // of all arguments and variables
  std::uint32_t arguments = 0;  // how many
  mode_t mask = 0;
};

}  // namespace warm_start
