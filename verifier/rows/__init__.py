"""What results prove of each training row."""
