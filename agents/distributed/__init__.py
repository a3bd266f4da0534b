"""Several learners that train one policy: processes of one machine, or of many.

cluster             the learners of a run, and where they are
team_reducer        what learners reduce, and how they stop together
shared_exchange     sums of arrays in memory that the processes of one machine share
shared_reducer      that memory as operations of the graph
collective_reducer  TensorFlow's collective operations between machines
launcher            start of learners on this machine, and again when one is lost
ray_cluster         learners on the nodes of Ray
ray_session         the connection with Ray, which is started if no cluster runs
"""
