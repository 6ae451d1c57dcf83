"""Claims over points and networks: read, decided, recorded."""
