#!/bin/sh
# The long form of the crash tests: every kill point, more states for each power cut, minutes of random calls.
# usage: test/crash/run.sh BUILD_DIR [SECONDS [SEED]]
#   SECONDS  how long the random test runs (300)
#   SEED     of the random test and of the power cuts (the time of day)
set -eu
build=${1:?usage: test/crash/run.sh BUILD_DIR [SECONDS [SEED]]}
seconds=${2:-300}
seed=${3:-$(date +%s)}
tests="$build/test/crash"
echo "seed $seed"
DRA_CRASH_FULL=1 "$tests/crash_test" --gtest_brief=1
if [ -x "$tests/nvidia_crash_test" ]; then DRA_CRASH_FULL=1 "$tests/nvidia_crash_test" --gtest_brief=1; fi
DRA_CRASH_STATES=64 DRA_CRASH_SEED="$((seed % 1000000))" "$tests/power_cut_test" --gtest_brief=1
DRA_CRASH_SECONDS="$seconds" DRA_CRASH_SEED="$seed" "$tests/random_crash_test" --gtest_brief=1
