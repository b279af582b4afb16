// The subcommands of `echelon`: one file each, all made of the same stages (tools/driver).
#pragma once
#include "tools/driver/ExitCode.h"
#include <CLI/CLI.hpp>

namespace echelon {

/// Each adds its subcommand to the application; when it is chosen, `exitCode` is set.
void addCheck(CLI::App &app, int &exitCode);
void addFormat(CLI::App &app, int &exitCode);
void addExplain(CLI::App &app, int &exitCode);
void addBuild(CLI::App &app, int &exitCode);
void addRun(CLI::App &app, int &exitCode);
void addEvaluate(CLI::App &app, int &exitCode);
void addPlan(CLI::App &app, int &exitCode);
void addVerify(CLI::App &app, int &exitCode);
void addCalibrate(CLI::App &app, int &exitCode);

} // namespace echelon
