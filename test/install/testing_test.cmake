# Installs the components Development and Testing to a prefix, builds a program outside of the tree against dra::testing
# and runs it.
#   -DBUILD=<build folder> -DSOURCE=<source folder> -DWORK=<folder> -DCOMPILER_CXX=
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}\n${err}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
foreach(component Development Testing)
  run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix" --component ${component})
endforeach()
run("${CMAKE_COMMAND}" -G Ninja -S "${SOURCE}/test/install/consumer" -B "${WORK}/consumer"
    "-DCMAKE_PREFIX_PATH=${WORK}/prefix" "-DCMAKE_CXX_COMPILER=${COMPILER_CXX}" -DCMAKE_BUILD_TYPE=Debug)
run("${CMAKE_COMMAND}" --build "${WORK}/consumer")
run("${WORK}/consumer/doubles_user")
