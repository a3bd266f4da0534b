"""What is wrong with an environment, or makes it hard to learn, as `agents check` prints it.

finding       what to change
scale         how large numbers are, and how much they change
random_steps  steps with random actions
rules         whether an environment keeps Gymnasium's rules, and seeds
learnability  whether actions, observations, rewards and episodes suit a policy
inspection    all of these
report        what is printed
"""
