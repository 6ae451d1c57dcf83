"""The native engine: branch and bound over regions, sets of members and tied phases."""
