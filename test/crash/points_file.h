#pragma once

#include <map>
#include <string>

namespace dra::crash {

using PointCounts = std::map<std::string, int>;  // label -> passes

// points.txt: the kill points of each scenario as they were when the file was last written. It is checked in, so that
// points that are gone show up as a change. Lines: "<scenario> <count> <label>".

// "" if each label of the scenario in the file is there now, as often at least; else what is missing and what to do.
std::string FindLostPoints(const std::string& scenario, const PointCounts& now);
// The scenario's lines; none if it has no.
PointCounts StoredPoints(const std::string& scenario);
// Replaces the scenario's lines.
void StorePoints(const std::string& scenario, const PointCounts& now);

}  // namespace dra::crash
