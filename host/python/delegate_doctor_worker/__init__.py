"""The worker of Delegate Doctor: exports, lowers and runs PyTorch programs for its host.

The host starts it as a child process and talks to it in JSON lines; tensors travel in files. See
``serve`` for the protocol and the other modules for one request each. It needs torch and executorch
and nothing else.
"""

PROTOCOL = 1
