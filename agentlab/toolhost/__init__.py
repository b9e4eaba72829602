"""Running users' callables: in a child process that can be killed, inside a sandbox, or in this process.

``client`` holds :class:`~agentlab.toolhost.client.ProcessToolHost`, ``outcome`` what a sandbox needs, ``inprocess``
the host of simulations. Nothing is imported here: the child's start-up is part of every recovery.
"""
