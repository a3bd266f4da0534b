"""Several learners that train one policy: processes of one machine, or of many.

cluster          which learners there are, and where
connection       messages between two learners
rendezvous       how learners find each other, and agree on what they train
group            the learners of a run: who is still there, and why not
exchange         sums of arrays over learners: the interface
shared_exchange  in memory that the processes of one machine share
ring_exchange    in a ring of connections between machines
group_reducer    the exchange as operations of the graph
"""
