# Runs PROGRAM on CONFIG into the fresh folder RUN, with OPTIONS; fails unless it exits with 0 and the last loss lies
# between LOW and HIGH.
file(REMOVE_RECURSE ${RUN})
execute_process(COMMAND ${PROGRAM} run ${CONFIG} --run-dir ${RUN} ${OPTIONS} RESULT_VARIABLE code ERROR_VARIABLE words)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "exit code ${code}\n${words}")
endif()
file(STRINGS ${RUN}/metrics.jsonl lines)
list(POP_BACK lines last)
string(JSON loss GET ${last} loss)
message(STATUS "last loss ${loss}, expected ${LOW} to ${HIGH}")
if(loss LESS LOW OR loss GREATER HIGH)
  message(FATAL_ERROR "the last loss ${loss} is not between ${LOW} and ${HIGH}\n${words}")
endif()
