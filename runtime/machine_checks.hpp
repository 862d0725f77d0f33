#pragma once

#include "runtime/doctor.hpp"

// What `troupe doctor` looks at, one function a line of its report. None fails or changes anything that lasts.

namespace troupe {

finding check_cores();          ///< that this process may use
finding check_memory();         ///< available now
finding check_shared_memory();  ///< /dev/shm
finding check_open_files();
finding check_locked_memory();
finding check_loopback();      ///< a port on 127.0.0.1 can be bound
finding check_pidfd();         ///< Linux 5.3
finding check_ptrace_scope();  ///< UCX's cma copies between processes
finding check_run_folder();    ///< the current folder is writable
finding check_ucx();
finding check_cuda();
finding check_nccl();

}  // namespace troupe
