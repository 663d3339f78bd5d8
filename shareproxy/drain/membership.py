"""Decide what a member of a share group does: joins, beats, leaves."""
