#include "comm/mpi_session.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/launch.hpp"

#include <mpi.h>

#include <chrono>
#include <thread>

namespace lockstep {

struct MpiSession::State {
  MPI_Comm outcomes = MPI_COMM_NULL;
  std::uint64_t mine = 0;
  std::vector<std::uint64_t> all;
};

MpiSession::MpiSession() : state_(std::make_unique<State>()) {
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
    fail(ExitCode::communication, "MPI does not start");
  if (provided < MPI_THREAD_MULTIPLE) {
    throw Error(ExitCode::communication, "this MPI does not let several threads communicate (MPI_THREAD_MULTIPLE)",
                "use an MPI that was built with thread support");
  }
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (const int launched = launch_of_process().ranks; size == 1 && launched > 1) {
    throw Error(ExitCode::communication,
                fmt::format("the launcher started {} processes, but MPI does not connect them", launched),
                "with srun, give --mpi=pmix; with mpirun, use the one of the MPI that this program was built with");
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &state_->outcomes);
  MPI_Comm_set_errhandler(state_->outcomes, MPI_ERRORS_RETURN);
  state_->all.resize(static_cast<std::size_t>(size));
}

MpiSession::~MpiSession() { MPI_Finalize(); }

std::optional<std::vector<std::uint64_t>> MpiSession::gather_outcomes(std::uint64_t word, double patience_s) {
  state_->mine = word;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(&state_->mine, 1, MPI_UINT64_T, state_->all.data(), 1, MPI_UINT64_T, state_->outcomes, &request);
  const double start = monotonic_seconds();
  for (int done = 0;;) {
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return std::nullopt;
    if (done != 0) return state_->all;
    if (patience_s >= 0 && monotonic_seconds() - start > patience_s) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
}

}  // namespace lockstep
