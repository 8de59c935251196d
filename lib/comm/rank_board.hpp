// RankBoard shows where every rank of a job is. Each rank writes its status as it goes; the others read it when
// something is wrong, also where a rank cannot speak any more. The ranks of a machine share memory; between machines
// files pass through the run directory, and only once a rank asks. What a status means for the job: comm/session.hpp.
// How statuses become a table: comm/rank_table.hpp.
#pragma once

#include "base/files.hpp"
#include "comm/communicator.hpp"
#include "comm/phase.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// RankStatus says where a rank is, as another one sees it.
struct RankStatus {
  int rank = 0;  // world rank
  std::string host = {};
  bool known = false;  // false: its machine gives no sign
  Phase phase = Phase::start_up;
  std::int64_t step = -1;   // -1 outside steps
  double seconds = 0;       // since the phase began
  std::string action = {};  // of its program: "action 57, receive_forward"; empty: none
  bool waits = false;       // for other ranks
  enum class Process { runs, stopped, gone } process = Process::runs;
};

/// What the system says of a process of this machine. Local.
RankStatus::Process state_of_process(int process);

/// The host, and which of its sets of processes this one belongs to. Local.
std::string machine_name();

class RankBoard {
 public:
  /// The board of a rank that shares its status with nobody yet. `machine`: equal for ranks that can share memory and
  /// see each other's processes. Local.
  explicit RankBoard(const Communicator& world, std::string machine = machine_name());
  ~RankBoard();
  RankBoard(const RankBoard&) = delete;
  RankBoard& operator=(const RankBoard&) = delete;

  /// Shares the statuses of all ranks. `folder` is one that all machines see (it need not exist yet), or empty; what an
  /// earlier job said there when it ended is removed. Once. Collective over `world`.
  void share(Communicator& world, const Path& folder);

  /// The rank goes on to another phase. Local, of the thread that made the object: its waiting counts.
  void enter(Phase phase, std::int64_t step, const CurrentAction& action = {});
  RankStatus mine() const;  // Local; from any thread
  /// This rank ends in good order: nobody should wonder where it is. Local.
  void leave();

  /// True for one caller in the job, once: who got it explains how the job ends, the others leave that to it. Local;
  /// from any thread.
  bool claim_report();
  /// Whether the claim was made on another machine: then this one should report_machine(). Local, reads the folder.
  bool claimed_elsewhere() const;
  /// Writes the report of this machine into the folder for the rank that explains; the first caller of a machine does.
  /// Local.
  void report_machine();
  /// The statuses of all ranks: those of this machine, and what others report within `patience_s`. Local; does not
  /// throw.
  std::vector<RankStatus> all(double patience_s);

  struct Neighbour {
    int rank;
    int descriptor;  // readable when its process has ended
  };
  /// The other ranks of this machine whose end can be noticed. Local.
  const std::vector<Neighbour>& neighbours() const;
  RankStatus neighbour(int rank) const;  // Local
  bool has_left(int rank) const;         // Local; in good order

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
