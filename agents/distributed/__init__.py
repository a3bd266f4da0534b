"""Several learners that train one policy: processes of one machine, or of many.

cluster             ranks and addresses of the learners of a run
team_reducer        learners' reductions, and their common stop
shared_exchange     sums of arrays in memory that the processes of one machine share
shared_reducer      that memory as operations of the graph
collective_reducer  TensorFlow's collective operations between machines
launcher            start and restart of learners on this machine
ray_cluster         learners on the nodes of Ray
ray_session         the connection with Ray, which is started if no cluster runs
"""
