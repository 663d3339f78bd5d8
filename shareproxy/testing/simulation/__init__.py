"""The rooms of the simulated cluster; `shareproxy.testing.simulated` is its front door."""
