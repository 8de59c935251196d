// Draws the time line of a program (program/simulate.hpp), as a picture for people and as a trace for Perfetto, with a
// row for each rank of the time line and each of its lanes. Pure, deterministic.
#pragma once

#include "base/json_fwd.hpp"
#include "program/simulate.hpp"

#include <string>

namespace lockstep {

/// The ranks that a row of the time line represents: "rank 3", "each of ranks 0-7".
std::string ranks_text(const StepProgram& program, Rank rank);

/// A standalone SVG document that shows the actions of each lane over a time scale, coloured by kind of work and
/// numbered by micro-batch. Pointing at an action shows its words and times. The title is followed by `assumptions`, a
/// line about the origin of the times.
std::string plot_svg(const StepProgram& program, const Timeline& timeline, const std::string& assumptions = {});

/// The drawing in characters: `columns` of them for the whole step, each for the action that takes up most of its time.
///
///     rank 0  compute       F0F1··B0··B1··U
///
/// A character stands for the kind of work. If there is room, the number of the micro-batch follows. Actions that take
/// no time are not shown. `assumptions` is the second line, unless it is empty.
std::string plot_text(const StepProgram& program, const Timeline& timeline, int columns,
                      const std::string& assumptions = {});

/// The JSON of to_chrome_trace with the names of all rows.
Json plot_json(const StepProgram& program, const Timeline& timeline);

}  // namespace lockstep
