"""Vector environments of other libraries, as the graph takes them.

autoreset     same-step autoreset for any vector environment
envpool_env   EnvPool's environments
packing       steps of any vector environment as one block of bytes
"""
