"""What tests share: small networks, brute force, files."""
