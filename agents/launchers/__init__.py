"""Start of several learners: their processes are watched, and started again when one is lost.

launcher     learners on this machine
ray_session  the connection with Ray, which is started if no cluster runs
ray_cluster  learners on the nodes of Ray
"""
