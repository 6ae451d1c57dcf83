"""The first page: what was found in plain sentences, what that covers, and room to sign."""
