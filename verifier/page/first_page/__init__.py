"""The first page: the findings in plain sentences, their scope, and lines to sign."""
