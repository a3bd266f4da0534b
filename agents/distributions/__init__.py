"""Action distributions.

distribution             interface of a batch of distributions
parametric_distribution  interface between networks and distributions
factory                  the choice by action space and the setting `policy`
gaussian                 normal distributions over a Box, clipped to its bounds
squashed_gaussian        normal distributions through tanh, over a bounded Box
beta                     Beta distributions over a bounded Box
categorical              one or several choices: Discrete and MultiDiscrete
bernoulli                independent bits: MultiBinary
joint                    the leaves of a Dict or Tuple
box                      from vectors to elements of a Box
"""
