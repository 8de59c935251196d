#include "report/build_info.hpp"

#include "report/build_values.hpp"

namespace lockstep {

std::string_view version() { return LOCKSTEP_VERSION; }

std::vector<std::pair<std::string, std::string>> build_info() {
  return {{"version", LOCKSTEP_VERSION},   {"compiler", LOCKSTEP_COMPILER}, {"build", LOCKSTEP_BUILDTYPE},
          {"system", LOCKSTEP_SYSTEM},     {"mpi", LOCKSTEP_MPI},           {"hdf5", LOCKSTEP_HDF5},
          {"libtorch", LOCKSTEP_LIBTORCH}, {"cuda", LOCKSTEP_CUDA}};
}

}  // namespace lockstep
