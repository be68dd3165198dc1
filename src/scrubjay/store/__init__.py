"""What is kept: the catalog of the fleet and the server's tapes.

Every change is an event with a number and an instant. A fact (a pod's name, its status, a runner's link) is a row that
begins with one event and ends with another; it is closed, never overwritten, so every instant of the past can be read.
"""
