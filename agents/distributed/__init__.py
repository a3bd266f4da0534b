"""Several learners that train one policy: processes of one machine, or of many.

cluster             the learners of a run, and where they are
team_reducer        what learners reduce, and how they stop together
shared_exchange     sums of arrays in memory that the processes of one machine share
shared_reducer      that memory as operations of the graph
collective_reducer  TensorFlow's collective operations between machines
"""
