// A Communicator is a group of ranks that communicate with each other. All members are Collective over the communicator
// unless they say Local: every rank of it calls them, in the same order. With one rank nothing is sent or copied. The
// MPI implementation: comm/mpi_communicator.hpp. Communication beside the computation: comm/transport.hpp. Work that
// may fail on some ranks: comm/together.hpp.
#pragma once

#include "comm/non_blocking.hpp"
#include "layout/dtype.hpp"
#include "layout/mesh.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

enum class Reduce { sum, min, max };

class Communicator {
 public:
  virtual ~Communicator() = default;
  // Local. Rank in this communicator; the world rank for the world communicator.
  virtual int rank() const = 0;
  virtual int size() const = 0;  // Local
  // Local. "world", "dp_replicate", …: for messages and traces.
  virtual const std::string& name() const = 0;
  // Local. The rank's number in messages.
  virtual int world_rank() const { return rank(); }
  /// The world ranks of its members, by rank, as known to the communicator itself. Local.
  virtual std::vector<Rank> members() const { return {world_rank()}; }
  /// The numbers that the launcher gave its members, by rank. Local.
  virtual std::vector<Rank> launcher_ranks() const { return members(); }

  virtual void barrier() = 0;
  /// Reduces in place over all ranks. bf16 and fp16 are summed in fp32 in rank order and rounded once; fp32 and fp64
  /// are summed in rank order in their own precision. So the result is the same on all ranks and in every run, and
  /// depends only on the number of ranks. A minimum or maximum with a NaN among its operands is NaN. `bytes` holds
  /// elements of `dtype` (f64, f32, bf16, f16, i64, u64, i32).
  virtual void all_reduce(std::span<std::byte> bytes, DType dtype, Reduce reduce) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  /// The bytes of every rank, by rank; lengths may differ.
  virtual std::vector<std::string> all_gather(const std::string& bytes) = 0;
  /// On `root` the bytes of every rank, by rank; empty elsewhere. Only the root's share grows with the number of ranks.
  virtual std::vector<std::string> gather(const std::string& bytes, int root) = 0;
  /// Makes a communicator of the ranks with the same colour (0 or more), ordered by rank. Collective over this one.
  virtual std::unique_ptr<Communicator> split(int colour, const std::string& name) = 0;

  /// Its non-blocking calls; only if it has several ranks. Local.
  virtual NonBlocking& calls();

  /// Ends the whole job now with this exit code and without a message; the caller has printed the reason. Local.
  [[noreturn]] virtual void abort(int code) noexcept;

  // Conveniences on the above.
  double all_reduce(double value, Reduce reduce);
  std::int64_t all_reduce(std::int64_t value, Reduce reduce);
  void all_reduce(std::span<double> values, Reduce reduce);
  std::string broadcast(const std::string& text, int root);
};

/// The communicator of one rank. Local.
std::unique_ptr<Communicator> solo_communicator();

/// The name of this machine for messages. Local.
std::string host_name();

}  // namespace lockstep
