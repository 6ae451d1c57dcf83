"""What a certificate claims, of which files: read, handed to the rules, said in words."""
