// The time line of a program (program/simulate.hpp) as a drawing for people and as a trace for Perfetto: a row for each
// rank of the time line and each of its lanes. Pure, deterministic.
#pragma once

#include "base/json_fwd.hpp"
#include "program/simulate.hpp"

#include <string>

namespace lockstep {

/// For whom a row of the time line stands: "rank 3", "each of ranks 0-7".
std::string ranks_text(const StepProgram& program, Rank rank);

/// A standalone SVG document: what each lane does when, coloured by kind of work and numbered by micro-batch, over a
/// scale in seconds; pointing at an action shows its words and times.
std::string plot_svg(const StepProgram& program, const Timeline& timeline);

/// The same in characters, `columns` of them for the whole step, each for what takes up most of its time:
///
///     rank 0  compute       F0F1··B0··B1··U
///
/// One character stands for the kind of work; where there is room for it, the micro-batch follows. Actions that take no
/// time do not show.
std::string plot_text(const StepProgram& program, const Timeline& timeline, int columns);

/// The JSON of to_chrome_trace with the names of all rows.
Json plot_json(const StepProgram& program, const Timeline& timeline);

}  // namespace lockstep
