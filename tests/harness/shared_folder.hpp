// One folder for all ranks of an MPI test; rank 0 creates and removes it.
#pragma once

#include "harness/mpi_test.hpp"
#include "harness/temporary_folder.hpp"

#include <optional>
#include <string>

namespace lockstep::test {

struct SharedFolder {
  std::optional<TemporaryFolder> own;
  Path path;
  SharedFolder() {
    if (world().rank() == 0) own.emplace();
    path = world().broadcast(own ? own->path.string() : std::string(), 0);
  }
  ~SharedFolder() { world().barrier(); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
};

}  // namespace lockstep::test
