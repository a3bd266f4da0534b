import os

# Programs are compiled for single use here: XLA's optimisations take longer than they save. Workers
# and commands that tests start inherit this; numbers of one process and another stay equal, since
# all of them do.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)
