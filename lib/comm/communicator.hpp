// A group of ranks that speak to each other. The MPI implementation is comm/mpi_communicator.hpp; with one rank nothing
// is sent or copied. All members are Collective over the communicator unless they say Local: every rank of it calls
// them, in the same order. Communication behind the computation: comm/transport.hpp. Work that may fail on some ranks:
// comm/together.hpp.
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
  virtual int rank() const = 0;  // Local. In this communicator; the world rank for the world communicator
  virtual int size() const = 0;  // Local
  virtual const std::string& name() const = 0;       // Local. "world", "dp_replicate", …: for messages and traces
  virtual int world_rank() const { return rank(); }  // Local. As messages name a rank
  /// The world ranks of its ranks, by rank, as the communicator itself knows them. Local.
  virtual std::vector<Rank> members() const { return {world_rank()}; }
  /// The numbers that the launcher gave its ranks, by rank. Local.
  virtual std::vector<Rank> launcher_ranks() const { return members(); }

  virtual void barrier() = 0;
  /// In place, over all ranks. bf16 is summed in fp32 in rank order and rounded once; fp32 and fp64 are summed in rank
  /// order in their own precision. So the result is the same on all ranks and in every run, and depends on the number
  /// of ranks only. A minimum or maximum with a NaN among its operands is NaN. `bytes` holds elements of `dtype` (f64,
  /// f32, bf16, i64, u64, i32).
  virtual void all_reduce(std::span<std::byte> bytes, DType dtype, Reduce reduce) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  /// Every rank's bytes, by rank; lengths may differ.
  virtual std::vector<std::string> all_gather(const std::string& bytes) = 0;
  /// On `root` every rank's bytes, by rank; nothing elsewhere. Only the root's share grows with the ranks.
  virtual std::vector<std::string> gather(const std::string& bytes, int root) = 0;
  /// A new communicator of the ranks with the same colour (0 or more), ordered by rank. Collective over this one.
  virtual std::unique_ptr<Communicator> split(int colour, const std::string& name) = 0;

  /// Its calls that do not wait; of several ranks only. Local.
  virtual NonBlocking& calls();

  /// Ends the whole job now with this exit code, without a word to anyone; who calls it has printed why. Local.
  [[noreturn]] virtual void abort(int code) noexcept;

  // Conveniences on the above.
  double all_reduce(double value, Reduce reduce);
  std::int64_t all_reduce(std::int64_t value, Reduce reduce);
  void all_reduce(std::span<double> values, Reduce reduce);
  std::string broadcast(const std::string& text, int root);
};

/// The communicator of one rank. Local.
std::unique_ptr<Communicator> solo_communicator();

/// The name of this machine, as messages show it. Local.
std::string host_name();

}  // namespace lockstep
