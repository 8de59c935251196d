// RankBoard shows the status of every rank of a job. Each rank writes its status as it works; the others read it when
// something is wrong, even if a rank no longer responds. Ranks of one machine use shared memory. Between machines,
// files pass through the run directory, and only when a rank asks. Consequences of a status for the job:
// comm/session.hpp. Statuses as a table: comm/rank_table.hpp.
#pragma once

#include "base/files.hpp"
#include "comm/communicator.hpp"
#include "comm/phase.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// RankStatus describes the current work of a rank for another rank.
struct RankStatus {
  int rank = 0;  // world rank
  std::string host = {};
  bool known = false;  // false: its machine does not report
  Phase phase = Phase::start_up;
  std::int64_t step = -1;   // -1 outside steps
  double seconds = 0;       // since the phase began
  std::string action = {};  // current action of its program: "action 57, receive_forward"; empty: none
  bool waits = false;       // for other ranks
  enum class Process { runs, stopped, gone } process = Process::runs;
};

/// The state of a process of this machine, from the system. Local.
RankStatus::Process state_of_process(int process);

/// The host and the set of processes (container) on it that this process belongs to. Local.
std::string machine_name();

class RankBoard {
 public:
  /// The board of a rank that does not share its status yet. `machine`: equal for ranks that can share memory and see
  /// each other's processes. Local.
  explicit RankBoard(const Communicator& world, std::string machine = machine_name());
  ~RankBoard();
  RankBoard(const RankBoard&) = delete;
  RankBoard& operator=(const RankBoard&) = delete;

  /// Shares the statuses of all ranks. `folder` is a folder that all machines see (it need not exist yet), or empty.
  /// Reports that an earlier job left there when it ended are removed. Call once. Collective over `world`.
  void share(Communicator& world, const Path& folder);

  /// Sets the rank's current phase. Local; call on the thread that made the object, because its waiting counts.
  void enter(Phase phase, std::int64_t step, const CurrentAction& action = {});
  /// Sets the name of the operation in which this rank's device waits; empty: it does not wait. Local; from one thread.
  void name_wait(std::string_view what);
  RankStatus mine() const;  // Local; from any thread
  /// Marks that this rank ends in good order, so that its end is not reported as a failure. Local.
  void leave();

  /// Returns true for one caller in the job, once: that rank explains how the job ends, and the others leave it to do
  /// so. Local; from any thread.
  bool claim_report();
  /// Whether the claim was made on another machine. Then this machine should call report_machine(). Local; reads the
  /// folder.
  bool claimed_elsewhere() const;
  /// Writes the report of this machine into the folder, for the rank that explains. Only the first caller of a machine
  /// writes. Local.
  void report_machine();
  /// The statuses of all ranks: of this machine, and of other machines that report within `patience_s`. Local; does not
  /// throw.
  std::vector<RankStatus> all(double patience_s);

  struct Neighbour {
    int rank;
    int descriptor;  // readable when its process has ended
  };
  /// The other ranks of this machine whose end can be detected. Local.
  const std::vector<Neighbour>& neighbours() const;
  RankStatus neighbour(int rank) const;  // Local
  bool has_left(int rank) const;         // Local; in good order

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
